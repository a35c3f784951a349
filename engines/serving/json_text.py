"""Strict JSON: what RFC 8259 allows and nothing else; no NaN, no depth that exhausts the stack."""

import json

from engines.serving.refusals import Refused, invalid


def parse_object(body: bytes) -> dict[str, object]:
    """Return a JSON object. Raises Refused."""
    try:
        found = json.loads(body.decode(), parse_constant=_not_json)
    except (UnicodeDecodeError, ValueError, RecursionError) as error:
        raise _no_json(error) from None
    if not isinstance(found, dict):
        raise invalid("The body is not a JSON object.", code="invalid_json")
    return found


def compact(document: object) -> bytes:
    """Return a document's bytes without spaces; characters beyond ASCII as they are."""
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


def _not_json(text: str) -> object:
    raise ValueError(f"{text} is not a JSON value")


def _no_json(error: Exception) -> Refused:
    return invalid(f"The body is not JSON: {error}.", code="invalid_json")
