"""What a client is told instead of an answer, in OpenAI's shape, with llama-server's word for a prompt too long."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus


@dataclass(slots=True)
class Refused(Exception):
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


def invalid(message: str, param: str | None = None, *, code: str = "invalid_value") -> Refused:
    """Return the refusal of a request that makes no sense."""
    return Refused(HTTPStatus.BAD_REQUEST, message, code=code, param=param)


def unsupported(what: str, param: str) -> Refused:
    """Return the refusal of something this engine lacks; it is never left out in silence."""
    return invalid(f"This engine does not support {what}.", param, code="engine_cannot")


def too_long(tokens: int, context: int) -> Refused:
    """Return the refusal of a prompt that leaves no room for an answer, with both counts."""
    return Refused(
        HTTPStatus.BAD_REQUEST,
        f"the request ({tokens} tokens) exceeds the available context size ({context} tokens)",
        kind="exceed_context_size_error",
        param="messages",
        extra={"n_prompt_tokens": tokens, "n_ctx": context},
    )


def loading() -> Refused:
    """Return the answer to whatever comes before the model is there."""
    return Refused(HTTPStatus.SERVICE_UNAVAILABLE, "Loading model", kind="unavailable_error")


def failed(message: str) -> Refused:
    """Return what is said when the library fails in the middle of its work."""
    return Refused(HTTPStatus.INTERNAL_SERVER_ERROR, message, kind="server_error")
