"""llama.cpp's chats and plain completions as OpenAI's document has them.

Chats get keys that are always there, and reasoning by both its names: clients read llama-server's and DeepSeek's
`reasoning_content`, or Ollama's and MLX's `reasoning`. Bytes are mended where they stand; a chunk without reasoning
costs one search. Of completions llama.cpp puts the log probabilities as a chat's, names them like chats, and tells the
counts of a stream in its last piece whether or not they were asked for. Here they are the four old lists, and the
counts an event of their own.
"""

import re
from collections import defaultdict

import msgspec

from app.gateway.dialects.form import Editor
from app.gateway.dialects.openai.form import END, OpenAI, as_event
from app.gateway.dialects.openai.multi_choice import Counts, Totals

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
        edit = _OneCall() if self.one_call else _ChatStream()
        return Totals(edit, each=self.each) if self.each else edit


CHAT, ONE_CALL = Chat(), Chat(one_call=True)


class _ChatStream:
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
        self._stream = _ChatStream()
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


_DATA = b"data:"
_DONE = b"[DONE]"
_NOTHING = b"null"
"""What llama.cpp begins a stream with that answers several prompts."""
_EMPTY_EVENT = b"data: null\n\n"
_CHAT_ID, _ID = "chatcmpl-", "cmpl-"

Fields = dict[str, object]


class _Likely(msgspec.Struct, frozen=True):
    token: str = ""
    logprob: float = 0.0
    top_logprobs: list["_Likely"] = []


class _Logprobs(msgspec.Struct, frozen=True):
    content: list[_Likely] | None = None


class _Choice(msgspec.Struct, frozen=True, kw_only=True):
    text: str = ""
    index: int = 0
    logprobs: _Logprobs | None = None
    finish_reason: str | None = None


class _Choices(msgspec.Struct, frozen=True):
    choices: list[_Choice]


class Texts(OpenAI, frozen=True, kw_only=True):
    """`app.gateway.dialects.form.Form` for one request."""

    includes_usage: bool = False
    is_only_chosen: bool = False
    """Whether log probabilities are told of the tokens that were written alone."""
    prompt: str = "prompt"

    def whole(self, body: bytes) -> bytes:
        """Return the document, mended; one that is no completion as it is."""
        fields = _Mender(is_only_chosen=self.is_only_chosen).mended(body)
        return body if fields is None else msgspec.json.encode(fields)

    def _mender(self) -> Editor:
        """Return what mends one stream."""
        return _TextStream(self)


class AsWritten(OpenAI, frozen=True, kw_only=True):
    """The form where llama.cpp's completions are passed on as they are, but for an event of nothing."""

    prompt: str = "prompt"

    def _mender(self) -> Editor:
        """Return what leaves that out of one stream: it comes first, if at all."""
        return _without_nothing


class _Mender:
    """Mends the pieces of one answer; `text_offset` counts characters of each choice from its beginning."""

    def __init__(self, *, is_only_chosen: bool) -> None:
        self._is_only_chosen = is_only_chosen
        self._offsets: dict[int, int] = defaultdict(int)

    def mended(self, document: bytes) -> dict[str, object] | None:
        """Return the fields of a completion as they should be; None for anything else."""
        try:
            fields: Fields = dict(msgspec.json.decode(document, type=dict[str, msgspec.Raw]))
            choices = msgspec.json.decode(document, type=_Choices).choices
        except msgspec.MsgspecError:
            return None
        name = msgspec.json.decode(msgspec.json.encode(fields.get("id")))
        if isinstance(name, str):
            fields["id"] = _ID + name.removeprefix(_CHAT_ID).removeprefix(_ID)
        return {**fields, "choices": [self._choice(one) for one in choices]}

    def _choice(self, choice: _Choice) -> Fields:
        told = choice.logprobs.content if choice.logprobs is not None else None
        return {
            "text": choice.text,
            "index": choice.index,
            "logprobs": None if told is None else self._lists(told, choice.index),
            "finish_reason": choice.finish_reason,
        }

    def _lists(self, told: list[_Likely], index: int) -> Fields:
        offsets = []
        for one in told:
            offsets.append(self._offsets[index])
            self._offsets[index] += len(one.token)
        return {
            "tokens": [one.token for one in told],
            "token_logprobs": [one.logprob for one in told],
            "top_logprobs": [self._likeliest(one) for one in told],
            "text_offset": offsets,
        }

    def _likeliest(self, one: _Likely) -> Fields:
        return {top.token: top.logprob for top in ([one] if self._is_only_chosen else one.top_logprobs)}


class _TextStream:
    """Mends whole events at a time, and keeps the counts for the end."""

    def __init__(self, form: Texts) -> None:
        self._includes_usage = form.includes_usage
        self._counts_each = Counts(form.each) if form.each else None
        self._mender = _Mender(is_only_chosen=form.is_only_chosen)
        self._rest = b""
        self._last: Fields | None = None

    def __call__(self, chunk: bytes) -> bytes:
        """Return what to send for a chunk."""
        *events, self._rest = (self._rest + chunk).split(END)
        return b"".join(self._event(one.strip()) for one in events)

    def _event(self, raw: bytes) -> bytes:
        document = raw.removeprefix(_DATA).strip()
        if document == _DONE:
            return self._counts() + raw + END
        if document == _NOTHING:
            return b""
        fields = self._mender.mended(document) if raw.startswith(_DATA) else None
        if fields is None:  # a comment, or an error
            return raw + END
        if "usage" in fields:
            self._last = dict(fields)
            usage = fields.pop("usage")
            if self._counts_each is not None:
                self._counts_each.add(msgspec.json.decode(msgspec.json.encode(usage)))
        return as_event(fields)

    def _counts(self) -> bytes:
        """Return the event of counts."""
        if self._last is None or not self._includes_usage:
            return b""
        total = {} if self._counts_each is None else {"usage": self._counts_each.total()}
        return as_event({**self._last, "choices": [], **total})


def _without_nothing(chunk: bytes) -> bytes:
    return chunk.removeprefix(_EMPTY_EVENT)
