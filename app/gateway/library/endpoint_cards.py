"""What the servers people run say of their models, each in its own words: read, never guessed from a name.

The list of models says something nearly everywhere. Where it does not say what kind a model is, the routes are asked
that describe models and compute nothing: LM Studio's lists, Ollama's `/api/show`, llama-server's `/props`.
"""

import asyncio
import hashlib
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TypeVar

import msgspec

from app.core.capabilities import SINGLE, Capability, parse_capability
from app.core.errors import RoundhouseError
from app.supervisor.readiness import OK, EngineEndpoint
from app.supervisor.remote import RemoteModel

T = TypeVar("T")

DETAILS_S = 4.0
"""Time for everything beyond the list: who attaches an endpoint waits for it."""
_SHOWN_AT_ONCE = 8
_VERSIONED = re.compile(r"/v\d+$")
_ROUNDHOUSE = "roundhouse"
_TABBY = "TabbyAPI"
_SERVERS = {
    _ROUNDHOUSE: "Roundhouse",
    "vllm": "vLLM",
    "sglang": "SGLang",
    "llamacpp": "llama-server",
    "tabbyapi": _TABBY,
    "ovms": "OpenVINO Model Server",
}
"""Whose lists name the program as the owner of every model."""
_KINDS = SINGLE | {Capability.COMPLETION, Capability.CHAT, Capability.TRANSCRIPTION}
"""What a model is for. A list that names one of these names all that there are."""
_ABILITIES = frozenset(Capability) - _KINDS
_TYPES = {
    **dict.fromkeys(("llm", "chat", "chat-completion", "chat-completions", "language", "vlm"), Capability.CHAT),
    **dict.fromkeys(("embedding", "embeddings"), Capability.EMBEDDING),
    **dict.fromkeys(("rerank", "reranker"), Capability.RERANK),
    **dict.fromkeys(("transcription", "stt", "automatic-speech-recognition"), Capability.TRANSCRIPTION),
    **dict.fromkeys(("speech", "tts", "text-to-speech"), Capability.SPEECH),
    **dict.fromkeys(("image", "text-to-image"), Capability.IMAGES),
}
_SEES = "vlm"
_INPUTS = {"image": Capability.VISION, "audio": Capability.AUDIO}
_OUTPUTS = {"text": Capability.CHAT, "embeddings": Capability.EMBEDDING, "rerank": Capability.RERANK}
_PARAMETERS = {"tools": Capability.TOOLS, "reasoning": Capability.THINKING}

Answers = dict[Capability, bool]


class EndpointCard(msgspec.Struct, frozen=True):
    """What an endpoint says of a model. What it does not say is not among the answers."""

    answers: Answers = {}
    context: int | None = None
    server: str = ""
    """What program answers, as far as its answers tell."""

    @property
    def says_kind(self) -> bool:
        """Whether it says what the model is for."""
        return not _KINDS.isdisjoint(self.answers)

    def with_fallback(self, other: "EndpointCard") -> "EndpointCard":
        """Return this one, with the other's answers where it has none."""
        return EndpointCard(
            {**other.answers, **self.answers}, self.context or other.context, self.server or other.server
        )


def root_of(base: str) -> str:
    """Return where the routes are that have no version."""
    return _VERSIONED.sub("", base)


def digest_of(model: RemoteModel) -> str:
    """Return what changes when an endpoint says something else of a model; whether it is loaded does not count."""
    fixed_model = msgspec.structs.replace(model, loaded_context_length=None)
    return hashlib.sha256(msgspec.json.encode(fixed_model)).hexdigest()


async def cards_of(endpoint: EngineEndpoint, models: Sequence[RemoteModel]) -> dict[str, EndpointCard]:
    """Return what the endpoint says of its models, by their ids there. One that says no more costs a few seconds."""
    cards = {model.id: card_from_entry(model) for model in models}
    silent = [name for name, card in cards.items() if not card.says_kind]
    if silent:
        root = msgspec.structs.replace(endpoint, base_url=root_of(endpoint.base_url))
        details = await _details(root, silent, has_tabby=any(card.server == _TABBY for card in cards.values()))
        cards |= {name: details[name].with_fallback(cards[name]) for name in silent if name in details}
    return cards


def card_from_entry(model: RemoteModel) -> EndpointCard:
    """Return what an entry of `/v1/models` says."""
    answers = _answers_of_type(model.type) or _answers_of_type(model.task)
    answers |= _answers_of_modalities(model.architecture)
    parameters = _words(model.supported_parameters)
    if parameters:
        answers |= {capability: name in parameters for name, capability in _PARAMETERS.items()}
    answers |= answers_in(model.capabilities, is_whole=model.owned_by == _ROUNDHOUSE)
    server = _SERVERS.get(str(model.owned_by).casefold(), "")
    return EndpointCard(answers if model.owned_by == _ROUNDHOUSE else _without_gaps(answers), model.context, server)


def _without_gaps(answers: Answers) -> Answers:
    """Return what is said, without that gaps are filled: most do so on routes that are not spoken here."""
    return {
        capability: is_so for capability, is_so in answers.items() if capability is not Capability.INFILL or not is_so
    }


def answers_in(capabilities: object, *, is_whole: bool = False) -> Answers:
    """Return what a card's `capabilities` say, a list of words or a table of answers.

    A list that names a kind of model names them all; one that names an ability besides, or `is_whole`, all abilities.
    """
    if isinstance(capabilities, Mapping):
        named_answers = ((parse_capability(str(name)), value) for name, value in capabilities.items())
        return {capability: bool(value) for capability, value in named_answers if capability is not None}
    present = {capability for word in _words(capabilities) if (capability := parse_capability(word)) is not None}
    if Capability.COMPLETION in present:  # nobody says so of one that cannot chat
        present.add(Capability.CHAT)
    answers = dict.fromkeys(present, True)
    if present & _KINDS:
        answers = dict.fromkeys(_KINDS, False) | answers
    if present & _ABILITIES or (is_whole and present):
        answers = dict.fromkeys(_ABILITIES, False) | answers
    return answers


def _answers_of_type(kind: str | None) -> Answers:
    capability = _TYPES.get((kind or "").casefold())
    if capability is None:
        return {}
    answers = dict.fromkeys(_KINDS, False) | _kind(capability)
    return answers | ({Capability.VISION: True} if kind == _SEES else {})


def _kind(capability: Capability) -> Answers:
    return {capability: True} | ({Capability.COMPLETION: True} if capability is Capability.CHAT else {})


def _answers_of_modalities(architecture: object) -> Answers:
    if not isinstance(architecture, Mapping):
        return {}
    inputs, outputs = (_words(architecture.get(f"{way}_modalities")) for way in ("input", "output"))
    answers = {capability: name in inputs for name, capability in _INPUTS.items()} if inputs else {}
    kinds = [capability for name, capability in _OUTPUTS.items() if name in outputs]
    if kinds:
        answers |= dict.fromkeys(_KINDS, False)
    for capability in kinds:
        answers |= _kind(capability)
    return answers


def _words(value: object) -> set[str]:
    return {word for word in value if isinstance(word, str)} if isinstance(value, list) else set()


async def _details(root: EngineEndpoint, names: Sequence[str], *, has_tabby: bool) -> dict[str, EndpointCard]:
    """Return what the routes beside the list say; those that answer in time."""
    cards: dict[str, EndpointCard] = {}
    with suppress(TimeoutError):
        async with asyncio.timeout(DETAILS_S), asyncio.TaskGroup() as group:
            group.create_task(_add_lm_studio_cards(root, cards))
            group.create_task(_add_ollama_cards(root, names, cards))
            group.create_task(_add_foundry_cards(root, names, cards))
            if has_tabby:
                group.create_task(_add_tabby_card(root, cards))
            if len(names) == 1:  # which of several is meant it cannot be asked
                group.create_task(_add_llama_server_card(root, names[0], cards))
    return cards


class _LmModel(msgspec.Struct, frozen=True, kw_only=True):
    key: str = ""
    id: str = ""
    type: str = ""
    capabilities: object = None
    max_context_length: int | None = None


class _LmModels(msgspec.Struct, frozen=True, kw_only=True):
    models: list[_LmModel] = []
    data: list[_LmModel] = []


async def _add_lm_studio_cards(root: EngineEndpoint, cards: dict[str, EndpointCard]) -> None:
    for path in ("/api/v1/models", "/api/v0/models"):
        listing = await _request_json(root, "GET", path, _LmModels)
        models = [model for model in (*listing.models, *listing.data) if model.type in _TYPES] if listing else []
        for model in models:
            words = model.capabilities
            says = answers_in(words) if isinstance(words, Mapping) else _answers_of_older_list(words)
            answers = {Capability.THINKING: False} if isinstance(words, Mapping) else {}
            _add(
                cards,
                model.key or model.id,
                EndpointCard(answers | says | _answers_of_type(model.type), model.max_context_length, "LM Studio"),
            )
        if models:
            return


def _answers_of_older_list(words: object) -> Answers:
    """Return what LM Studio's older list says, which names tools and nothing else, and leaves an empty one out."""
    return {Capability.TOOLS: "tool_use" in _words(words), Capability.VISION: False}


class _Version(msgspec.Struct, frozen=True):
    version: str


class _ShowAnswer(msgspec.Struct, frozen=True, kw_only=True):
    capabilities: list[str] = []
    model_info: dict[str, object] = {}


async def _add_ollama_cards(root: EngineEndpoint, names: Sequence[str], cards: dict[str, EndpointCard]) -> None:
    if await _request_json(root, "GET", "/api/version", _Version) is None:
        return
    places = asyncio.Semaphore(_SHOWN_AT_ONCE)

    async def add_shown_card(name: str) -> None:
        async with places:
            answer = await _request_json(root, "POST", "/api/show", _ShowAnswer, body={"model": name})
        if answer is not None and answer.capabilities:
            answers = _without_gaps(answers_in(answer.capabilities, is_whole=True))
            _add(cards, name, EndpointCard(answers, _context_of(answer.model_info), "Ollama"))

    await asyncio.gather(*map(add_shown_card, names))


def _context_of(model_info: Mapping[str, object]) -> int | None:
    lengths = (value for name, value in model_info.items() if name.endswith(".context_length"))
    return next((length for length in lengths if isinstance(length, int) and length > 0), None)


class _FoundryModel(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    name: str
    task: str = ""
    supports_tool_calling: bool | None = None


class _FoundryCatalog(msgspec.Struct, frozen=True):
    models: list[_FoundryModel]


async def _add_foundry_cards(root: EngineEndpoint, names: Sequence[str], cards: dict[str, EndpointCard]) -> None:
    """Add what Foundry Local's catalogue says, by its documentation; a list may name versions ("phi:4") or not."""
    catalog = await _request_json(root, "GET", "/foundry/list", _FoundryCatalog)
    by_name = {model.name.partition(":")[0]: model for model in catalog.models} if catalog else {}
    for name in names:
        model = by_name.get(name.partition(":")[0])
        if model is None:
            continue
        answers = _answers_of_type(model.task)
        if model.supports_tool_calling is not None:
            answers |= {Capability.TOOLS: model.supports_tool_calling}
        _add(cards, name, EndpointCard(answers, server="Foundry Local"))


class _TabbyParameters(msgspec.Struct, frozen=True, kw_only=True):
    max_seq_len: int | None = None
    use_vision: bool = False
    prompt_template_content: str | None = None


class _TabbyModel(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    parameters: _TabbyParameters = _TabbyParameters()


async def _add_tabby_card(root: EngineEndpoint, cards: dict[str, EndpointCard]) -> None:
    """Add what TabbyAPI says of the one model that it has loaded; the others of its list are folders."""
    loaded_model = await _request_json(root, "GET", "/v1/model", _TabbyModel)
    if loaded_model is None:
        return
    parameters = loaded_model.parameters
    answers = _kind(Capability.CHAT) | {Capability.VISION: parameters.use_vision}
    if parameters.prompt_template_content:
        answers |= _answers_of_template(parameters.prompt_template_content)
    _add(cards, loaded_model.id, EndpointCard(answers, parameters.max_seq_len, _TABBY))


def _answers_of_template(template: str) -> Answers:
    from app.hub.facts.capabilities import template_capabilities  # noqa: PLC0415 -- the gateway starts without it

    present = template_capabilities(template)
    return {capability: capability in present for capability in (Capability.TOOLS, Capability.THINKING)}


class _Generation(msgspec.Struct, frozen=True):
    n_ctx: int | None = None


class _Props(msgspec.Struct, frozen=True, kw_only=True):
    default_generation_settings: _Generation = _Generation()
    modalities: dict[str, bool] = {}
    chat_template: str = ""


async def _add_llama_server_card(root: EngineEndpoint, name: str, cards: dict[str, EndpointCard]) -> None:
    props = await _request_json(root, "GET", "/props", _Props)
    if props is None:
        return
    answers = answers_in(props.modalities)
    if props.chat_template:
        answers |= _answers_of_template(props.chat_template)
    if answers or props.default_generation_settings.n_ctx:
        _add(cards, name, EndpointCard(answers, props.default_generation_settings.n_ctx))


def _add(cards: dict[str, EndpointCard], name: str, card: EndpointCard) -> None:
    cards[name] = cards.get(name, EndpointCard()).with_fallback(card)


async def _request_json(
    endpoint: EngineEndpoint, method: str, path: str, kind: type[T], *, body: Mapping[str, object] | None = None
) -> T | None:
    """Return what an endpoint answers; None for a refusal, silence, and what is not as expected."""
    request_body = b"" if body is None else msgspec.json.encode(body)
    try:
        reply = await endpoint.send_request(method, path, body=request_body, timeout_s=DETAILS_S)
        return msgspec.json.decode(reply.body, type=kind) if reply.status == OK else None
    except (OSError, ValueError, RecursionError, RoundhouseError):  # msgspec's errors are ValueErrors, offline is ours
        return None
