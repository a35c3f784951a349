"""Strict JSON: what RFC 8259 allows and nothing else; no NaN, no depth that exhausts the stack."""

import json

from engines.serving.refusals import RequestRefused, invalid_request

_COMPACT = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))
"""Made once: `json.dumps` with arguments makes another at each call, and a stream calls for every piece."""


def parse_object(body: bytes) -> dict[str, object]:
    """Return a JSON object. Raises Refused."""
    try:
        document = json.loads(body.decode(), parse_constant=_refuse_constant)
    except (UnicodeDecodeError, ValueError, RecursionError) as error:
        raise _invalid_json_refusal(error) from None
    if not isinstance(document, dict):
        raise invalid_request("The body is not a JSON object.", code="invalid_json")
    return document


def encode_compact(document: object) -> bytes:
    """Return a document's bytes without spaces; characters beyond ASCII as they are."""
    return _COMPACT.encode(document).encode("utf-8", "replace")


def _refuse_constant(text: str) -> object:
    raise ValueError(f"{text} is not a JSON value")


def _invalid_json_refusal(error: Exception) -> RequestRefused:
    return invalid_request(f"The body is not JSON: {error}.", code="invalid_json")
