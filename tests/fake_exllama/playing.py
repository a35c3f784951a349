"""What the stand-ins for both ExLlamas share: a byte-level tokeniser, and a generator that echoes its prompt.

Each iteration gives every job one token, as the libraries do; a character in pieces is held back until it is whole, and
a job ends with its stop token, which is among what was held. A job begins once there are pages for all that it may
become, and keeps them to its end.
"""

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from torch import Tensor

END = 0
"""The end-of-sequence token; bytes follow as token 1 + byte."""
PAGE = 256


def keep_facts(**facts: object) -> None:
    """Write what the library was told, for a test to read; nothing without a folder for it."""
    folder = os.environ.get("ROUNDHOUSE_TEST_KEEP")
    if folder:
        place = Path(folder) / "kept.json"
        before = json.loads(place.read_text(encoding="utf-8")) if place.exists() else {}
        place.write_text(json.dumps({**before, **facts}), encoding="utf-8")


class Tokenizer:
    def encode(self, text: str, *, add_bos: bool = False, encode_special_tokens: bool = False) -> Tensor:
        assert encode_special_tokens, "special tokens of a rendered template must count as such"
        begin = [END] if add_bos else []
        return Tensor([[*begin, *(1 + byte for byte in text.encode())]])

    def decode(self, ids: Tensor, decode_special_tokens: bool = False) -> list[str]:
        return [bytes(token - 1 for token in row if token != END).decode("utf-8", "replace") for row in ids.data]


VOCABULARY = 257
WIDTH = 264
"""Of a model's last layer, which is wider than its vocabulary, as many are."""


def logits_for(token: int) -> list[float]:
    """Return what a model would think that is fairly sure of one token, and next of the one after it."""
    return [4.0 if at == token else 2.0 if at == token + 1 else 0.0 for at in range(WIDTH)]


class PlayedJob:
    """A job says its prompt's last bytes again, from behind the last colon, and ends.

    `choose` returns the token for one step with the figures that belong to it, by the names of a result.
    """

    def __init__(self, prompt: Tensor, limit: int, stops: Sequence[int], identifier: object) -> None:
        (self.prompt,) = prompt.tolist()
        assert self.prompt, "Input IDs must not be empty"
        self.limit, self.stops, self.identifier = limit, stops, identifier
        colon = len(self.prompt) - 1 - self.prompt[::-1].index(1 + ord(":")) if 1 + ord(":") in self.prompt else -1
        self.script = [*self.prompt[colon + 1 :], END] if stops else [1 + ord("a")] * 1_000_000
        self.held_tokens: list[int] = []
        self.figures: dict[str, list[Any]] = {}
        self.new_tokens = 0

    def choose(self, token: int) -> tuple[int, dict[str, Any]]:
        """Return the token and its figures; `wanted` is what the script says next."""
        return token, {}


class PlayedGenerator:
    """`page` is as large as the cache where attention is not paged: then one job has all of it."""

    beyond = 0
    """How many tokens more than it may write a job asks room for."""

    def __init__(self, max_tokens: int, max_batch_size: int, *, page: int = PAGE) -> None:
        self.max_tokens, self.max_batch_size, self.page = max_tokens, max_batch_size, page
        self.pending_jobs: list[PlayedJob] = []
        self.active_jobs: list[PlayedJob] = []

    def pages(self, job: PlayedJob) -> int:
        return -(-(len(job.prompt) + job.limit + self.beyond) // self.page)

    def enqueue(self, job: PlayedJob) -> None:
        job.limit = max(1, min(job.limit, self.max_tokens - len(job.prompt) - self.beyond))
        pages = self.pages(job)
        assert pages * self.page <= self.max_tokens, f"Job requires {pages} pages and cannot be enqueued"
        self.pending_jobs.append(job)

    def cancel(self, job: PlayedJob) -> None:
        for jobs in (self.pending_jobs, self.active_jobs):
            if job in jobs:
                jobs.remove(job)

    def iterate(self) -> list[dict[str, Any]]:
        """As the originals: a job that begins is told of, reads its prompt and writes, all in one iteration."""
        results = self._begin()
        stream_results = [self._one(job) for job in self.active_jobs]
        self.active_jobs = [
            job for job in self.active_jobs if not any(r["job"] is job and r["eos"] for r in stream_results)
        ]
        return [*results, *stream_results]

    def _begin(self) -> list[dict[str, Any]]:
        results: list[dict[str, Any]] = []
        for job in list(self.pending_jobs):
            free = self.max_tokens // self.page - sum(map(self.pages, self.active_jobs))
            if len(self.active_jobs) < self.max_batch_size and self.pages(job) <= free:
                self.pending_jobs.remove(job)
                self.active_jobs.append(job)
                result = {"job": job, "eos": False, "identifier": job.identifier}
                results += [{**result, "stage": "started"}, {**result, "stage": "prefill", "curr_progress": 0}]
        return results

    def _one(self, job: PlayedJob) -> dict[str, Any]:
        place = min(job.new_tokens + len(job.held_tokens), len(job.script) - 1)
        token, figures = job.choose(job.script[place])
        result = {"job": job, "stage": "streaming", "eos": False, "identifier": job.identifier}
        job.held_tokens.append(token)
        for name, figure in figures.items():
            job.figures.setdefault(name, []).append(figure)
        if token in job.stops:
            return {**result, "eos": True, "eos_reason": "stop_token", "held": self._take_held(job), "cached_tokens": 0}
        if job.new_tokens + len(job.held_tokens) >= job.limit:
            return {**result, **self._take_held(job), "eos": True, "eos_reason": "max_new_tokens", "cached_tokens": 0}
        is_whole = "\ufffd" not in Tokenizer().decode(Tensor([job.held_tokens]))[0]
        return {**result, **(self._take_held(job) if is_whole else {})}

    def _take_held(self, job: PlayedJob) -> dict[str, Any]:
        tokens, job.held_tokens = job.held_tokens, []
        figures, job.figures = job.figures, {}
        job.new_tokens += len(tokens)
        return {"token_ids": Tensor([tokens]), **{name: Tensor([rows]) for name, rows in figures.items()}}
