"""The gateway's log: one JSON object per line, rotated, and nothing secret in it.

Standard `logging` throughout: `log.info("Model loaded", extra={"model": name})`. Whatever `extra` holds under a name
like token or key is blanked before it is written, and so is an engine's own sentence about a request, which may quote
it. Warnings also go to stderr, as text that cannot move a terminal's cursor. What a client named is cut.
"""

import logging
import re
import sys
import traceback
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

import msgspec
from aiohttp.http_exceptions import HttpProcessingError

from app.gateway.exchange.observer import ExchangeSink, Observation, RequestStopped
from app.supervisor.logs import LossyFile

log = logging.getLogger(__name__)

FILE_BYTES = 4 * 1024 * 1024
FILES_KEPT = 3
HIDDEN = "(hidden)"
LONGEST_TEXT = 4096
"""Clients name models and options as they like: one of 30 MB would fill the file."""
QUOTING = frozenset({"engine_error", "engine_refused", "engine_busy", "unparsed_answer"})
"""Codes of errors whose sentence is an engine's: llama-server's ends with the answer it could not parse."""
WITHOUT_WORDS = "An engine answered with an error; whoever asked was told its words."
_LONGEST_TRACEBACK = 64 * 1024

_SECRET = re.compile(r"(^|[_-])(api[_-]?key|key|token|secret|password|authorization|cookie)s?$", re.IGNORECASE)
_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


class JsonLines(logging.Formatter):
    """Formats a record as one line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line, without its newline."""
        fields: dict[str, object] = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "from": record.name,
            "message": message_of(record),
        }
        fields.update((key, value) for key, value in vars(record).items() if key not in _STANDARD)
        if record.exc_info and record.exc_info[0]:
            fields["traceback"] = "".join(traceback.format_exception(*record.exc_info))
        return msgspec.json.encode(redact_secrets(fields), enc_hook=str).decode()


class PlainText(logging.Formatter):
    """Formats a record for a terminal, without the control characters that clients may have put into a name."""

    def __init__(self) -> None:
        super().__init__("%(levelname)s: %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 -- overrides logging's name
        """Return the line, without a traceback."""
        text = "".join(letter if letter.isprintable() else " " for letter in message_of(record))
        return f"{record.levelname}: {text}"


def message_of(record: logging.LogRecord) -> str:
    """Return what a record says, without words that are somebody's."""
    return WITHOUT_WORDS if getattr(record, "code", "") in QUOTING else record.getMessage()[:LONGEST_TEXT]


def redact_secrets(value: object) -> object:
    """Return `value` with everything blanked that a mapping keeps under the name of a secret, and long texts cut."""
    if isinstance(value, Mapping):
        return {str(key): HIDDEN if _SECRET.search(str(key)) else redact_secrets(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [redact_secrets(item) for item in value]
    return value[:_LONGEST_TRACEBACK] if isinstance(value, str) else value


def is_ours_to_mend(record: logging.LogRecord) -> bool:
    """Tell whether aiohttp reports more than a client that left, or one that does not speak HTTP."""
    error = record.exc_info[1] if record.exc_info else None
    return not isinstance(error, (ConnectionError, HttpProcessingError))


def open_journal(file: Path) -> logging.Handler:
    """Send records from INFO on to `file`, warnings to stderr too. Return the file's handler, to be closed."""
    handler = LossyFile(file, maxBytes=FILE_BYTES, backupCount=FILES_KEPT, encoding="utf-8", delay=True)
    handler.setFormatter(JsonLines())
    stderr_handler = logging.StreamHandler(sys.stderr)
    stderr_handler.setLevel(logging.WARNING)
    stderr_handler.setFormatter(PlainText())
    logging.getLogger("aiohttp.server").addFilter(is_ours_to_mend)
    logging.basicConfig(level=logging.INFO, handlers=[handler, stderr_handler])
    return handler


class JournalSink(ExchangeSink):
    """Writes down what clients were told in streams that had begun; what is refused before, `entry` writes down."""

    def on_end(self, exchange: Observation) -> None:
        """Write down what went wrong."""
        if exchange.code_in_stream not in {"", RequestStopped.default_code}:
            log.error(exchange.error, extra={"code": exchange.code_in_stream, "model": exchange.model})
