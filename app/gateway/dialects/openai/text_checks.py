"""What of a completion is checked before an engine sees it, as `chat_checks` does of a chat."""

from typing import Annotated, Any

import msgspec

from app.core.errors import BadRequest
from app.gateway.dialects.openai.chat_request import wrong
from app.gateway.dialects.openai.ranges import Answers, Bias, Most, Penalty, Share, Temperature, without_empty


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """The part of a completion that has limits, or means something that no engine heeds."""

    n: Answers | None = None
    max_tokens: Most | None = None
    temperature: Temperature | None = None
    top_p: Share | None = None
    presence_penalty: Penalty | None = None
    frequency_penalty: Penalty | None = None
    logprobs: Annotated[int, msgspec.Meta(ge=0, le=5)] | bool | None = None
    logit_bias: Bias | None = None
    stop: str | list[str] | None = None
    stream_options: dict[str, Any] | None = None
    echo: bool | None = None
    best_of: int | None = None

    @property
    def includes_usage(self) -> bool:
        """Tell whether a stream is to end with its counts."""
        return bool((self.stream_options or {}).get("include_usage"))

    @property
    def is_only_chosen(self) -> bool:
        """Whether log probabilities are wanted of the tokens that were written, and of no others."""
        return self.logprobs is not None and not isinstance(self.logprobs, bool) and self.logprobs == 0


def checked(body: bytes, asked: Asked) -> bytes:
    """Return the body an engine is sent, the same bytes nearly always. Raises BadRequest for what none would heed."""
    if asked.echo or (asked.best_of or 1) > 1:
        name = "echo" if asked.echo else "best_of"
        raise BadRequest(f"`{name}` is not possible here.", code="unsupported_parameter")
    if asked.max_tokens == 0:
        raise wrong("`max_tokens` must be at least 1.")
    said: dict[str, object] = {}
    if (stops := without_empty(asked.stop)) is not None:
        said["stop"] = stops
    if asked.is_only_chosen:
        said["logprobs"] = 1  # with none llama.cpp tells nothing
    if not said:
        return body
    return msgspec.json.encode({**msgspec.json.decode(body, type=dict[str, msgspec.Raw]), **said})
