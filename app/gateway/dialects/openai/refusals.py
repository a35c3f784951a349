"""An engine's refusal in OpenAI's shape, and in its words where the prompt is too long."""

import msgspec

from app.gateway.dialects.form import Editor, Refusal
from app.gateway.dialects.openai.errors import error_type
from app.gateway.dialects.openai.sse import END
from app.gateway.dialects.record import DialectRecord
from app.gateway.exchange.engine.error_document import Refused, understood

_CODES = {400: "invalid_value", 501: "engine_cannot"}
"""By status, OpenAI's code for a refusal to which the engine gave only the status again."""
_DATA, ERROR_KEY = b"data:", b'{"error"'
"""Inside a text the quotes would have backslashes before them."""
_SERVER_ERROR = 500


def refusal_of(body: bytes, status: int, dialect: DialectRecord) -> Refusal:
    """Return OpenAI's error document for an engine's."""
    refused = understood(body, status)
    return Refusal(_document(refused, dialect), refused.status)


def _document(refused: Refused, dialect: DialectRecord) -> bytes:
    """Return the document, always with message, type, param and code, and all else the engine said.

    The code is text or null, as clients have it typed; llama-server's is the status as a number.
    """
    error: dict[str, object] = {
        **refused.extra,
        "message": dialect.words(refused.text, refused.overflow),
        "type": refused.kind or error_type(refused.status),
        "param": refused.param if refused.overflow is None else dialect.field,
        "code": _CODES.get(refused.code, "engine_error") if isinstance(refused.code, int) else refused.code,
    }
    return msgspec.json.encode({"error": error})


def in_own_words(edit: Editor, dialect: DialectRecord) -> Editor:
    """Return an editor of streams in which an engine may still say that the prompt is too long; all else is `edit`'s.

    An error event that comes in two pieces is passed on as it is: engines write one at once.
    """

    def edited(chunk: bytes) -> bytes:
        return edit(chunk if ERROR_KEY not in chunk else _mended(chunk, dialect))

    return edited


def _mended(chunk: bytes, dialect: DialectRecord) -> bytes:
    *events, rest = chunk.split(END)
    return b"".join(_event(raw, dialect) + END for raw in events) + rest


def _event(raw: bytes, dialect: DialectRecord) -> bytes:
    if not raw.startswith(_DATA) or ERROR_KEY not in raw:
        return raw
    refused = understood(raw[len(_DATA) :].strip(), _SERVER_ERROR)
    return raw if refused.overflow is None else _DATA + b" " + _document(refused, dialect)
