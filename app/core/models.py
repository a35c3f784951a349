"""Models on this machine, as every program names them.

Attaching an endpoint that somebody else runs: what is asked for. What comes of it are models (`ModelInfo`).
"""

from collections.abc import Iterable
from enum import StrEnum
from typing import Annotated, Literal

import msgspec

from app.core.capabilities import Capability
from app.core.thinking import ThinkingDefault, ThinkingLevel


class PresetMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A turn that every conversation with a made model begins with."""

    role: str
    content: str


class Preset(msgspec.Struct, frozen=True, kw_only=True):
    """What a made model adds to the weights it shares. A request's own values go before these.

    `parameters` have Ollama's names. `template` is as it was given; `chat_template` the same for the engine, in Jinja.
    """

    base: str = ""
    """The model whose weights these are, by its own name; empty for one whose weights were uploaded."""
    system: str = ""
    template: str = ""
    chat_template: str = ""
    parameters: dict[str, bool | int | float | str | list[str]] = {}
    messages: list[PresetMessage] = []
    license: list[str] = []

    @property
    def context(self) -> int | None:
        """Tokens of context to load it with, if the preset says."""
        tokens = self.parameters.get("num_ctx")
        return tokens if isinstance(tokens, int) and tokens > 0 else None

    @property
    def needs_own_engine(self) -> bool:
        """Whether it is loaded differently from its base, and so not answered by the same process."""
        return bool(self.chat_template) or self.context is not None


class ModelInfo(msgspec.Struct, frozen=True, kw_only=True):
    """One loadable model.

    `name` is what a request's `model` field says; `format` an `engines.api.ModelFormat` value. Sizes are bytes,
    contexts tokens; an unknown figure is None. `problem` is set when the file is there and cannot be used.
    """

    name: str
    title: str
    path: str
    format: str
    size_bytes: int
    architecture: str = ""
    quantization: str = ""
    parameters: int | None = None
    trained_context: int | None = None
    is_builtin: bool = False
    """True for the Guide, the tiny help model that ships with the application."""
    embeds: bool = False
    chats: bool = True
    capabilities: list[Capability] = []
    """What its files or its endpoint say it can do; in every answer of the gateway, what it can do here."""
    problem: str = ""
    modified_at: float = 0.0
    store: str = ""
    """The program that keeps its files, where that is another one ("Ollama"): they are used and never changed."""
    preset: Preset | None = None
    """Of a made model: a name with settings over the weights of another."""
    attached: str = ""
    """Base URL of the endpoint that serves it, if that is not this computer's doing."""
    served_as: str = ""
    """What that endpoint calls it."""
    served_by: str = ""
    """What program that endpoint is ("vLLM", "TabbyAPI"), as far as its answers tell."""
    machine: str = ""
    """The paired machine that it is on; empty for what is here, or at an endpoint of somebody else's."""
    router: str = ""
    """The engine that shares requests out over a fleet's replicas; `attached` is the first one's base then."""

    @property
    def runs_as(self) -> str:
        """The name its engine runs under: made models share the engine of what they were made from."""
        if self.preset is None or not self.preset.base or self.preset.needs_own_engine:
            return self.name
        return self.preset.base

    @property
    def is_reranker(self) -> bool:
        """True for a model that says how well documents answer a query."""
        return Capability.RERANK in self.capabilities


class MakeModel(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Ask for a further name for the weights of `base`, with settings. A made model of that name is replaced."""

    name: str
    base: str
    preset: Preset = Preset()


class RegisterModel(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Ask for a local file to be listed where it lies; it is neither copied nor changed."""

    path: str


class LoadOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a caller may choose when loading. None means: let Roundhouse choose. Context is tokens per slot."""

    context: int | None = None
    slots: int | None = None
    threads: int | None = None
    gpu_layers: int | None = None
    kv_type: str | None = None
    """"f16", "q8_0" or "q4_0"."""
    gpu_memory_fraction: float | None = None
    """The share of GPU memory it may take, 0.05 to 1, for engines that take their share at the start."""
    across: tuple[str, ...] | None = None
    """Paired machines that hold a part of the layers; empty: none any more. None leaves it as it is."""


class ModelSampling(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """How tokens are chosen for a request that does not say. None: nobody says."""

    temperature: Annotated[float, msgspec.Meta(ge=0, le=5)] | None = None
    top_p: Annotated[float, msgspec.Meta(gt=0, le=1)] | None = None
    top_k: Annotated[int, msgspec.Meta(ge=0, le=100_000)] | None = None
    """0: all."""
    min_p: Annotated[float, msgspec.Meta(ge=0, le=1)] | None = None
    repeat_penalty: Annotated[float, msgspec.Meta(ge=0.1, le=5)] | None = None

    def fill_gaps_from(self, other: "ModelSampling") -> "ModelSampling":
        """Return this one, with the other's values where it has none."""
        fallbacks = {name: getattr(other, name) for name in self.__struct_fields__ if getattr(self, name) is None}
        return msgspec.structs.replace(self, **fallbacks)


MAX_SLOTS = 1024
"""Requests that one model can be set to answer at once: four times what vLLM and SGLang are started with by default."""
NO_PROJECTOR = "none"
"""In `ModelSettings.projector`: the file beside the model that would let it see is left alone."""
NO_PARSER = "none"
"""In `ModelSettings.tool_parser`: the engine reads no calls, whatever the model's chat template says."""
_Path = Annotated[str, msgspec.Meta(min_length=1, max_length=4096)]
_Parser = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]
_Argument = Annotated[str, msgspec.Meta(min_length=1, max_length=4096, pattern=r"^[^\x00]+$")]


DRAFT_OFF = "off"
"""In place of a draft: none, whatever a trial showed."""
OWN_HEAD = "mtp"
"""A model's own head for multi-token prediction, as a draft."""
OWN_DRAFTS = ("ngram", OWN_HEAD)
"""What a model drafts with by itself: words that it wrote or read before, or its head for multi-token prediction."""
AUTOMATIC = "auto"
"""What a command line says for a draft that nobody chose."""


def larger_quantizations(model: ModelInfo, models: Iterable[ModelInfo]) -> list[ModelInfo]:
    """Return those that are the same model in more bytes, by architecture and number of weights; the largest first."""
    if not model.chats or model.attached:
        return []
    larger = [
        part
        for part in models
        if not (part.problem or part.attached)
        and (part.architecture, part.parameters) == (model.architecture, model.parameters)
        and (part.size_bytes or 0) > (model.size_bytes or 0)
    ]
    return sorted(larger, key=lambda part: part.size_bytes, reverse=True)


class ModelSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What a person set for one model, whichever way it is loaded. None: as for all models. Context is per slot."""

    pinned: bool = False
    """It stays loaded: neither time nor another model unloads it."""
    idle_minutes: Annotated[int, msgspec.Meta(ge=0, le=10_080)] | None = None
    """Unload it after so many minutes without use; 0 keeps it."""
    context: Annotated[int, msgspec.Meta(ge=256, le=4_194_304)] | None = None
    slots: Annotated[int, msgspec.Meta(ge=1, le=MAX_SLOTS)] | None = None
    kv_type: Literal["f16", "q8_0", "q4_0"] | None = None
    threads: Annotated[int, msgspec.Meta(ge=1, le=512)] | None = None
    """Processor threads that it computes with; None: the fast cores."""
    batch_tokens: Annotated[int, msgspec.Meta(ge=32, le=65_536)] | None = None
    """Tokens of prompts that are read in one piece, for engines that have such a limit."""
    flash_attention: Literal["on", "off"] | None = None
    """None: as the engine chooses."""
    gpu_layers: Annotated[int, msgspec.Meta(ge=0, le=10_000)] | None = None
    """Layers on the GPU, for engines that split by layers; None: as planned, with what is free at the load."""
    cpu_moe_layers: Annotated[int, msgspec.Meta(ge=1, le=10_000)] | None = None
    """First layers whose experts stay in system memory, for engines that keep them apart; None: as planned likewise."""
    gpu: Annotated[str, msgspec.Meta(pattern=r"^GPU-[0-9A-Za-z-]{1,64}$")] | None = None
    """UUID of the card it is put on, where there are several; None: as planned for all of them."""
    gpu_memory_fraction: Annotated[float, msgspec.Meta(ge=0.05, le=1)] | None = None
    """The share of memory it may take, for engines that take theirs at the start: a card's, or the computer's."""
    engine: Annotated[str, msgspec.Meta(max_length=64)] | None = None
    """Id of the engine that runs it; None: the best that is installed."""
    sampling: ModelSampling = ModelSampling()
    """Goes before what the model's files say; a request's own values go before both."""
    uses_model_sampling: bool = True
    """Whether the sampling that the model's files recommend counts, and how much its makers have it think."""
    thinking: ThinkingLevel | None = None
    """How much it thinks for a request that does not say; None: as its makers recommend."""
    thinking_budget: Annotated[int, msgspec.Meta(ge=0, le=4_194_304)] | None = None
    """Tokens after which its thinking is ended, by engines that can; None: as its makers recommend."""
    chat_template: Annotated[str, msgspec.Meta(min_length=1, max_length=262_144)] | None = None
    """Jinja, in place of the model's own."""
    draft: _Path | None = None
    """What drafts for it: `DRAFT_OFF`, one of `OWN_DRAFTS`, a model of the library by name, or a GGUF file by path.

    None: what a trial on this machine showed to be faster, if one did.
    """
    loras: Annotated[list[_Path], msgspec.Meta(max_length=8)] = []
    """Files of LoRA adapters, all of them applied."""
    projector: _Path | None = None
    """The file that lets it see; None: the one that lies beside it."""
    tool_parser: _Parser | None = None
    """What tells tool calls from text, by its engine's name; None: the one that its chat template asks for."""
    reasoning_parser: _Parser | None = None
    """Likewise, of reasoning; None: Roundhouse tells it from the answer."""
    extra_args: Annotated[list[_Argument], msgspec.Meta(max_length=64)] = []
    """Further arguments of its engine's command line, a word each."""
    allows_code: bool = False
    """Programs among its files may run, with the rights of whoever runs Roundhouse."""
    code_from: Annotated[str, msgspec.Meta(max_length=4096)] = ""
    """Whose code was allowed, as the gateway noted it then: another model of the same name is not allowed any."""


def list_changes(before: ModelSettings, after: ModelSettings) -> list[str]:
    """Return the names of the settings that differ."""
    return [name for name in after.__struct_fields__ if getattr(before, name) != getattr(after, name)]


class Autocomplete(msgspec.Struct, frozen=True, kw_only=True):
    """The model that completes code in editors, and whether it has room beside the one for chats."""

    model: str = ""
    """Empty where none was chosen."""
    problem: str = ""
    """Why it cannot complete code now."""
    is_loaded: bool = False
    beside: str = ""
    """The model for chats that it shares memory with."""
    fits: bool | None = None
    """Whether both have room at once; None where there is nothing to compare, or nobody can tell."""
    pool: str = ""
    """The memory that is shortest: how much of it both need, and how much there is for them."""
    needed: int = 0
    room: int = 0
    choices: list[str] = []
    """Models here that know the marks of a gap, the smallest first."""
    offer: str = ""
    """What `roundhouse pull` takes to have one for this machine."""
    offer_bytes: int = 0


class ChooseAutocomplete(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Choose the model for code completion; without a name, none."""

    model: str = ""


class SetModel(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Ask for a model's own settings to be these from now on; what runs keeps its context until it is loaded again."""

    model: str
    settings: ModelSettings = ModelSettings()


class CompanionKind(StrEnum):
    """What goes with a model and is none by itself."""

    PROJECTOR = "projector"
    DRAFT = "draft"
    LORA = "lora"


class Companion(msgspec.Struct, frozen=True, kw_only=True):
    """A file that goes with a model. `name` is what a setting says for it: a path, or a model's name for a draft."""

    kind: CompanionKind
    name: str
    title: str
    size_bytes: int
    is_used: bool = False
    """Whether the next load takes it."""
    problem: str = ""
    """Why it does not go with this model after all."""


class EngineOption(msgspec.Struct, frozen=True, kw_only=True):
    """An engine that reads a model's format."""

    id: str
    name: str
    is_installed: bool


class GpuOption(msgspec.Struct, frozen=True, kw_only=True):
    """A card that a model can be put on."""

    uuid: str
    name: str
    memory_bytes: int | None = None


class TemplateReading(msgspec.Struct, frozen=True, kw_only=True):
    """What a chat template does, read without running it, against the template it was made from where that is here."""

    base: str = ""
    """Where the other template is from, in words; empty where there is none to compare it with."""
    is_changed: bool = False
    """Whether it does otherwise than that one."""
    notes: list[str] = []
    """What it does that the other does not, each in a sentence; without another, what deserves a look."""

    @property
    def summary(self) -> str:
        """What came of it, in a sentence."""
        if not self.base:
            return "There is no template here to compare it with."
        if not self.is_changed:
            return f"The same as {self.base}."
        return f"This template was changed: it is not the same as {self.base}."


class AnswerChoices(msgspec.Struct, frozen=True, kw_only=True):
    """What can be asked of a model's answers, with its chat template and the engine of its next load."""

    thinks: bool = False
    can_switch_thinking: bool = False
    """Its template can be told not to think."""
    takes_effort: bool = False
    """Its template knows how much: low, medium or high."""
    takes_budget: bool = False
    """Thinking can be ended after a number of tokens."""
    takes_schema: bool = False
    takes_grammar: bool = False
    engine_name: str = ""


class ModelChoices(msgspec.Struct, frozen=True, kw_only=True):
    """One model: what is set for it, what it says of itself, and what there is to choose from."""

    model: str
    settings: ModelSettings
    sampling: ModelSampling = ModelSampling()
    """What the model recommends."""
    sampling_source: str = ""
    """Where it does: a file's name, or the repository it was made from."""
    maker_note: str = ""
    """What its makers say of thinking and of its chat template, as the catalogue has it."""
    is_sampling_unchecked: bool = False
    """Whether `sampling` is the catalogue's, and nobody compared it with what the makers publish."""
    maker_thinking: ThinkingDefault = ThinkingDefault()
    """How much its makers have it think, as the catalogue has it."""
    thinking: ThinkingDefault = ThinkingDefault()
    """How much it thinks for a request that does not say; what is None here is its chat template's own."""
    effective: ModelSampling = ModelSampling()
    """What a request gets that does not say; what is None here is the engine's own."""
    answers: AnswerChoices = AnswerChoices()
    engine: str = ""
    """The engine that the next load takes; empty if none can."""
    engines: list[EngineOption] = []
    gpus: list[GpuOption] = []
    """The cards to choose from; empty where there are not several, or the engine cannot be put on one of them."""
    companions: list[Companion] = []
    aliases: list[str] = []
    """Further names it answers to."""
    chat_template: str = ""
    """The model's own."""
    template_reading: TemplateReading | None = None
    """What the template does that the next load takes; None where there is none."""
    brings_code: bool = False
    """Whether programs are among its files, which an engine may want to run."""
    takes: list[str] = []
    """Of `allows_code`, `tool_parser` and `reasoning_parser` those that the engine has an option for."""
    tool_parser: str = ""
    """What tells tool calls from text with the next load; empty where the engine has no parser, or none for it."""
    draft: str = ""
    """What drafts with the next load: one of `OWN_DRAFTS`, or a model; empty for nothing."""
    draft_reason: str = ""
    """Why, in a sentence."""
    draft_candidate: str = ""
    """What of `OWN_DRAFTS` a trial would try; empty where the engine drafts with none of them."""
    is_draft_tried: bool = False
    """Whether a trial was made with this file and version of the engine."""
    is_loaded: bool = False
    needs_reload: bool = False
    """Whether it runs with other settings than these."""


class LoadModel(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Ask for a model to be made ready. With `wait` false the answer comes at once; follow it on the events stream.

    A model that runs is started again for options that are named and differ; without any it is left as it is.
    """

    model: str
    options: LoadOptions = LoadOptions()
    wait: bool = True


class UnloadModel(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Ask for a model's engine to be stopped. Requests in flight finish first unless `force`."""

    model: str
    force: bool = False


class AttachEndpoint(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Put the models of an OpenAI-compatible endpoint behind this one.

    `models` are the endpoint's own names, all of them if empty; `name` is what one is called here, and the first part
    of the names of several. `key` is sent to the endpoint as a Bearer token, kept in a file only its owner can read,
    and told to nobody.
    """

    url: str
    name: str = ""
    key: str = ""
    models: list[str] = []
    can: list[Capability] | None = None
    """What they can do, by whoever attaches them: it counts before what the endpoint says."""
    context: Annotated[int, msgspec.Meta(ge=1)] | None = None
    """Tokens they take, likewise."""

    def __repr__(self) -> str:
        """Leave out the key: what is shown may be logged."""
        return f"AttachEndpoint({self.url!r}, name={self.name!r}, models={self.models!r})"


class CorrectAttached(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Say of an attached model what it can do and how much it takes; the endpoint is asked anew for the rest.

    What is left out stays as it is; null takes back what was said, so that the endpoint's word counts again.
    """

    can: list[Capability] | msgspec.UnsetType | None = msgspec.UNSET
    context: Annotated[int, msgspec.Meta(ge=1)] | msgspec.UnsetType | None = msgspec.UNSET
