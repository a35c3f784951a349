"""What a hub said before, kept with the time it said so: quick while it is fresh, and all there is without a network.

In memory and in one file per question. Files that cannot be read are as good as none; the oldest go first.
Blocks; call it from a thread.

What is remembered of the hub: searches, what repositories offer, the catalogue, and the token it wants.
"""

import contextlib
import hashlib
import threading
import time
from collections import OrderedDict
from pathlib import Path
from typing import Generic, TypeVar

import msgspec

from app.config.hub_token import HubToken
from app.core.errors import StorageFault
from app.core.hub import HubPick
from app.hub.library.registry_file import JsonFile
from app.hub.repositories.catalogue import ModelCatalogue
from app.hub.repositories.catalogue_looks import CatalogueLooks
from app.hub.repositories.generation import SamplingRecommendation
from app.hub.repositories.offers import RepositoryOffer
from app.hub.repositories.search import SearchPage

T = TypeVar("T")

MOST = 200
FRESH_S = 600.0
"""A search and a description stand for so long without asking again."""


class HubAnswer(msgspec.Struct, Generic[T], frozen=True):
    """A value and when it was told, in Unix seconds."""

    value: T
    at: float

    @property
    def age_s(self) -> float:
        """How long ago it was told."""
        return max(0.0, time.time() - self.at)

    @property
    def is_fresh(self) -> bool:
        """Whether it need not be asked for again. An answer from the future is as old as nobody knows."""
        return abs(time.time() - self.at) < FRESH_S


class HubAnswerCache(Generic[T]):
    """Answers of one kind below a folder. Safe to share between threads."""

    def __init__(self, folder: Path, kind: type[T]) -> None:
        self._folder, self._kind = folder, kind
        self._lock = threading.Lock()
        self._answers: OrderedDict[str, HubAnswer[T]] = OrderedDict()

    def find_answer(self, question: str) -> HubAnswer[T] | None:
        """Return what was answered last; None if nothing is known."""
        key = hashlib.sha256(question.encode()).hexdigest()
        with self._lock:
            answer = self._answers.get(key) or self._answer_file(key).read_value()
            if answer is not None:
                self._remember_answer(key, answer)
            return answer

    def keep_answer(self, question: str, value: T, *, at: float | None = None) -> HubAnswer[T]:
        """Keep an answer, told now unless another time is said. A disk that refuses costs only the next start."""
        key = hashlib.sha256(question.encode()).hexdigest()
        answer = HubAnswer(value, time.time() if at is None else at)
        with self._lock:
            self._remember_answer(key, answer)
            with contextlib.suppress(StorageFault):
                self._answer_file(key).write_value(answer)
                self._thin_out()
        return answer

    def _remember_answer(self, key: str, answer: HubAnswer[T]) -> None:
        self._answers[key] = answer
        self._answers.move_to_end(key)
        while len(self._answers) > MOST:
            self._answers.popitem(last=False)

    def _answer_file(self, key: str) -> JsonFile[HubAnswer[T]]:
        return JsonFile(self._folder / f"{key}.json", HubAnswer[self._kind], "what the hub said")  # type: ignore[name-defined] # told at run time

    def _thin_out(self) -> None:
        with contextlib.suppress(OSError):
            files = sorted(self._folder.iterdir(), key=lambda file: file.stat().st_mtime)
            for file in files[: max(0, len(files) - MOST)]:
                file.unlink(missing_ok=True)


class HubMemory:
    """One per gateway; its parts block."""

    def __init__(self, folder: Path, token_file: Path) -> None:
        self.searches = HubAnswerCache(folder / "searches", SearchPage)
        self.offers = HubAnswerCache(folder / "offers", RepositoryOffer)
        self.generation = HubAnswerCache(folder / "generation", SamplingRecommendation)
        """What repositories recommend for sampling, where it does not lie with their files."""
        self.picks = HubAnswerCache(folder / "picks", list[HubPick])
        """The catalogue as it was judged for this machine."""
        self.catalogue = ModelCatalogue(folder / "catalogue.json")
        self.looks = CatalogueLooks(folder / "catalogue-looks.json")
        self.token = HubToken(token_file)
