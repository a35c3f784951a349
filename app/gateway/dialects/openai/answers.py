"""llama.cpp's chats and plain completions as OpenAI's document has them.

Chats get keys that are always there, and reasoning by both its names: clients read llama-server's and DeepSeek's
`reasoning_content`, or Ollama's and MLX's `reasoning`. Bytes are mended where they stand; a chunk without reasoning
costs one search. Of completions llama.cpp puts the log probabilities as a chat's, names them like chats, and tells the
counts of a stream in its last piece whether or not they were asked for. Here they are the four old lists, and the
counts an event of their own.
"""

import re
from collections import defaultdict
from collections.abc import Sequence

import msgspec

from app.gateway.dialects.form import StreamEditor
from app.gateway.dialects.openai.form import END, ERROR, OpenAIForm, as_event, with_own_words
from app.gateway.dialects.openai.multi_choice import UsageSum, UsageTotalEditor
from app.gateway.dialects.openai.record import dialect_for_field
from app.gateway.dialects.record import DialectRecord

_REASONING_KEY = b'"reasoning_content":"'
_OTHER_NAME = b'"reasoning":'
_REASONING_FIELD = re.compile(rb'"reasoning_content":("[^"\\]*(?:\\.[^"\\]*)*")', re.DOTALL)
"""Inside a text every quote has a backslash before it, so that no answer can look like a key."""
_UNFINISHED_REASONING = re.compile(rb'"reasoning_content":"[^"\\\n]*(?:\\.[^"\\\n]*)*\\?\Z')
"""A text whose end is still to come. That of a line is none."""
_BOTH_NAMES = rb'"reasoning_content":\1,"reasoning":\1'
_FIRST_DELTA, _FIRST_DELTA_FIXED = (
    b'"delta":{"role":"assistant","content":null}',
    b'"delta":{"role":"assistant","content":""}',
)
_MESSAGE, _REFUSAL = b'"message":{"role":"assistant",', b'"refusal"'
_MESSAGE_FIXED = b'"message":{"role":"assistant","refusal":null,'
_END = b"\n\n"
_CALLS = b'"tool_calls":['
_LATER_CALL = re.compile(rb'"tool_calls":\[\{"index":[1-9]')
_CHOICE, _CHOICE_FIXED, _LOGPROBS = b'{"finish_reason":', b'{"logprobs":null,"finish_reason":', b'"logprobs":'


class OpenAIChatForm(OpenAIForm, frozen=True, kw_only=True):
    """`AnswerForm` for chats. With `one_call`, whatever calls follow an answer's first are left out."""

    one_call: bool = False

    def whole(self, body: bytes) -> bytes:
        """Return the document with what it lacks."""
        body = super().whole(body)
        if _REFUSAL not in body:
            body = body.replace(_MESSAGE, _MESSAGE_FIXED)
        if _LOGPROBS not in body:
            body = body.replace(_CHOICE, _CHOICE_FIXED)
        return _with_both_names(_first_calls(body) if self.one_call else body)

    def editor(self) -> StreamEditor:
        """Return what mends one stream: of a plain chat in one pass."""
        if self.one_call or self.each:
            return super().editor()
        return _ChatStreamEditor(dialect_for_field(self.prompt))

    @property
    def edit_marks(self) -> Sequence[bytes]:
        """Return what stands in errors and in reasoning, of a plain chat."""
        return () if self.one_call or self.each else (ERROR, _REASONING_KEY)

    def _make_editor(self) -> StreamEditor:
        """Return what mends an answer that goes well."""
        edit = _OneCallEditor() if self.one_call else _ChatStreamEditor()
        return UsageTotalEditor(edit, each=self.each) if self.each else edit


CHAT, ONE_CALL = OpenAIChatForm(), OpenAIChatForm(one_call=True)


class _ChatStreamEditor:
    """With a dialect, the stream may say that the prompt is too long."""

    def __init__(self, dialect: DialectRecord | None = None) -> None:
        self._dialect = dialect
        self._has_begun = False
        self._rest = b""

    def __call__(self, chunk: bytes) -> bytes:
        """Return what to send for a chunk. A text that is cut waits for its end."""
        if ERROR in chunk and self._dialect is not None:
            chunk = with_own_words(chunk, self._dialect)
        if not self._has_begun:
            self._has_begun = True
            chunk = chunk.replace(_FIRST_DELTA, _FIRST_DELTA_FIXED)
        if self._rest:
            chunk, self._rest = self._rest + chunk, b""
        if _REASONING_KEY not in chunk:
            return chunk
        if not chunk.endswith(_END) and (cut := _UNFINISHED_REASONING.search(chunk)):
            chunk, self._rest = chunk[: cut.start()], chunk[cut.start() :]
        return _with_both_names(chunk)


class _OneCallEditor:
    """Mends whole events, and leaves out those of later calls."""

    def __init__(self) -> None:
        self._stream = _ChatStreamEditor()
        self._rest = b""

    def __call__(self, chunk: bytes) -> bytes:
        """Return what to send for a chunk."""
        *events, self._rest = (self._rest + chunk).split(_END)
        remaining_events = [event + _END for event in events if _LATER_CALL.search(event) is None]
        return self._stream(b"".join(remaining_events)) if remaining_events else b""


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
    if _REASONING_KEY not in body or _OTHER_NAME in body:
        return body
    return _REASONING_FIELD.sub(_BOTH_NAMES, body)


_DATA = b"data:"
_DONE = b"[DONE]"
_NOTHING = b"null"
"""What llama.cpp begins a stream with that answers several prompts."""
_EMPTY_EVENT = b"data: null\n\n"
_CHAT_ID, _ID = "chatcmpl-", "cmpl-"

Fields = dict[str, object]


class _CompletionToken(msgspec.Struct, frozen=True):
    token: str = ""
    logprob: float = 0.0
    top_logprobs: list["_CompletionToken"] = []


class _CompletionLogprobs(msgspec.Struct, frozen=True):
    content: list[_CompletionToken] | None = None


class _CompletionChoice(msgspec.Struct, frozen=True, kw_only=True):
    text: str = ""
    index: int = 0
    logprobs: _CompletionLogprobs | None = None
    finish_reason: str | None = None


class _CompletionChoices(msgspec.Struct, frozen=True):
    choices: list[_CompletionChoice]


class OpenAICompletionForm(OpenAIForm, frozen=True, kw_only=True):
    """`app.gateway.dialects.form.AnswerForm` for one request."""

    includes_usage: bool = False
    is_only_chosen: bool = False
    """Whether log probabilities are told of the tokens that were written alone."""
    prompt: str = "prompt"

    def whole(self, body: bytes) -> bytes:
        """Return the document, mended; one that is no completion as it is."""
        fields = _CompletionRewriter(is_only_chosen=self.is_only_chosen).rewrite_document(body)
        return body if fields is None else msgspec.json.encode(fields)

    def _make_editor(self) -> StreamEditor:
        """Return what mends one stream."""
        return _CompletionStreamEditor(self)


class RawCompletionForm(OpenAIForm, frozen=True, kw_only=True):
    """The form where llama.cpp's completions are passed on as they are, but for an event of nothing."""

    prompt: str = "prompt"

    def _make_editor(self) -> StreamEditor:
        """Return what leaves that out of one stream: it comes first, if at all."""
        return _without_nothing


class _CompletionRewriter:
    """Mends the pieces of one answer; `text_offset` counts characters of each choice from its beginning."""

    def __init__(self, *, is_only_chosen: bool) -> None:
        self._is_only_chosen = is_only_chosen
        self._offsets: dict[int, int] = defaultdict(int)

    def rewrite_document(self, document: bytes) -> dict[str, object] | None:
        """Return the fields of a completion as they should be; None for anything else."""
        try:
            fields: Fields = dict(msgspec.json.decode(document, type=dict[str, msgspec.Raw]))
            choices = msgspec.json.decode(document, type=_CompletionChoices).choices
        except msgspec.MsgspecError:
            return None
        name = msgspec.json.decode(msgspec.json.encode(fields.get("id")))
        if isinstance(name, str):
            fields["id"] = _ID + name.removeprefix(_CHAT_ID).removeprefix(_ID)
        return {**fields, "choices": [self._rewrite_choice(choice) for choice in choices]}

    def _rewrite_choice(self, choice: _CompletionChoice) -> Fields:
        tokens = choice.logprobs.content if choice.logprobs is not None else None
        return {
            "text": choice.text,
            "index": choice.index,
            "logprobs": None if tokens is None else self._logprob_lists(tokens, choice.index),
            "finish_reason": choice.finish_reason,
        }

    def _logprob_lists(self, tokens: list[_CompletionToken], index: int) -> Fields:
        offsets = []
        for token in tokens:
            offsets.append(self._offsets[index])
            self._offsets[index] += len(token.token)
        return {
            "tokens": [token.token for token in tokens],
            "token_logprobs": [token.logprob for token in tokens],
            "top_logprobs": [self._top_logprobs(token) for token in tokens],
            "text_offset": offsets,
        }

    def _top_logprobs(self, token: _CompletionToken) -> Fields:
        return {top.token: top.logprob for top in ([token] if self._is_only_chosen else token.top_logprobs)}


class _CompletionStreamEditor:
    """Mends whole events at a time, and keeps the counts for the end."""

    def __init__(self, form: OpenAICompletionForm) -> None:
        self._includes_usage = form.includes_usage
        self._counts_each = UsageSum(form.each) if form.each else None
        self._rewriter = _CompletionRewriter(is_only_chosen=form.is_only_chosen)
        self._rest = b""
        self._last: Fields | None = None

    def __call__(self, chunk: bytes) -> bytes:
        """Return what to send for a chunk."""
        *events, self._rest = (self._rest + chunk).split(END)
        return b"".join(self._edit_event(event.strip()) for event in events)

    def _edit_event(self, raw: bytes) -> bytes:
        document = raw.removeprefix(_DATA).strip()
        if document == _DONE:
            return self._counts_event() + raw + END
        if document == _NOTHING:
            return b""
        fields = self._rewriter.rewrite_document(document) if raw.startswith(_DATA) else None
        if fields is None:  # a comment, or an error
            return raw + END
        if "usage" in fields:
            self._last = dict(fields)
            usage = fields.pop("usage")
            if self._counts_each is not None:
                self._counts_each.add_usage(msgspec.json.decode(msgspec.json.encode(usage)))
        return as_event(fields)

    def _counts_event(self) -> bytes:
        """Return the event of counts."""
        if self._last is None or not self._includes_usage:
            return b""
        total = {} if self._counts_each is None else {"usage": self._counts_each.total_usage()}
        return as_event({**self._last, "choices": [], **total})


def _without_nothing(chunk: bytes) -> bytes:
    return chunk.removeprefix(_EMPTY_EVENT)
