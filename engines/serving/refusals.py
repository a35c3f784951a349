"""What a client is told instead of an answer, in OpenAI's shape, with llama-server's word for a prompt too long."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus


@dataclass(slots=True)
class RequestRefused(Exception):
    """A request that is not answered: whose mistake it is, and a sentence. `extra` goes into the document as it is."""

    status: int
    message: str
    kind: str = "invalid_request_error"
    code: str | int | None = None
    param: str | None = None
    extra: Mapping[str, int] = field(default_factory=dict)

    def document(self) -> dict[str, object]:
        """Return OpenAI's error document."""
        code = self.status if self.code is None else self.code
        error = {"message": self.message, "type": self.kind, "param": self.param, "code": code, **self.extra}
        return {"error": error}


def invalid_request(message: str, param: str | None = None, *, code: str = "invalid_value") -> RequestRefused:
    """Return the refusal of a request that makes no sense."""
    return RequestRefused(HTTPStatus.BAD_REQUEST, message, code=code, param=param)


def feature_refusal(what: str, param: str) -> RequestRefused:
    """Return the refusal of something this engine lacks; it is never left out in silence."""
    return invalid_request(f"This engine does not support {what}.", param, code="engine_cannot")


def context_refusal(tokens: int, context: int) -> RequestRefused:
    """Return the refusal of a prompt that leaves no room for an answer, with both counts."""
    return RequestRefused(
        HTTPStatus.BAD_REQUEST,
        f"the request ({tokens} tokens) exceeds the available context size ({context} tokens)",
        kind="exceed_context_size_error",
        param="messages",
        extra={"n_prompt_tokens": tokens, "n_ctx": context},
    )


def not_ready_refusal() -> RequestRefused:
    """Return the answer to whatever comes before the model is there."""
    return RequestRefused(HTTPStatus.SERVICE_UNAVAILABLE, "Loading model", kind="unavailable_error")


def engine_failure(message: str) -> RequestRefused:
    """Return what is said when the library fails in the middle of its work."""
    return RequestRefused(HTTPStatus.INTERNAL_SERVER_ERROR, message, kind="server_error")
