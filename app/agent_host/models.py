"""Import the protocol's models in half the time: each is built when it is first used.

There are 280, of which a session uses a few; building all, and looking their fields' docstrings up in the source, took
0.7 of 1.4 s of a processor at each start of an agent.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pydantic


@contextmanager
def defer_models() -> Iterator[None]:
    """Have the models that are imported meanwhile built at their first use, their fields without documentation."""
    config = pydantic.ConfigDict

    def make_config(**options: Any) -> pydantic.ConfigDict:  # noqa: ANN401 -- whatever pydantic takes
        return config(**{**options, "defer_build": True, "use_attribute_docstrings": False})

    pydantic.ConfigDict = make_config  # type: ignore[assignment,misc]
    try:
        yield
    finally:
        pydantic.ConfigDict = config  # type: ignore[misc]
