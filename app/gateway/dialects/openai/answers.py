"""llama.cpp's plain completions as OpenAI's document has them.

llama.cpp puts their log probabilities as a chat's, names them like chats, and tells the counts of a stream in its last
piece whether or not they were asked for. Here they are the four old lists, and the counts an event of their own.
"""

from collections import defaultdict

import msgspec

from app.gateway.dialects.form import Editor
from app.gateway.dialects.openai.form import OpenAI
from app.gateway.dialects.openai.multi_choice import Counts
from app.gateway.dialects.openai.sse import END, as_event

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
        return _Stream(self)


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


class _Stream:
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
