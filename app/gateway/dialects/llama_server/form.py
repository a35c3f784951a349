"""The forms of llama-server's own routes, where its words for an end and for a mistake are other than OpenAI's."""

import re

import msgspec

from app.gateway.dialects.form import Refusal
from app.gateway.dialects.openai.form import OPENAI, OpenAI

CONTENT = "content"
"""What llama-server calls a text."""
_ADDS_MARKS = "add_special"
_LAST = b'"stop":true'
"""Inside a text the quotes would have backslashes before them."""
_SERVER_ERROR = 500
_OUT_OF_RANGE = re.compile(rb"_M_range_check|invalid vector subscript|\"vector\"")
"""What a look into its vocabulary throws, by the standard library that it was compiled with: GNU's, MSVC's, LLVM's."""
_NO_TOKEN = (
    b'{"error":{"message":"`tokens` names one that the model does not have.",'
    b'"type":"invalid_request_error","param":"tokens","code":"invalid_value"}}'
)


class Infill(OpenAI, frozen=True, kw_only=True):
    """`app.gateway.dialects.form.Form` for `/infill`: no `[DONE]` ends its stream, the last event says that it is."""

    prompt: str = "input_prefix"

    def is_complete(self, tail: bytes) -> bool:
        """Tell whether a stream said that it was over."""
        return _LAST in tail or super().is_complete(tail)


class Detokenize(OpenAI, frozen=True, kw_only=True):
    """`app.gateway.dialects.form.Form` for `/detokenize`: a number beyond the vocabulary is the caller's mistake.

    `text_field` is what the engine calls the text.
    """

    text_field: str = CONTENT

    def whole(self, body: bytes) -> bytes:
        """Return the text under llama-server's name."""
        return body if self.text_field == CONTENT else _under(msgspec.json.decode(body), self.text_field, CONTENT)

    def refusal(self, body: bytes, status: int) -> Refusal:
        """Return OpenAI's error document."""
        is_beyond = status == _SERVER_ERROR and _OUT_OF_RANGE.search(body) is not None
        return OPENAI.refusal(_NO_TOKEN, 400) if is_beyond else super().refusal(body, status)


def renamed(fields: dict[str, msgspec.Raw], text_field: str) -> bytes:
    """Return a text to be tokenised as vLLM and SGLang take it, which add a model's marks unless told not to."""
    marks = fields.get(_ADDS_MARKS, msgspec.Raw(b"false"))
    return _under({**fields, "add_special_tokens": marks}, CONTENT, text_field)


def _under(fields: dict[str, object] | dict[str, msgspec.Raw], name: str, other: str) -> bytes:
    return msgspec.json.encode({(other if field == name else field): value for field, value in fields.items()})
