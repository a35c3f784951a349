"""Answers in OpenAI's shapes: whole, and in events. What repeats in every event of a stream is made once."""

import itertools
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from engines.serving.answer import WorkerAnswer
from engines.serving.backend import Token
from engines.serving.json_text import encode_compact

_EVENT = b"data: %s\n\n"
DONE = b"data: [DONE]\n\n"


@dataclass(slots=True)
class AnswerShape:
    """One answer's shape: a chat's, or a bare completion's. `text_of` gives the text of a token."""

    model: str
    is_chat: bool
    text_of: Callable[[int], str]
    id: str = field(default_factory=lambda: uuid.uuid4().hex)
    created: int = field(default_factory=lambda: int(time.time()))
    _plain: tuple[bytes, bytes] = field(init=False)
    _offset: int = 0

    def __post_init__(self) -> None:
        """Make the frame that plain text goes into."""
        mark = "\x00"
        frame = encode_compact(self._chunk(mark, None, None))
        before, _, after = frame.partition(encode_compact(mark))
        self._plain = (b"data: " + before, after + b"\n\n")

    def role_event(self) -> bytes:
        """Return the event that says who speaks; bare completions have none."""
        if not self.is_chat:
            return b""
        choice = {"index": 0, "delta": {"role": "assistant", "content": ""}, "logprobs": None, "finish_reason": None}
        return _EVENT % encode_compact({**self._head(whole=False), "choices": [choice]})

    def piece(self, answer: WorkerAnswer) -> bytes:
        """Return the event for what came since the last one; nothing if nothing came."""
        text, tokens = answer.take_text(), answer.take_tokens()
        if tokens:
            return _EVENT % encode_compact(
                self._chunk(text, self._logprobs(tokens, answer.request.logprobs or 0), None)
            )
        if not text:
            return b""
        before, after = self._plain
        return before + encode_compact(text) + after

    def final_events(self, answer: WorkerAnswer) -> bytes:
        """Return the last events: why it ended, with its times, what was used if that was asked for, and the end."""
        last = encode_compact({**self._chunk("", None, str(answer.finish)), "timings": answer.collect_timings()})
        if not answer.request.tells_usage:
            return _EVENT % last + DONE
        used = encode_compact(
            {
                **self._head(whole=False),
                "choices": [],
                "usage": usage_document(answer),
                "timings": answer.collect_timings(),
            }
        )
        return _EVENT % last + _EVENT % used + DONE

    def whole_answer(self, answer: WorkerAnswer) -> bytes:
        """Return a whole answer."""
        text, tokens = answer.take_text(), answer.take_tokens()
        logprobs = self._logprobs(tokens, answer.request.logprobs or 0) if answer.request.logprobs is not None else None
        choice: dict[str, object] = {"index": 0, "logprobs": logprobs, "finish_reason": str(answer.finish)}
        choice |= {"message": {"role": "assistant", "content": text}} if self.is_chat else {"text": text}
        return encode_compact(
            {
                **self._head(whole=True),
                "choices": [choice],
                "usage": usage_document(answer),
                "timings": answer.collect_timings(),
            }
        )

    def _head(self, *, whole: bool) -> dict[str, object]:
        kind = ("chat.completion" if whole else "chat.completion.chunk") if self.is_chat else "text_completion"
        prefix = "chatcmpl" if self.is_chat else "cmpl"
        return {"id": f"{prefix}-{self.id}", "object": kind, "created": self.created, "model": self.model}

    def _chunk(self, text: str, logprobs: object, finish: str | None) -> dict[str, object]:
        choice: dict[str, object] = {"index": 0, "logprobs": logprobs, "finish_reason": finish}
        if self.is_chat:
            choice["delta"] = {"content": text} if finish is None else {}
        else:
            choice["text"] = text
        return {**self._head(whole=False), "choices": [choice]}

    def _logprobs(self, tokens: Sequence[tuple[str, Token]], count: int) -> dict[str, object]:
        if self.is_chat:
            return {"content": [self._token_logprobs(token, piece, count) for piece, token in tokens], "refusal": None}
        offsets = list(itertools.accumulate((len(piece) for piece, _ in tokens), initial=self._offset))
        self._offset = offsets.pop()
        return {
            "tokens": [piece for piece, _ in tokens],
            "token_logprobs": [token.logprob for _, token in tokens],
            "top_logprobs": [{self.text_of(token_id): p for token_id, p in token.top[:count]} for _, token in tokens],
            "text_offset": offsets,
        }

    def _token_logprobs(self, token: Token, piece: str, count: int) -> dict[str, object]:
        text = self.text_of(token.id) or piece
        top = [_token_document(self.text_of(other), logprob) for other, logprob in token.top[:count]]
        return {**_token_document(text, token.logprob or 0.0), "top_logprobs": top}


def usage_document(answer: WorkerAnswer) -> dict[str, object]:
    """Return what was read and written."""
    counts: dict[str, object] = {
        "prompt_tokens": answer.prompt_tokens,
        "completion_tokens": answer.written,
        "total_tokens": answer.prompt_tokens + answer.written,
    }
    return counts if answer.cached is None else {**counts, "prompt_tokens_details": {"cached_tokens": answer.cached}}


def encode_event(document: object) -> bytes:
    """Return a document as one event of a stream."""
    return _EVENT % encode_compact(document)


def _token_document(text: str, logprob: float) -> dict[str, object]:
    return {"token": text, "logprob": round(logprob, 6), "bytes": list(text.encode())}
