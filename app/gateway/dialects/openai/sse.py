"""One event of a stream, as OpenAI's clients read it."""

import msgspec

END = b"\n\n"
"""What ends an event."""
_ENCODER = msgspec.json.Encoder()


def as_event(data: object) -> bytes:
    """Return a document as an event."""
    return b"data: " + _ENCODER.encode(data) + END
