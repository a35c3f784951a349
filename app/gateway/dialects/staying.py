"""What a request may say of how long its model stays and with how much context, in dialects without words for it.

`ttl` is LM Studio's word, `keep_alive` and `options.num_ctx` are Ollama's; they mean the same wherever they are sent.
"""

from typing import Annotated

import msgspec

from app.gateway.dialects.ollama.durations import keep_alive_s

_ABSENT = msgspec.Raw()


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """Of Ollama's options the one that concerns loading."""

    num_ctx: Annotated[int, msgspec.Meta(ge=1)] | None = None


class Staying(msgspec.Struct, frozen=True, kw_only=True):
    """Base of what is read of such a request. `ttl` in seconds."""

    ttl: Annotated[float, msgspec.Meta(gt=0)] | None = None
    keep_alive: msgspec.Raw = _ABSENT
    options: Options | None = None

    @property
    def says_nothing(self) -> bool:
        """Whether it leaves both as they are."""
        return self.ttl is None and self.options is None and self.keep_alive is _ABSENT

    @property
    def keep_s(self) -> float | None:
        """How long the model is to be kept once nobody uses it. Raises BadRequest."""
        return self.ttl if self.ttl is not None else keep_alive_s(self.keep_alive)

    @property
    def context(self) -> int | None:
        """How much context is wanted, in tokens."""
        return self.options.num_ctx if self.options else None
