"""The forms of llama-server's own routes, where its words for an end and for a mistake are other than OpenAI's."""

from app.gateway.dialects.openai.form import OPENAI, OpenAI
from app.gateway.relay.form import Refusal

_LAST = b'"stop":true'
"""Inside a text the quotes would have backslashes before them."""
_SERVER_ERROR = 500
_NO_TOKEN = (
    b'{"error":{"message":"`tokens` names one that the model does not have.",'
    b'"type":"invalid_request_error","param":"tokens","code":"invalid_value"}}'
)


class Infill(OpenAI, frozen=True, kw_only=True):
    """`app.gateway.relay.form.Form` for `/infill`: no `[DONE]` ends its stream, the last event says that it is."""

    prompt: str = "input_prefix"

    def is_complete(self, tail: bytes) -> bool:
        """Tell whether a stream said that it was over."""
        return _LAST in tail or super().is_complete(tail)


class Detokenize(OpenAI, frozen=True, kw_only=True):
    """`app.gateway.relay.form.Form` for `/detokenize`: a server error means a number beyond the vocabulary."""

    def refusal(self, body: bytes, status: int) -> Refusal:
        """Return OpenAI's error document."""
        return OPENAI.refusal(_NO_TOKEN, 400) if status == _SERVER_ERROR else super().refusal(body, status)
