"""Whose prompts are kept and how much of them, what there is for people to see, and what is removed when it should be.

Three kinds of owner never share: each access key, programs that show none, and the window's own chats. What belongs to
a key that was revoked or a model that is gone is removed at once, and at every start; with a chat that is deleted goes
what is kept of all chats.
"""

import asyncio
import logging
from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING

from aiohttp import web

from app.core.engines import EngineState
from app.core.errors import NotFound, RoundhouseError
from app.core.events import ChatChanged, ModelsChanged
from app.core.kept_prompts import WarmPrompt, WarmPromptModel, WarmPrompts
from app.gateway.exchange.observer import Observation, Observers
from app.gateway.exchange.warm_resume import WarmResume
from app.gateway.kept_prompts.identity import WeightHashes
from app.gateway.kept_prompts.policy import PromptEntry, PromptPlace
from app.gateway.kept_prompts.store import PromptLimits, PromptStore

if TYPE_CHECKING:
    from app.gateway.services import Services

log = logging.getLogger(__name__)

DISK_SETTING, MEMORY_SETTING = "engine.kept_prompts_disk_mib", "engine.kept_prompts_memory_mib"
_MIB = 1 << 20
_CHATS, _PROGRAMS, _KEY = "chats", "programs", "key "
_OF_ANOTHER = "This runs elsewhere: whoever runs it keeps what it has read."
_NOT_HERE = "Not on this engine: {engine} has no way to write what it has read."
_OFF = "Switched off in the settings."
_NEXT_LOAD = "From the next time it is loaded."


class WarmPromptService:
    """The kept prompts of a gateway."""

    def __init__(self, services: "Services", observers: Observers) -> None:
        self._services = services
        folder = services.paths.warm_prompts
        self.store = PromptStore(folder, self._limits)
        self.resume = WarmResume(
            self.store, WeightHashes(folder / "weights.json"), observers.read_rates, self._owner_of, self._owners
        )
        services.supervisor.states.are_wanted = lambda: self._limits().any > 0
        services.supervisor.states.keep = self.resume.keep_before_end

    async def describe_prompts(self) -> WarmPrompts:
        """Return all there is, the last used first."""
        entries = await asyncio.to_thread(self.store.list_entries)
        limits, names = self._limits(), self._key_names()
        return WarmPrompts(
            prompts=sorted((_describe_entry(entry, names) for entry in entries), key=lambda prompt: -prompt.used_at),
            disk_bytes=_sum_bytes(entries, PromptPlace.DISK),
            disk_limit_bytes=limits.disk,
            memory_bytes=_sum_bytes(entries, PromptPlace.MEMORY),
            memory_limit_bytes=limits.memory,
            keyring=self.store.seal_key_state,
            models=list(self._describe_models()),
        )

    async def remove_prompt(self, prompt: str) -> None:
        """Remove one. Raises NotFound."""
        await asyncio.to_thread(self.store.list_entries)
        if not await asyncio.to_thread(self.store.remove_prompt, prompt):
            raise NotFound(
                "There is no such prompt.", hint="`roundhouse cache list` lists them.", code="prompt_not_found"
            )

    async def remove_prompts(self, model: str, key: str) -> None:
        """Remove those of a model or of a key, with neither all of them."""
        if not model and not key:
            await asyncio.to_thread(self.store.remove_all)
            return
        names = self._key_names()
        await asyncio.to_thread(
            self.store.remove_where,
            lambda entry: model in ("", entry.record.model) and key in ("", names.get(entry.record.owner)),
        )

    async def apply_settings(self) -> None:
        """Keep no more than may be from now on."""
        await asyncio.to_thread(self.store.apply_limits)

    async def sweep_prompts(self, *, owners: Collection[str] | None = None) -> None:
        """Remove what belongs to no key or no model that there still is, or to none of `owners`."""
        try:
            models = await asyncio.to_thread(self._services.library.list_models)
        except (RoundhouseError, OSError) as error:  # a drive that fails may be back the next time
            log.info("Kept prompts were not looked through: %s", error)
            return
        names = {name for model in models for name in (model.name, model.runs_as)}
        count = await asyncio.to_thread(self.store.sweep_prompts, self._owners() if owners is None else owners, names)
        if count:
            log.info("%d kept prompts without a key or a model were removed", count)

    async def watch_events(self) -> None:
        """Remove what is nobody's, now and whenever models change or chats are deleted. Runs until cancelled."""
        await self.sweep_prompts()
        with self._services.events.watch(ModelsChanged, ChatChanged) as subscription:
            async for event in subscription:
                if isinstance(event, ModelsChanged):
                    await self.sweep_prompts()
                elif isinstance(event, ChatChanged) and event.deleted:
                    await self._forget_chats()

    async def _forget_chats(self) -> None:
        """Remove what engines have read of the window's chats: which of them a prompt is of, nobody knows."""
        self.resume.forget_owner(_CHATS)
        await self.sweep_prompts(owners=self._owners() - {_CHATS})

    def _limits(self) -> PromptLimits:
        settings = self._services.settings
        return PromptLimits(disk=settings.get_int(DISK_SETTING) * _MIB, memory=settings.get_int(MEMORY_SETTING) * _MIB)

    def _owner_of(self, observation: Observation) -> str | None:
        if not observation.key_id:
            return _PROGRAMS if observation.caller.path else _CHATS
        made_at = self._services.keys.read_creation(observation.key_id)
        return None if made_at is None else _key_owner(observation.key_id, made_at)

    def _owners(self) -> set[str]:
        return {_CHATS, _PROGRAMS, *self._key_names()}

    def _key_names(self) -> dict[str, str]:
        """Return the names of keys by who they are to a prompt."""
        return {_key_owner(key.id, key.created_at): key.name for key in self._services.keys.list_keys()}

    def _describe_models(self) -> Iterator[WarmPromptModel]:
        for status in self._services.supervisor.list_statuses():
            if status.state is EngineState.READY:
                reason = self._why_not(status.model, status.engine)
                yield WarmPromptModel(model=status.model, engine=status.engine, is_kept=not reason, reason=reason)

    def _why_not(self, model: str, engine: str) -> str:
        """Return why nothing of a loaded model is kept, in a sentence; empty if it is."""
        about = self._services.adapters[engine].descriptor
        request = self._services.supervisor.request_of(model)
        if request is not None and not request.takes_memory:
            return _OF_ANOTHER
        if about.slot_states is None:
            return _NOT_HERE.format(engine=about.name)
        facts = self._services.supervisor.state_facts(model)
        if facts.reason or facts.is_kept:
            return facts.reason
        return _NEXT_LOAD if self._limits().any else _OFF


def _key_owner(key_id: str, made_at: float) -> str:
    """Return who a key is: another of the same name, made later, is somebody else."""
    return f"{_KEY}{made_at!r} {key_id}"


def _describe_entry(entry: PromptEntry, names: Mapping[str, str]) -> WarmPrompt:
    record = entry.record
    return WarmPrompt(
        id=entry.id,
        model=record.model,
        engine=record.engine,
        key=names.get(record.owner, ""),
        is_chat=record.owner == _CHATS,
        tokens=record.tokens,
        place=entry.place.value,
        size_bytes=entry.size_bytes,
        saves_s=record.read_s,
        created_at=record.created_at,
        used_at=entry.used_at,
    )


def _sum_bytes(entries: list[PromptEntry], place: PromptPlace) -> int:
    return sum(entry.size_bytes for entry in entries if entry.place is place)


KEPT_PROMPTS = web.AppKey("kept_prompts", WarmPromptService)
