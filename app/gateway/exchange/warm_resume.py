"""Prompts that an engine need not read again after it was unloaded or started anew.

    lease -> [load the kept prompt that begins as the request does] -> request -> note what the slot has read
    idle, unload, room for another, end -> [write what the slots have read, seal it]

An engine that can (`Descriptor.slot_states`) writes what a slot has read into a file, and reads it in another run. What
comes of it is sealed at once. Which slot has whose prompt is known by the number of its tokens, and where two could be
meant it is nobody's. A prompt is loaded for requests of its owner only, and only into a run that no other key uses.
Nothing here fails a request: what goes wrong is logged, and the prompt is read.
"""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Awaitable, Callable, Collection, MutableMapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

import msgspec

from app.core.engines import EngineStatus
from app.core.errors import RoundhouseError
from app.gateway.background import Background
from app.gateway.entry.bodies import call_off_loop
from app.gateway.exchange.observer import ExchangeOutcome, Observation
from app.gateway.kept_prompts.identity import WeightHashes, state_identity
from app.gateway.kept_prompts.plain_state import plain_state
from app.gateway.kept_prompts.policy import (
    LEAST_BODY_BYTES,
    LEAST_TOKENS,
    LOAD_BYTES_S,
    PromptEntry,
    PromptRecord,
    choose_prompt,
    count_shared_tokens,
    is_kept_already,
    prompt_chain,
)
from app.gateway.kept_prompts.sealing import PromptDamageError
from app.gateway.kept_prompts.store import PromptStore, open_new
from app.supervisor.lease import Lease, ReadyEndpoint
from app.supervisor.states import SlotStateLaunch

log = logging.getLogger(__name__)

IDLE_S = 20.0
"""An engine that nobody asked anything for so long has time to write down what it has read."""
QUESTION_S = 10.0
LOOK_S = 2.0
"""A request waits no longer for what is kept to be looked up: a keyring may be asking a person to unlock it."""
LOAD_S = 60.0
"""A prompt that takes longer to load is read instead."""
SAVE_S = 60.0
_OK = 200
_HELD_PROMPTS = 16
_HELD_COUNTS = 256
"""Requests of a run whose numbers of tokens are remembered: what a slot has is one of the latest."""
_UNKNOWN_RATE = 100.0
"""Tokens read per second, where nobody has measured it."""
_UNKNOWN_TOKEN_BYTES = 256 * 1024
"""What a token takes in a state, where the engine does not name its buffers."""

Ask = Callable[[Lease | ReadyEndpoint, str, bytes | None], Awaitable[tuple[int, bytes]]]
OwnerOf = Callable[[Observation], str | None]
"""Says whose prompts an exchange may use and leave; None for nobody's."""


class _Slot(msgspec.Struct, frozen=True):
    id: int
    is_processing: bool = False
    n_prompt_tokens: int = 0


class _Count(msgspec.Struct, frozen=True):
    n_saved: int = -1
    n_restored: int = -1
    n_written: int = 0


@dataclass(slots=True)
class SlotPrompt:
    """A long prompt that the engine has read, and what was written after it."""

    owner: str
    chain: bytes
    prompt_tokens: int
    tokens: int
    is_kept: bool = False


@dataclass(slots=True)
class RunPrompts:
    """What is known of one run. Its lock is held by whoever has the engine write or read states."""

    launch: SlotStateLaunch
    see: Callable[[], EngineStatus]
    engine: ReadyEndpoint
    identity: str | None = None
    prompts: deque[SlotPrompt] = field(default_factory=lambda: deque(maxlen=_HELD_PROMPTS))
    counts: deque[tuple[str, int]] = field(default_factory=lambda: deque(maxlen=_HELD_COUNTS))
    """Of every request: whose it was, and how many tokens its slot had after it."""
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    timer: asyncio.TimerHandle | None = None
    learning: "asyncio.Task[None] | None" = None

    def prompt_in(self, tokens: int) -> SlotPrompt | None:
        """Return the prompt of a slot that has so many tokens, if it is sure whose it is."""
        # The token that ended an answer was counted, and not read.
        owners = {owner for owner, count in self.counts if count - tokens in (0, 1)}
        matches = [prompt for prompt in self.prompts if prompt.tokens - tokens in (0, 1)]
        return matches[-1] if matches and len(owners) == 1 else None

    def stop_timer(self) -> None:
        """Leave what it has read for later."""
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None


@dataclass(slots=True, frozen=True)
class PromptTurn:
    """A request on its way, and the hashes of its prompt."""

    run: RunPrompts
    owner: str
    chain: bytes


class WarmResume:
    """Belongs to the event loop's thread. `read_rates` has tokens per second by model, measured by whoever observes."""

    def __init__(
        self,
        store: PromptStore,
        hashes: WeightHashes,
        read_rates: MutableMapping[str, float],
        owner_of: OwnerOf,
        owners: Callable[[], Collection[str]],
    ) -> None:
        self.store = store
        self.ask: Ask
        self._hashes, self._read_rates, self._owner_of = hashes, read_rates, owner_of
        self._owners = owners
        self._runs: dict[str, RunPrompts] = {}
        self._background = Background()
        self._load_bytes_s = LOAD_BYTES_S

    async def begin_turn(
        self, lease: Lease, body: bytes, observation: Observation, *, skips_cache: bool
    ) -> PromptTurn | None:
        """Have the engine of a lease know as much of a request's prompt as is kept. Raises nothing but cancellation.

        `skips_cache`: several keys use this run, whose prompts are read each time; nothing more of it is kept.
        """
        owner, states = self._owner_of(observation), lease.states
        if owner is None or states is None:
            return None
        if skips_cache:
            self._forget_run(lease.model)
            return None
        run = self._run_of(lease, states)
        run.stop_timer()
        chain = b""
        if len(body) >= LEAST_BODY_BYTES:
            chain = await call_off_loop(body, prompt_chain, body)
            if chain and self.store.may_have_entries:
                async with run.lock:
                    await self._load_best(run, owner, chain)
        return PromptTurn(run, owner, chain)

    def end_turn(self, turn: PromptTurn, observation: Observation) -> None:
        """Note what the engine has read for a request, which is over."""
        run, read, written_tokens = turn.run, observation.tokens.all_prompt, observation.tokens.all_completion
        if observation.outcome is ExchangeOutcome.OK and read is not None and written_tokens is not None:
            run.counts.append((turn.owner, read + written_tokens))
            if read >= LEAST_TOKENS and turn.chain:
                self._note_prompt(run, SlotPrompt(turn.owner, turn.chain, read, read + written_tokens))
        if any(not prompt.is_kept for prompt in run.prompts):
            run.stop_timer()
            run.timer = asyncio.get_running_loop().call_later(IDLE_S, self._keep_soon, run)

    async def keep_before_end(self, engine: ReadyEndpoint, states: SlotStateLaunch) -> None:
        """Have what an engine has read written before it ends."""
        run = self._runs.get(engine.model)
        if run is not None and run.launch is states:
            run.stop_timer()
            await self._keep(run)
            self._runs.pop(engine.model, None)

    def forget_owner(self, owner: str) -> None:
        """Keep nothing of what engines have read for somebody until now."""
        for run in self._runs.values():
            for prompt in [prompt for prompt in run.prompts if prompt.owner == owner]:
                run.prompts.remove(prompt)

    async def close(self) -> None:
        """Begin nothing more."""
        for run in self._runs.values():
            run.stop_timer()
        await self._background.join(cancel=True)

    def _forget_run(self, model: str) -> None:
        if (run := self._runs.pop(model, None)) is not None:
            run.stop_timer()
            run.prompts.clear()

    def _run_of(self, lease: Lease, states: SlotStateLaunch) -> RunPrompts:
        run = self._runs.get(lease.model)
        if run is None or run.launch is not states:
            if run is not None:
                run.stop_timer()
            engine = ReadyEndpoint(model=lease.model, engine=lease.engine, base_url=lease.base_url, key=lease.key)
            run = self._runs[lease.model] = RunPrompts(states, lease.see, engine)
        return run

    def _note_prompt(self, run: RunPrompts, prompt: SlotPrompt) -> None:
        run.prompts.append(prompt)
        if run.identity is None and run.learning is None:
            run.learning = self._background.spawn(self._learn_identity(run))

    async def _learn_identity(self, run: RunPrompts) -> None:
        """Hash the weights, where nobody has: seconds, in which nobody waits."""
        try:
            hashes = await asyncio.to_thread(self._hashes.compute_hashes, run.launch.source.path)
        except OSError as error:
            log.info("The weights of %s could not be hashed: %s", run.engine.model, error)
            return
        run.identity = state_identity(run.launch, hashes)

    def _keep_soon(self, run: RunPrompts) -> None:
        run.timer = None
        self._background.spawn(self._keep(run))

    async def _keep(self, run: RunPrompts) -> None:
        """Have the engine write what its slots have read, as far as it is worth it. Raises nothing."""
        if all(prompt.is_kept for prompt in run.prompts):
            return
        try:
            if run.learning is not None:
                await asyncio.shield(run.learning)
            async with run.lock:
                for slot in await self._list_slots(run):
                    await self._keep_slot(run, slot)
        except (OSError, RoundhouseError, msgspec.DecodeError) as error:  # TimeoutError too
            log.info("What %s has read could not be kept: %s", run.engine.model, repr(error))

    async def _keep_slot(self, run: RunPrompts, slot: _Slot) -> None:
        if slot.is_processing or slot.n_prompt_tokens < LEAST_TOKENS or run.identity is None:
            return
        prompt = run.prompt_in(slot.n_prompt_tokens)
        state_bytes = _estimate_bytes(run.see(), slot.n_prompt_tokens)
        if prompt is None or prompt.is_kept or not self.store.has_room_for(state_bytes):
            return
        if prompt.owner not in self._owners():  # its key was revoked meanwhile
            return
        kept_entries = await asyncio.to_thread(self.store.entries_of, prompt.owner, run.identity)
        if not is_kept_already(kept_entries, prompt.chain, prompt.prompt_tokens):
            await self._save_slot(run, slot, prompt, state_bytes)
        prompt.is_kept = True

    async def _save_slot(self, run: RunPrompts, slot: _Slot, prompt: SlotPrompt, state_bytes: int) -> None:
        with plain_state(run.launch, state_bytes) as file:
            if file is None:
                log.info("What %s has read was not kept: there is no room for it", run.engine.model)
                return
            count = await self._post(run, run.launch.routes.save, slot, file.name, timeout_s=SAVE_S)
            if count.n_saved != slot.n_prompt_tokens:  # it has gone on meanwhile
                return
            record = self._describe(run, prompt, slot.n_prompt_tokens, await asyncio.to_thread(_size_of, file))
            await asyncio.to_thread(self.store.add_prompt, record, file)

    def _describe(self, run: RunPrompts, prompt: SlotPrompt, tokens: int, state_bytes: int) -> PromptRecord:
        rate = self._read_rates.get(run.engine.model, _UNKNOWN_RATE)
        return PromptRecord(
            owner=prompt.owner,
            model=run.engine.model,
            engine=run.engine.engine,
            identity=run.identity or "",
            chain=prompt.chain,
            tokens=tokens,
            prompt_tokens=prompt.prompt_tokens,
            read_s=prompt.prompt_tokens / rate,
            state_bytes=state_bytes,
            created_at=time.time(),
        )

    async def _load_best(self, run: RunPrompts, owner: str, chain: bytes) -> None:
        """Load what saves most of a prompt, if anything does. Raises nothing."""
        try:
            if run.identity is None and (hashes := await self._find_hashes(run)) is not None:
                run.identity = state_identity(run.launch, hashes)
            if run.identity is None:
                return
            async with asyncio.timeout(LOOK_S):
                entries = await asyncio.to_thread(self.store.entries_of, owner, run.identity)
            has = max(
                (count_shared_tokens(prompt.chain, prompt.prompt_tokens, chain) for prompt in run.prompts), default=0
            )
            entry = choose_prompt(entries, chain, has, load_bytes_s=self._load_bytes_s)
            if entry is not None:
                await self._load_entry(run, entry)
        except (OSError, RoundhouseError, msgspec.DecodeError) as error:  # TimeoutError too
            log.info("Nothing was loaded for a prompt of %s: %s", run.engine.model, repr(error))

    async def _find_hashes(self, run: RunPrompts) -> tuple[str, ...] | None:
        return await asyncio.to_thread(self._hashes.find_hashes, run.launch.source.path)

    async def _load_entry(self, run: RunPrompts, entry: PromptEntry) -> None:
        free = [slot for slot in await self._list_slots(run) if not slot.is_processing]
        if not free:
            return
        slot = min(free, key=lambda slot: (slot.n_prompt_tokens, slot.id))
        await self._keep_slot(run, slot)
        begun_s = time.perf_counter()
        with plain_state(run.launch, entry.record.state_bytes) as file:
            if file is None or not await self._unseal(entry, file):
                return
            await self._have_read(run, slot, file.name, entry)
        self._load_bytes_s = entry.record.state_bytes / max(1e-3, time.perf_counter() - begun_s)

    async def _unseal(self, entry: PromptEntry, file: Path) -> bool:
        """Write a prompt's state where the engine finds it; return whether it is whole and its owner's."""
        with open_new(file) as plain:  # opened here: a thread that nobody waits for any more makes no file
            try:
                await asyncio.to_thread(_write_state, self.store, entry, plain)
            except PromptDamageError:
                log.warning("A kept prompt was damaged and is removed", extra={"model": entry.record.model})
                return False
        return True

    async def _have_read(self, run: RunPrompts, slot: _Slot, name: str, entry: PromptEntry) -> None:
        """Have the engine read a state; one that it does not take is removed, for it may be what ends it."""
        record, restored_tokens = entry.record, -1
        try:
            restored_tokens = (
                await self._post(run, run.launch.routes.restore, slot, name, timeout_s=LOAD_S)
            ).n_restored
        finally:
            if restored_tokens != record.tokens:
                log.warning("An engine did not take a kept prompt, which is removed", extra={"model": record.model})
                await asyncio.shield(asyncio.to_thread(self.store.remove_prompt, entry.id))
        if restored_tokens == record.tokens:
            run.counts.append((record.owner, record.tokens))
            run.prompts.append(
                SlotPrompt(record.owner, record.chain, record.prompt_tokens, record.tokens, is_kept=True)
            )
            self._read_rates.setdefault(run.engine.model, record.prompt_tokens / max(1e-3, record.read_s))

    async def _list_slots(self, run: RunPrompts) -> list[_Slot]:
        async with asyncio.timeout(QUESTION_S):
            status, body = await self.ask(run.engine, run.launch.slots_path, None)
        return msgspec.json.decode(body, type=list[_Slot]) if status == _OK else []

    async def _post(self, run: RunPrompts, path: str, slot: _Slot, name: str, *, timeout_s: float) -> _Count:
        question = msgspec.json.encode({"filename": name})
        async with asyncio.timeout(timeout_s):
            status, body = await self.ask(run.engine, path.format(slot=slot.id), question)
        return msgspec.json.decode(body, type=_Count) if status == _OK else _Count()


def _estimate_bytes(status: EngineStatus, tokens: int) -> int:
    """Return about how large a state is: a slot's share of what the engine says it keeps for contexts."""
    slots, context = status.slots or 1, status.context or 0
    kv_bytes, recurrent_bytes = status.buffers.get("kv", 0), status.buffers.get("recurrent", 0)
    if not context or not kv_bytes + recurrent_bytes:
        return tokens * _UNKNOWN_TOKEN_BYTES
    return kv_bytes * tokens // (context * slots) + recurrent_bytes // slots


def _size_of(file: Path) -> int:
    return file.stat().st_size


def _write_state(store: PromptStore, entry: PromptEntry, plain: BinaryIO) -> None:
    store.write_state(entry, plain)
    plain.flush()
