"""State of one model's settings: what is set, what the model recommends, what there is to choose, and every change.

A change counts at once, as on the settings page; what the gateway refuses is said at its row, and the row goes back.
"""

import shlex
import time
from collections.abc import Callable
from functools import partial
from types import NoneType
from typing import TYPE_CHECKING, Any

import msgspec
from PySide6.QtCore import QObject, Signal

from app.benchmark.plots import BenchmarkPlot, make_history_plots
from app.client.http import quote_segment
from app.core import words
from app.core.advice import TryDrafts
from app.core.benchmarks import BenchmarkReceipt
from app.core.errors import ErrorBody
from app.core.events import DraftTrialChanged
from app.core.models import (
    DRAFT_OFF,
    MAX_SLOTS,
    NO_PARSER,
    NO_PROJECTOR,
    OWN_DRAFTS,
    Companion,
    CompanionKind,
    ModelChoices,
    ModelInfo,
    ModelSampling,
    ModelSettings,
    SetModel,
)
from app.core.thinking import ThinkingLevel
from app.core.translation import LazyText, tr
from app.gui import phrases
from app.gui.net.model_settings import ask_to_allow
from app.gui.net.remote_lists import Stores
from app.gui.screens.chat.options import SAMPLING_OPTIONS, NumberOption
from app.gui.screens.models.across_section import AcrossModel
from app.gui.screens.models.exl3_section import Exl3Model
from app.gui.screens.models.loss_section import LossModel
from app.gui.shell.contract import RACE_TASK, TUNE_TASK, PageId, Shell

if TYPE_CHECKING:
    from app.gui.net.api import GatewayCall

ALIASES = "models.aliases"
CONTEXT = NumberOption(
    "context", LazyText("Context"), LazyText("Tokens for each request, question and answer together."), 256, 4_194_304
)
SLOTS = NumberOption(
    "slots", LazyText("Requests at once"), LazyText("Each has a context of its own in memory."), 1, MAX_SLOTS
)
IDLE = NumberOption(
    "idle_minutes",
    LazyText("Unload after"),
    LazyText("Minutes without use; 0 keeps it until memory is needed."),
    0,
    10_080,
)
THINKING_BUDGET = NumberOption(
    "thinking_budget",
    LazyText("Most thinking"),
    LazyText("Tokens after which its thinking is ended and it answers."),
    0,
    4_194_304,
)
MEMORY_SHARE = NumberOption(
    "gpu_memory_fraction",
    LazyText("Share of memory"),
    LazyText("From 0.05 to 1: how much of the graphics card, or of the computer without one, it takes at its start."),
    0.05,
    1.0,
)
THREADS = NumberOption(
    "threads", LazyText("Threads"), LazyText("Of the processor; empty: as many as it has fast cores."), 1, 512
)
BATCH = NumberOption(
    "batch_tokens", LazyText("Batch"), LazyText("Tokens of prompts that are read in one piece."), 32, 65_536
)
GPU_LAYERS = NumberOption(
    "gpu_layers", LazyText("GPU layers"), LazyText("Empty: as planned with the memory that is free."), 0, 10_000
)
CPU_MOE_LAYERS = NumberOption(
    "cpu_moe_layers",
    LazyText("Experts in memory"),
    LazyText("Layers whose experts stay off the GPU; empty: as planned with the memory that is free."),
    1,
    10_000,
)
NUMBERS = (CONTEXT, SLOTS, THREADS, BATCH, GPU_LAYERS, CPU_MOE_LAYERS, MEMORY_SHARE, IDLE, THINKING_BUDGET)
FLASH_ATTENTION = (("", LazyText("As the engine chooses")), ("on", LazyText("On")), ("off", LazyText("Off")))
SAMPLING = tuple(choice for choice in SAMPLING_OPTIONS if choice.name in ModelSampling.__struct_fields__)
KV_TYPES = (
    ("", LazyText("Same as for all models")),
    ("f16", LazyText("f16")),
    ("q8_0", LazyText("q8_0, half the memory")),
    ("q4_0", LazyText("q4_0, a quarter")),
)
_LIMITS = {limits.name: limits for limits in (*NUMBERS, *SAMPLING)}
_NOBODY = ModelSettings()


class ModelSettingsModel(QObject):
    """One model at a time. `problem` carries the row's name and a sentence, empty once it is right."""

    changed = Signal()
    opened = Signal()
    closed = Signal()
    problem = Signal(str, str)
    toast_requested = Signal(str, object)

    def __init__(self, stores: Stores, shell: Shell, clock: Callable[[], float] = time.time) -> None:
        super().__init__(shell)
        self._clock = clock
        self._api, self._preferences, self._running_models = stores.api, stores.preferences, stores.running
        self._shell = shell
        self.model: ModelInfo | None = None
        self.choices: ModelChoices | None = None
        self.error: ErrorBody | None = None
        self._call: GatewayCall | None = None
        self.history: list[BenchmarkReceipt] = []
        """What benchmarks of the model came to here."""
        self.trial: DraftTrialChanged | None = None
        """How trying drafts with this model has come; None while nothing is tried."""
        self.loss = LossModel(stores.api, stores.library, self)
        """What its quantisation loses against a larger one."""
        self.exl3 = Exl3Model(stores.api, shell)
        """EXL3 made of its original weights."""
        self.across = AcrossModel(stores, shell)
        """Spreading it over paired computers."""
        shell.event_received.connect(self._handle_event)

    @property
    def settings(self) -> ModelSettings:
        """What is set now."""
        return self.choices.settings if self.choices is not None else _NOBODY

    def open_model(self, model: ModelInfo) -> None:
        """Turn to a model."""
        self.model, self.choices, self.error, self.trial = model, None, None, None
        self.history = []
        self.loss.open_model(model)
        self.exl3.open_model(model)
        self.across.open_model(model)
        self.opened.emit()
        self.changed.emit()
        self.fetch_choices()
        self._fetch_history(model)

    def close_model(self) -> None:
        """Turn away from it, if one is open."""
        if self.model is None:
            return
        self._cancel_call()
        self.model = self.choices = self.error = None
        self.loss.open_model(None)
        self.exl3.open_model(None)
        self.across.open_model(None)
        self.closed.emit()

    def fetch_choices(self) -> None:
        """Fetch what is so now."""
        if self.model is None:
            return
        self._cancel_call()
        path = f"/model-settings/{quote_segment(self.model.name)}"
        self._call = self._api.get(path, ModelChoices, self._set_choices, self._store_error)

    def _fetch_history(self, model: ModelInfo) -> None:
        """Ask for what was measured of a model; without an answer nothing is shown of it."""

        def show_history(receipts: list[BenchmarkReceipt]) -> None:
            if self.model is model:
                self.history = receipts
                self.changed.emit()

        path = f"/benchmarks?model={quote_segment(model.name)}"
        self._api.get(path, list[BenchmarkReceipt], show_history, lambda _: None)

    @property
    def history_plots(self) -> list[BenchmarkPlot]:
        """What is drawn of the measurements."""
        return make_history_plots(self.history)

    @property
    def last_measurement(self) -> str:
        """The newest result that counts, in a sentence; empty for none."""
        receipt = max((part for part in self.history if not part.disturbances), key=lambda part: part.at, default=None)
        if receipt is None:
            return ""
        level, target = receipt.first_level, receipt.target
        return tr(
            "{workload} with {engine}: {rate} per answer, first token after {duration} ({ago}).",
            ago=phrases.time_ago(self._clock() - receipt.at),
            workload=receipt.settings.workload_title,
            engine=f"{target.engine} {target.engine_version}".strip(),
            rate=words.format_rate(level.decode_tokens_s.value),
            duration=words.format_duration(level.ttft_s.median.value),
        )

    def show_results(self) -> None:
        """Go to the results of all models."""
        self._shell.show_page(PageId.BENCHMARKS)

    def change_setting(self, name: str, value: Any) -> None:  # noqa: ANN401 -- a field of ModelSettings
        """Set one thing; None leaves it to Roundhouse."""
        self._post_settings(msgspec.structs.replace(self.settings, **{name: value}), name)

    def type_in(self, name: str, text: str) -> None:
        """Take a number as it was typed; nothing leaves it to Roundhouse, or to the model."""
        limits = _LIMITS[name]
        try:
            value = limits.parse_text(text)
        except ValueError:
            self.problem.emit(name, limits.refusal)
            return
        self.problem.emit(name, "")
        if value == self._current_value(name):
            return
        if name in ModelSampling.__struct_fields__:
            self.change_setting("sampling", msgspec.structs.replace(self.settings.sampling, **{name: value}))
        else:
            self.change_setting(name, value)

    def name_parser(self, name: str, text: str) -> None:
        """Take a parser's name as it was typed; nothing leaves it to Roundhouse."""
        if (text or None) != getattr(self.settings, name):
            self.change_setting(name, text or None)

    def type_arguments(self, text: str) -> None:
        """Take further arguments as they were typed on one line, in quotation marks where one holds a space."""
        try:
            arguments = _split_words(text)
        except ValueError:
            self.problem.emit("extra_args", tr("A quotation mark is not closed."))
            return
        if arguments == self.settings.extra_args:
            self.problem.emit("extra_args", "")
        else:
            self.change_setting("extra_args", arguments)

    def allow_code(self, *, is_allowed: bool) -> None:
        """Let the model's own code run, once a person has read what that means; or no longer."""
        if not is_allowed:
            self.change_setting("allows_code", is_allowed)
            return
        self.changed.emit()  # the switch stays off until the question is answered
        ask_to_allow(self._shell, self._title, partial(self.change_setting, "allows_code", is_allowed))

    def apply_lora(self, path: str, *, is_used: bool) -> None:
        """Have an adapter applied from the next load on, or not."""
        others = [other for other in self.settings.loras if other != path]
        self.change_setting("loras", [*others, path] if is_used else others)

    def set_names(self, names: list[str]) -> None:
        """Let the model answer to these names, and to no others that stood for it."""
        if self.model is None or self.choices is None:
            return
        aliases = self._preferences.get(ALIASES, [])
        old_aliases = {f"{name}={self.model.name}".casefold() for name in self.choices.aliases}
        others = (
            [alias for alias in aliases if alias.casefold() not in old_aliases] if isinstance(aliases, list) else []
        )
        new_aliases = [f"{name}={self.model.name}" for name in names]
        self._preferences.change_all(
            {ALIASES: [*new_aliases, *others]}, then=self.fetch_choices, on_error=self._error_handler("aliases")
        )

    def reset_settings(self) -> None:
        """Forget all that is set, but for the pin; Undo sets it again."""
        before = self.settings
        self._post_settings(ModelSettings(pinned=before.pinned), "reset")
        self.toast_requested.emit(
            tr("{title} was reset to its defaults.", title=self._title), lambda: self._post_settings(before, "reset")
        )

    def tune_by_measuring(self) -> None:
        """Have the model's fastest settings looked for, on the page of benchmarks."""
        if self.model is not None:
            self._shell.request_task(PageId.BENCHMARKS, f"{TUNE_TASK}{self.model.name}")

    def show_race(self) -> None:
        """Go to the race of the engines that could run the model."""
        if self.model is not None:
            self._shell.request_task(PageId.BENCHMARKS, f"{RACE_TASK}{self.model.name}")

    def try_drafts(self) -> None:
        """Have it tried on this machine whether drafts make the model faster."""
        if self.model is not None and self.trial is None:
            self.problem.emit("draft", "")
            body = TryDrafts(model=self.model.name)
            self._api.post(
                "/draft-trials", body, kind=NoneType, then=lambda _: None, on_error=self._error_handler("draft")
            )

    def stop_trial(self) -> None:
        """Stop trying."""
        self._api.send_request(
            "DELETE", "/draft-trials", None, kind=NoneType, then=lambda _: None, on_error=self._error_handler("draft")
        )

    def _handle_event(self, event: Any) -> None:  # noqa: ANN401 -- an Event, as a Qt signal carries it
        if not isinstance(event, DraftTrialChanged) or self.model is None or event.model != self.model.runs_as:
            return
        self.trial = None if event.done else event
        self.changed.emit()
        if event.done:
            self.problem.emit("draft", event.error)
            self.fetch_choices()

    def reload_model(self) -> None:
        """Load it with what is set now."""
        model = self.model
        if model is not None:
            self._running_models.unload(
                model.name, lambda: self._running_models.load(model.name), self._error_handler("reset")
            )

    @property
    def _title(self) -> str:
        return phrases.model_title(self.model) if self.model is not None else ""

    def _current_value(self, name: str) -> object:
        return getattr(self.settings.sampling if name in ModelSampling.__struct_fields__ else self.settings, name)

    def _post_settings(self, settings: ModelSettings, row: str) -> None:
        if self.model is None:
            return
        body = SetModel(model=self.model.name, settings=settings)

        def finish_post(_settings: ModelSettings) -> None:
            self.problem.emit(row, "")
            self.fetch_choices()

        self._api.post("/model-settings", body, kind=ModelSettings, then=finish_post, on_error=self._error_handler(row))

    def _error_handler(self, row: str) -> Any:  # noqa: ANN401 -- a callback
        def show_error(error: ErrorBody) -> None:
            self.changed.emit()  # the control goes back to what is so
            self.problem.emit(row, " ".join(filter(None, (error.sentence, error.hint))))

        return show_error

    def _set_choices(self, choices: ModelChoices) -> None:
        self.choices, self.error = choices, None
        self.changed.emit()

    def _store_error(self, error: ErrorBody) -> None:
        self.error = error
        self.changed.emit()

    def _cancel_call(self) -> None:
        if self._call is not None:
            self._call.cancel()


def recommendation_text(choices: ModelChoices) -> str:
    """Return what the model recommends, in a sentence, and what its makers say besides."""
    return " ".join(filter(None, (_sampling_sentence(choices), choices.maker_note)))


def _sampling_sentence(choices: ModelChoices) -> str:
    values = words.format_sampling(choices.sampling)
    if not values:
        return tr("The model recommends nothing. Values in a request always take precedence.")
    if choices.is_sampling_unchecked:
        return tr(
            "From the catalogue, not compared with what its makers publish: {values}. Values in a request always "
            "take precedence.",
            values=values,
        )
    return tr(
        "From the model ({source}): {values}. Values in a request always take precedence.",
        source=choices.sampling_source,
        values=values,
    )


def thinking_options(choices: ModelChoices) -> list[tuple[str, str]]:
    """Return how much it can be set to think, the makers' recommendation first."""
    maker = choices.maker_thinking.level
    theirs = (
        tr("As recommended: {level}", level=words.THINKING[maker].tr())
        if maker is not None and choices.settings.uses_model_sampling
        else tr("As recommended")
    )
    return [("", theirs), *((level.value, words.THINKING[level].tr()) for level in ThinkingLevel)]


DRAFT_HELP = LazyText("Words are drafted ahead and checked together. Answers stay the same.")
_OWN_DRAFTS = {"ngram": LazyText("Words it wrote or read before"), "mtp": LazyText("Its own prediction head")}
TEMPLATE_HELP = LazyText("Jinja. It is tested before it is saved.")


def template_text(choices: ModelChoices) -> str:
    """Return what the template does that is used, one sentence a line."""
    template_reading = choices.template_reading
    return "\n".join(
        [TEMPLATE_HELP.tr()]
        if template_reading is None
        else [TEMPLATE_HELP.tr(), template_reading.summary, *template_reading.notes]
    )


def _split_words(text: str) -> list[str]:
    """Return the words of a line. A backslash is one: it belongs to paths."""
    reader = shlex.shlex(text, posix=True)
    reader.whitespace_split, reader.commenters, reader.escape = True, "", ""
    return list(reader)


def code_text(choices: ModelChoices) -> str:
    """Return what its own code is about, in a sentence or two."""
    return f"{tr('It contains custom code.')} {words.CODE_MEANING}" if choices.brings_code else words.CODE_MEANING.tr()


def parser_hint(choices: ModelChoices, name: str) -> str:
    """Return what counts where no parser is named."""
    by_template = choices.tool_parser if name == "tool_parser" and not choices.settings.tool_parser else ""
    return by_template or NO_PARSER


def shows_setting(choices: ModelChoices, *names: str) -> bool:
    """Tell whether a setting is worth a row: its engine has an option for it, or somebody has set it."""
    return any(name in choices.takes or getattr(choices.settings, name) for name in names)


def gpu_options(choices: ModelChoices) -> list[tuple[str, str]]:
    """Return the cards to choose from, the choice of ours first; several of one name are told apart by their UUID."""
    names = [option.name for option in choices.gpus]
    return [
        ("", tr("As planned")),
        *(
            (option.uuid, option.name if names.count(option.name) == 1 else f"{option.name} · {option.uuid[:12]}")
            for option in choices.gpus
        ),
    ]


def engine_options(choices: ModelChoices) -> list[tuple[str, str]]:
    """Return the engines to choose from, the choice of ours first."""
    ours = next((engine.name for engine in choices.engines if engine.id == choices.engine), "")
    best = tr("Best, {engine}", engine=ours) if ours and choices.settings.engine is None else tr("Best installed")
    others = [
        (engine.id, engine.name if engine.is_installed else tr("{name}, not installed", name=engine.name))
        for engine in choices.engines
    ]
    return [("", best), *others]


def draft_text(choices: ModelChoices) -> str:
    """Return what drafts with the next load and why."""
    if not choices.draft_reason:
        return DRAFT_HELP.tr()
    now = tr("Nothing drafts") if not choices.draft else tr("{draft} drafts", draft=choices.draft)
    return tr("{help} {now}: {reason}", help=DRAFT_HELP.tr(), now=now, reason=choices.draft_reason)


def draft_options(choices: ModelChoices) -> list[tuple[str, str]]:
    """Return what can draft: what a trial showed, nothing, the model by itself, and smaller models."""
    own = {choices.draft_candidate, choices.settings.draft or ""} & set(OWN_DRAFTS)
    if choices.draft_candidate == "mtp":
        own.add("ngram")
    return [
        ("", tr("Automatic")),
        (DRAFT_OFF, tr("None")),
        *((kind, _OWN_DRAFTS[kind].tr()) for kind in OWN_DRAFTS if kind in own),
        *(
            (companion.name, companion_title(companion))
            for companion in choices.companions
            if companion.kind is CompanionKind.DRAFT
        ),
    ]


def projector_options(choices: ModelChoices) -> list[tuple[str, str]]:
    """Return the files that let it see; the one beside it is taken where nobody says."""
    candidates = [companion for companion in choices.companions if companion.kind is CompanionKind.PROJECTOR]
    used_projector = next((companion for companion in candidates if companion.is_used), None)
    is_ours = choices.settings.projector is None
    if used_projector is not None and is_ours:
        automatic = tr("The one next to the model, {title}", title=used_projector.title)
    else:
        automatic = tr("The one next to the model, if any")
    return [
        ("", automatic),
        (NO_PROJECTOR, tr("None")),
        *((companion.name, companion_title(companion)) for companion in candidates),
    ]


def list_loras(choices: ModelChoices) -> dict[str, Companion]:
    """Return the adapters that fit, and those that are set, by path."""
    return {companion.name: companion for companion in choices.companions if companion.kind is CompanionKind.LORA}


def companion_title(companion: Companion) -> str:
    """Return a companion's title with its size."""
    return f"{companion.title}, {words.format_bytes(companion.size_bytes)}" if companion.size_bytes else companion.title
