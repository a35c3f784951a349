"""What a request may say of how long its model stays and with how much context, in dialects without words for it.

`ttl` is LM Studio's word, `keep_alive` and `options.num_ctx` are Ollama's; they mean the same wherever they are sent.
"""

from typing import Annotated

import msgspec

from app.gateway.dialects.ollama.durations import kept_s
from app.gateway.dialects.ollama.wire import ABSENT, Stay


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """Of Ollama's options the one that concerns loading."""

    num_ctx: Annotated[int, msgspec.Meta(ge=1)] | None = None


class Staying(Stay, frozen=True, kw_only=True):
    """Base of what is read of such a request."""

    options: Options | None = None

    @property
    def says_nothing(self) -> bool:
        """Whether it leaves both as they are."""
        return self.ttl is None and self.options is None and self.keep_alive is ABSENT

    @property
    def keep_s(self) -> float | None:
        """How long the model is to be kept once nobody uses it. Raises BadRequest."""
        return kept_s(self)

    @property
    def context(self) -> int | None:
        """How much context is wanted, in tokens."""
        return self.options.num_ctx if self.options else None
