"""llama.cpp's chats as OpenAI's document has them: keys that are always there, and reasoning by both its names.

Clients read one name or the other: llama-server's and DeepSeek's `reasoning_content`, or Ollama's and MLX's
`reasoning`. Bytes are mended where they stand; a chunk without reasoning costs one search.
"""

import re

import msgspec

from app.gateway.dialects.form import Editor
from app.gateway.dialects.openai.form import OpenAI
from app.gateway.dialects.openai.multi_choice import Totals

_THOUGHT = b'"reasoning_content":"'
_OTHER_NAME = b'"reasoning":'
_THOUGHTS = re.compile(rb'"reasoning_content":("[^"\\]*(?:\\.[^"\\]*)*")', re.DOTALL)
"""Inside a text every quote has a backslash before it, so that no answer can look like a key."""
_CUT = re.compile(rb'"reasoning_content":"[^"\\]*(?:\\.[^"\\]*)*\\?\Z', re.DOTALL)
"""A text whose end is still to come."""
_BOTH = rb'"reasoning_content":\1,"reasoning":\1'
_FIRST, _FIRST_MENDED = b'"delta":{"role":"assistant","content":null}', b'"delta":{"role":"assistant","content":""}'
_MESSAGE, _REFUSAL = b'"message":{"role":"assistant",', b'"refusal"'
_MESSAGE_MENDED = b'"message":{"role":"assistant","refusal":null,'
_END = b"\n\n"
_CALLS = b'"tool_calls":['
_LATER_CALL = re.compile(rb'"tool_calls":\[\{"index":[1-9]')
_CHOICE, _CHOICE_MENDED, _LOGPROBS = b'{"finish_reason":', b'{"logprobs":null,"finish_reason":', b'"logprobs":'


class Chat(OpenAI, frozen=True, kw_only=True):
    """`Form` for chats. With `one_call`, whatever calls follow an answer's first are left out."""

    one_call: bool = False

    def whole(self, body: bytes) -> bytes:
        """Return the document with what it lacks."""
        body = super().whole(body)
        if _REFUSAL not in body:
            body = body.replace(_MESSAGE, _MESSAGE_MENDED)
        if _LOGPROBS not in body:
            body = body.replace(_CHOICE, _CHOICE_MENDED)
        return _with_both_names(_first_calls(body) if self.one_call else body)

    def _mender(self) -> Editor:
        """Return what mends one stream."""
        edit = _OneCall() if self.one_call else _Stream()
        return Totals(edit, each=self.each) if self.each else edit


CHAT, ONE_CALL = Chat(), Chat(one_call=True)


class _Stream:
    def __init__(self) -> None:
        self._has_begun = False
        self._rest = b""

    def __call__(self, chunk: bytes) -> bytes:
        """Return what to send for a chunk. A text that is cut waits for its end."""
        if not self._has_begun:
            self._has_begun = True
            chunk = chunk.replace(_FIRST, _FIRST_MENDED)
        if self._rest:
            chunk, self._rest = self._rest + chunk, b""
        if _THOUGHT not in chunk:
            return chunk
        if not chunk.endswith(_END) and (cut := _CUT.search(chunk)):
            chunk, self._rest = chunk[: cut.start()], chunk[cut.start() :]
        return _with_both_names(chunk)


class _OneCall:
    """Mends whole events, and leaves out those of later calls."""

    def __init__(self) -> None:
        self._stream = _Stream()
        self._rest = b""

    def __call__(self, chunk: bytes) -> bytes:
        """Return what to send for a chunk."""
        *events, self._rest = (self._rest + chunk).split(_END)
        left = [event + _END for event in events if _LATER_CALL.search(event) is None]
        return self._stream(b"".join(left)) if left else b""


def _first_calls(body: bytes) -> bytes:
    """Return a whole answer with one call per choice."""
    if _CALLS not in body:
        return body
    fields = msgspec.json.decode(body)
    for choice in fields["choices"]:
        calls = choice["message"].get("tool_calls")
        if calls:
            choice["message"]["tool_calls"] = calls[:1]
    return msgspec.json.encode(fields)


def _with_both_names(body: bytes) -> bytes:
    if _THOUGHT not in body or _OTHER_NAME in body:
        return body
    return _THOUGHTS.sub(_BOTH, body)
