"""The memory that models share and what is set for single ones, as the models page shows them: state and words."""

from collections.abc import Sequence

import msgspec
from PySide6.QtCore import QObject, QTimer, Signal

from app.core import words
from app.core.engines import MemoryHolder, MemoryPool, MemoryState, WaitingLoad
from app.core.events import EngineChanged, Event, SettingChanged
from app.core.models import ModelSettings, SetModel
from app.core.translation import tr, tr_list
from app.gui.net.api import ErrorHandler, GatewayApi
from app.gui.net.remote import RemoteStore
from app.gui.shell.contract import Shell
from app.gui.widgets.bars import REST, BarPart

_COLORS = ("part-1", "part-2", "part-3", "part-4", "part-5", "part-6")
_SOON_MS = 300
"""An engine that loads says something ten times a second; what it holds is asked for less often."""
_NOTHING_KNOWN = MemoryState(pools=[])


class _MemoryStore(RemoteStore[MemoryState]):
    def __init__(self, api: GatewayApi, shell: Shell) -> None:
        super().__init__(api, shell, "/memory", MemoryState)
        self._soon = QTimer(self, singleShot=True, interval=_SOON_MS)
        self._soon.timeout.connect(self.read)

    def is_outdated_by(self, event: Event) -> bool:
        return _changes_model(event)

    def apply(self, event: Event) -> None:
        if isinstance(event, EngineChanged) and not self._soon.isActive():
            self._soon.start()


class _SettingsStore(RemoteStore[dict[str, ModelSettings]]):
    def is_outdated_by(self, event: Event) -> bool:
        return _changes_model(event)


def _changes_model(event: Event) -> bool:
    return isinstance(event, SettingChanged) and event.name.startswith(tr("model."))


class MemoryModel(QObject):
    """Memory, and settings by model. That they cannot be read is said by the rest of the page."""

    changed = Signal()

    def __init__(self, api: GatewayApi, shell: Shell) -> None:
        super().__init__(shell)
        self._api = api
        self._memory = _MemoryStore(api, shell)
        self._settings = _SettingsStore(api, shell, "/model-settings", dict[str, ModelSettings])
        self._memory.changed.connect(self.changed)
        self._settings.changed.connect(self.changed)

    @property
    def memory(self) -> MemoryState:
        """Who holds how much of what there is."""
        return self._memory.value or _NOTHING_KNOWN

    def is_pinned(self, model: str) -> bool:
        """Whether a person wants a model to stay."""
        return self._set_for(model).pinned

    def set_pinned(self, model: str, on_error: ErrorHandler, *, is_pinned: bool) -> None:
        """Have a model stay, or let it go again; what else is set for it stays as it is."""
        new_settings = msgspec.structs.replace(self._set_for(model), pinned=is_pinned)

        def store_settings(settings: ModelSettings) -> None:
            self._settings.replace({**(self._settings.value or {}), model: settings})

        body = SetModel(model=model, settings=new_settings)
        self._api.post("/model-settings", body, kind=ModelSettings, then=store_settings, on_error=on_error)

    def _set_for(self, model: str) -> ModelSettings:
        return (self._settings.value or {}).get(model, ModelSettings())


def pools_in_use(memory: MemoryState) -> list[MemoryPool]:
    """Return the pools worth a bar: those that a model holds something of."""
    return [pool for pool in memory.pools if pool.holders]


def pool_headline(pool: MemoryPool) -> str:
    """Return how much of a pool is taken."""
    return tr(
        "{used} of {limit} for models",
        used=words.format_bytes(pool.bytes_in_use),
        limit=words.format_bytes(max(0, pool.limit)),
    )


def bar_total(pool: MemoryPool) -> float:
    """Return what the whole bar stands for: what models may take, or more if they have more."""
    return float(max(pool.limit, pool.bytes_in_use, 1))


def bar_parts(pool: MemoryPool) -> list[BarPart]:
    """Return the bar's pieces, the largest first."""
    return [
        BarPart(name=holder.model, amount=float(holder.bytes or 0), color=_COLORS[at % len(_COLORS)])
        for at, holder in enumerate(_sort_holders(pool))
    ]


def legend_entries(pool: MemoryPool) -> list[tuple[str, str]]:
    """Return (colour, words) for every piece, and for what is left."""
    entries = [(_COLORS[at % len(_COLORS)], _holder_words(holder)) for at, holder in enumerate(_sort_holders(pool))]
    free = max(0, pool.limit - pool.bytes_in_use)
    return [
        *entries,
        (
            REST,
            tr(
                "{free} left, plus {reserve} reserved for other programs",
                free=words.format_bytes(free),
                reserve=words.format_bytes(pool.head_room),
            ),
        ),
    ]


def waits_text(waiting_loads: Sequence[WaitingLoad]) -> str:
    """Return who waits for whom, a sentence each."""
    return " ".join(map(_wait_sentence, waiting_loads))


def _sort_holders(pool: MemoryPool) -> list[MemoryHolder]:
    return sorted(pool.holders, key=lambda holder: (-(holder.bytes or 0), holder.model))


def _holder_words(holder: MemoryHolder) -> str:
    amount = tr("size not known yet") if holder.bytes is None else words.format_bytes(holder.bytes)
    text = f"{holder.model}, {amount}"
    return tr("{model}, pinned", model=text) if holder.is_pinned else text


def _wait_sentence(load: WaitingLoad) -> str:
    if not load.waits_for:
        return tr("{model} is waiting for memory.", model=load.model)
    return tr("{model} is waiting for {others}.", model=load.model, others=tr_list(load.waits_for))
