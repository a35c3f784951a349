"""The proof of an engine's version: it loads a model the way the supervisor always does, and writes.

In a supervisor of its own, so that nobody else's model gives way and nothing of it is listed as running. What the
engine writes is compared with what the Guide is known to say; what it allocates says which device it really used.
"""

import difflib
import re
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import msgspec

from app.config.paths import RESOURCES
from app.confinement.confiner import Confiner
from app.core.engine_store import Proof
from app.core.errors import EngineFailed, RoundhouseError
from app.core.models import ModelInfo
from app.engine_store.catalogue import VersionedAdapter
from app.engine_store.environments import Progress
from app.engine_store.recipe import SmokeModel
from app.hardware.cpu import engine_threads
from app.supervisor.lease import Lease
from app.supervisor.policy import LoadRequest, SupervisorFolders, SupervisorPolicy
from app.supervisor.pool import Supervisor
from engines.api import (
    BufferAllocated,
    EngineAdapter,
    EngineLocation,
    FailureKind,
    LaunchOptions,
    LogEvent,
    ModelFormat,
    ModelSource,
    Route,
)

QUESTION = "What is Roundhouse?"
EXPECTED = (
    "Roundhouse is a desktop app for local AI. It looks at your machine, picks the engine that suits it, runs it,"
)
"""How the Guide begins its answer, greedily."""
ALIKE = 0.6
"""Other engines round otherwise, so a word may differ; nonsense shares less than a third."""
ANSWER_TOKENS = 32
CONTEXT = 1024
STALL_S = 20.0
"""Without a sign of life for so long it hangs. Whoever uses the version before notices nothing meanwhile."""
_LOAD_AGAIN = frozenset(
    {FailureKind.CRASHED, FailureKind.STALLED, FailureKind.BACKEND_CRASH, FailureKind.LOST_PARENT, FailureKind.BAD_FLAG}
)
"""What helps against these when somebody loads a model, as their hints say, does not help one who tries a version."""
_ANSWER = aiohttp.ClientTimeout(total=60)
_OWN_QUESTION = "Say hello in one short sentence."


@dataclass(frozen=True, slots=True, kw_only=True)
class SmokeSubject:
    """One model to try, and what it should say; without `expected`, anything but nonsense will do."""

    name: str
    path: Path
    format: ModelFormat
    question: str = QUESTION
    expected: str = EXPECTED


@dataclass(frozen=True, slots=True, kw_only=True)
class SmokeTests:
    """Proves versions. `own_models` names what a person wants to go on working, of those an engine reads."""

    adapters: Mapping[str, EngineAdapter]
    """As they are, not as they are placed."""
    smoke: Callable[[str], SmokeModel]
    folders: SupervisorFolders
    http: aiohttp.ClientSession
    own_models: Callable[[str], Awaitable[Sequence[ModelInfo]]]
    confiner: Confiner | None = None

    async def prove(
        self, engine: str, place: EngineLocation | None, *, with_own_models: bool, progress: Progress
    ) -> list[Proof]:
        """Return what each model showed, up to the first that failed. Empty when there is nothing to prove it with."""
        subjects = self._guide_subjects(self.smoke(engine))
        if with_own_models:
            subjects += [_own(model) for model in await self.own_models(engine)]
        proofs: list[Proof] = []
        for subject in subjects:
            progress(f"Testing with {subject.name}", None)
            proofs.append(await self._try_subject(engine, place, subject))
            if not proofs[-1].is_good:
                break
        return proofs

    def _guide_subjects(self, smoke: SmokeModel) -> list[SmokeSubject]:
        if not smoke.model:
            return []
        path = RESOURCES / "guide" / smoke.model
        return [SmokeSubject(name="the Guide", path=path, format=ModelFormat(smoke.format))]

    async def _try_subject(self, engine: str, place: EngineLocation | None, subject: SmokeSubject) -> Proof:
        adapter = _WatchedAdapter(self.adapters[engine], place)
        supervisor = Supervisor(
            {engine: adapter},
            self.folders,
            SupervisorPolicy(stall_s=STALL_S, max_loaded=1),
            publish=lambda _event: None,
            confiner=self.confiner,
        )
        request = LoadRequest(
            engine=engine,
            source=ModelSource(name="trial", path=subject.path, format=subject.format),
            options=LaunchOptions(context=CONTEXT, slots=1, threads=engine_threads()),
        )
        try:
            async with supervisor.lease(request) as lease:
                proof = await self._ask_subject(adapter, lease, subject)
        except RoundhouseError as error:
            return Proof(
                at=time.time(),
                model=subject.name,
                code=error.code,
                problem=str(error),
                hint="" if error.code in _LOAD_AGAIN else error.hint,
                log=error.body.detail,
            )
        finally:
            await supervisor.close()
        return judge_proof(proof, subject.expected)

    async def _ask_subject(self, adapter: "_WatchedAdapter", lease: Lease, subject: SmokeSubject) -> Proof:
        began = time.monotonic()
        answer = await self._answer(adapter, lease, subject)
        took_s = time.monotonic() - began
        tokens = answer.usage.completion_tokens
        return Proof(
            at=time.time(),
            model=subject.name,
            text=answer.text,
            tokens_per_s=answer.timings.get("predicted_per_second") or (tokens / took_s if tokens else None),
            load_s=lease.load_s,
            backend=lease.status.backend,
            device=", ".join(adapter.devices),
        )

    async def _answer(self, adapter: "_WatchedAdapter", lease: Lease, subject: SmokeSubject) -> "_SmokeAnswer":
        body = {
            "model": lease.served_name,
            "messages": [{"role": "user", "content": subject.question}],
            "temperature": 0,
            "max_tokens": ANSWER_TOKENS,
        }
        headers = {"Authorization": f"Bearer {lease.key}"}
        url = lease.base_url + adapter.descriptor.routes[Route.CHAT]
        try:
            async with self.http.post(url, json=body, headers=headers, timeout=_ANSWER) as reply:
                content = await reply.read()
        except TimeoutError:
            raise EngineFailed("It loaded the model but never answered.", code="hung") from None
        except aiohttp.ClientError as error:
            verdict = await lease.wait_for_verdict()
            raise verdict or EngineFailed(f"It stopped while answering: {error}.", code="crashed") from error
        try:
            return msgspec.json.decode(content, type=_SmokeAnswer)
        except msgspec.MsgspecError as error:
            text = content[:200].decode("utf-8", "replace")
            raise EngineFailed(f"It answered with something else: {text}", code="gibberish") from error


class _WatchedAdapter(VersionedAdapter):
    """An adapter at one place that remembers on which devices memory was taken."""

    def __init__(self, adapter: EngineAdapter, place: EngineLocation | None) -> None:
        super().__init__(adapter, lambda: place, stall_s=lambda: float("inf"))
        self.devices: list[str] = []

    def read_log(self, line: str) -> Sequence[LogEvent]:
        """Say what a line means, and note the devices."""
        events = super().read_log(line)
        for event in events:
            if isinstance(event, BufferAllocated) and event.device not in self.devices:
                self.devices.append(event.device)
        return events


def judge_proof(proof: Proof, expected_text: str) -> Proof:
    """Return the proof with what is wrong about it, if anything."""
    if is_nonsense(proof.text) or (expected_text and not is_alike(proof.text, expected_text)):
        excerpt = " ".join(proof.text.split())[:80]
        problem = f"It wrote nonsense: “{excerpt}”." if excerpt else "It wrote nothing."
        return msgspec.structs.replace(proof, code="gibberish", problem=problem)
    if is_elsewhere(proof.backend, proof.device):
        problem = f"It should have used {proof.backend} but used {proof.device}."
        hint = "Check the driver: without one, engines fall back to the processor without saying so."
        return msgspec.structs.replace(proof, code="wrong_device", problem=problem, hint=hint)
    return proof


def is_elsewhere(backend: str, device: str) -> bool:
    """Tell whether an engine for a GPU allocated on the processor only. Engines that name no device are believed."""
    names = [name.strip() for name in device.split(",") if name.strip()]
    return backend not in {"", "cpu"} and bool(names) and all(map(_OF_PROCESSOR.match, names))


_OF_PROCESSOR = re.compile(r"CPU|BLAS|AMX|.*_Host$", re.IGNORECASE)
"""How llama.cpp calls memory of the system, also where a GPU's driver hands it out (CUDA_Host)."""


def is_alike(text: str, expected_text: str) -> bool:
    """Tell whether a text begins about as expected."""
    return (
        difflib.SequenceMatcher(None, text.strip()[: len(expected_text)], expected_text, autojunk=False).ratio()
        >= ALIKE
    )


def is_nonsense(text: str) -> bool:
    """Tell whether no model would say this: nothing, broken characters, or one thing over and over."""
    words = text.split()
    if not words or "�" in text:
        return True
    letters = [mark for mark in text if not mark.isspace()]
    most = max(letters.count(mark) for mark in set(letters))
    is_one_letter = len(letters) >= _LEAST_COUNT and most / len(letters) > _REPEATED_SHARE
    is_one_word = (
        len(words) >= _LEAST_COUNT and max(words.count(word) for word in set(words)) / len(words) > _REPEATED_SHARE
    )
    return is_one_letter or is_one_word


_LEAST_COUNT, _REPEATED_SHARE = 8, 0.6


def _own(model: ModelInfo) -> SmokeSubject:
    return SmokeSubject(
        name=model.name, path=Path(model.path), format=ModelFormat(model.format), question=_OWN_QUESTION, expected=""
    )


class _SmokeMessage(msgspec.Struct):
    content: str | None = None
    reasoning_content: str | None = None


class _SmokeChoice(msgspec.Struct):
    message: _SmokeMessage = msgspec.field(default_factory=_SmokeMessage)


class _SmokeUsage(msgspec.Struct):
    completion_tokens: int = 0


class _SmokeAnswer(msgspec.Struct):
    choices: list[_SmokeChoice]
    usage: _SmokeUsage = msgspec.field(default_factory=_SmokeUsage)
    timings: dict[str, float] = {}

    @property
    def text(self) -> str:
        """What was written, thoughts included."""
        message = self.choices[0].message if self.choices else _SmokeMessage()
        return (message.reasoning_content or "") + (message.content or "")
