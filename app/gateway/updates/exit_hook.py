"""What the service does as its very last, when everything is closed and its lock still held: replace itself, go on.

Nothing of the service runs any more then, so nothing can read half of an old version and half of a new one.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from app.config.programs import become
from app.core.errors import RoundhouseError

if TYPE_CHECKING:
    from collections.abc import Callable

log = logging.getLogger(__name__)


class Afterwards:
    """Filled by whoever ends the service for something; nothing happens where nobody did."""

    def __init__(self) -> None:
        self.deed: Callable[[], object] | None = None
        self.goes_on = False

    def do(self) -> None:
        """Do it; where the service is to go on, this process becomes it, whatever became of the deed."""
        try:
            if self.deed is not None:
                self.deed()
        except (RoundhouseError, OSError) as error:
            log.error("The service could not be replaced: %s", error)  # noqa: TRY400 -- said in a sentence
        if self.goes_on:
            become("app.gateway", extra={"PYINSTALLER_RESET_ENVIRONMENT": "1"})
