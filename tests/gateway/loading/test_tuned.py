"""What is set for one model, and what it recommends itself: how it reaches the engine, and what is refused before."""

import json
import os
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from aiohttp import web

from app.config.paths import Paths
from app.core.advice import DraftTrial
from app.core.api import PREFIX
from app.core.engines import EngineInfo
from app.core.events import ModelsChanged
from app.core.models import Companion, CompanionKind, ModelChoices, ModelSampling, ModelSettings, SetModel
from app.core.thinking import ThinkingDefault, ThinkingLevel
from app.gateway.loading.draft_choice import keep_proven_draft
from app.gateway.loading.launch import resolve_model
from app.gateway.services import Services
from app.supervisor.policy import LoadRequest
from engines.api import Draft, EngineInstallation, LaunchOptions, ModelFormat, ModelSource
from engines.api.options import SamplingDefaults
from engines.registry import ADAPTERS as REAL
from tests.fake_engine.adapter import ADAPTERS as FAKE
from tests.gateway.loading.over_models import over
from tests.gateway.played import Gateway, ListedEngines
from tests.gguf_files import TinyLlama, gguf_bytes, lora_for, projector_for

TOLD = {"general.sampling.temp": 0.5, "general.sampling.top_k": 7}
HELLO = [{"role": "user", "content": "hello"}]
TEMPLATE = "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}"
ANSWER = {"choices": [{"index": 0, "message": {"role": "assistant", "content": "hi"}, "finish_reason": "stop"}]}


BOTH = {**{name: REAL[name] for name in ("llama.cpp", "tgi")}, **FAKE}


class Catalogue(ListedEngines):
    """Two engines that read GGUF, one that says it does, and one that does not."""

    def list_engines(self) -> list[EngineInfo]:
        common: dict[str, Any] = {"licence": "", "homepage": ""}
        return [
            EngineInfo(id="llama.cpp", name="llama.cpp", formats=["gguf"], installed=True, **common),
            EngineInfo(id="fake", name="Fake engine", formats=["gguf"], installed=True, **common),
            EngineInfo(id="tgi", name="TGI", formats=["gguf", "safetensors"], installed=True, **common),
            EngineInfo(id="mlx-lm", name="MLX-LM", formats=["mlx"], installed=False, **common),
        ]

    def find_installation(self, engine_id: str) -> EngineInstallation:
        return EngineInstallation(engine=engine_id, version="1", backend="cpu", python=Path(sys.executable))


@pytest.fixture
def models(tmp_path: Path) -> Path:
    folder = tmp_path / "models"
    folder.mkdir()
    TinyLlama(values=TOLD).write(folder / "told.gguf")
    TinyLlama(layers=1, width=32, name="Small").write(folder / "small.gguf")
    lora_for(TinyLlama(), folder / "style-lora.gguf")
    return folder


@pytest.fixture
def services(services: Services, paths: Paths, models: Path) -> Services:
    return over(models, services, paths, catalogue=Catalogue(), adapters=BOTH)


class Admin:
    """Typed calls, and refusals."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    async def ask(self, method: str, path: str, body: object = None) -> tuple[int, bytes]:
        url = f"{self._gateway.url}{PREFIX}{path}"
        headers = {"Authorization": "Bearer token"}
        data = None if body is None else msgspec.json.encode(body)
        async with self._gateway.http.request(method, url, data=data, headers=headers) as reply:
            return reply.status, await reply.read()

    async def choices(self, model: str = "told") -> ModelChoices:
        status, body = await self.ask("GET", f"/model-settings/{model}")
        assert status == 200, body
        return msgspec.json.decode(body, type=ModelChoices)

    async def set(self, model: str = "told", **settings: Any) -> ModelSettings:  # noqa: ANN401 -- fields of ModelSettings
        document = SetModel(model=model, settings=ModelSettings(**settings))
        status, body = await self.ask("POST", "/model-settings", document)
        assert status == 200, body
        return msgspec.json.decode(body, type=ModelSettings)

    async def expect_refusal(self, model: str = "told", **settings: object) -> str:
        status, body = await self.ask("POST", "/model-settings", {"model": model, "settings": settings})
        assert 400 <= status < 500, body
        return str(json.loads(body)["sentence"])


@pytest.fixture
async def admin(gateway: Gateway) -> Admin:
    return Admin(gateway)


async def options_of(gateway: Gateway, model: str = "told") -> Any:  # noqa: ANN401 -- LaunchOptions
    return (await resolve_model(gateway.services, model)).load.options


async def test_what_a_model_recommends_is_told_to_its_engine_at_the_start(gateway: Gateway, admin: Admin) -> None:
    assert (await options_of(gateway)).sampling == SamplingDefaults(temperature=0.5, top_k=7)
    assert (await options_of(gateway, "small")).sampling == SamplingDefaults()
    choices = await admin.choices()
    assert choices.sampling == choices.effective == ModelSampling(temperature=0.5, top_k=7)
    assert choices.sampling_source == "told.gguf"


async def test_what_a_person_sets_goes_over_it_and_can_switch_it_off(gateway: Gateway, admin: Admin) -> None:
    await admin.set(sampling=ModelSampling(temperature=0.0))
    assert (await options_of(gateway)).sampling == SamplingDefaults(temperature=0.0, top_k=7)
    await admin.set(sampling=ModelSampling(min_p=0.1), uses_model_sampling=False)
    assert (await options_of(gateway)).sampling == SamplingDefaults(min_p=0.1, is_all=True)
    choices = await admin.choices()
    assert (choices.sampling.temperature, choices.effective) == (0.5, ModelSampling(min_p=0.1))


async def test_the_hot_path_leaves_the_body_alone_where_the_engine_was_told(gateway: Gateway) -> None:
    body = await answer_once(gateway, temperature=1)
    assert body == {"model": "told", "messages": HELLO, "temperature": 1}
    assert await answer_once(gateway) == {"model": "told", "messages": HELLO}


async def test_another_engine_is_told_with_each_request_that_does_not_say(gateway: Gateway, admin: Admin) -> None:
    await admin.set(engine="fake", sampling=ModelSampling(repeat_penalty=1.1))
    assert (await options_of(gateway)).sampling == SamplingDefaults(), "its command line has nothing for it"
    model = await resolve_model(gateway.services, "told")
    assert model.load.engine == "fake"
    body = await answer_once(gateway, temperature=0.1)
    assert (body["temperature"], body["top_k"], body["repetition_penalty"]) == (0.1, 7, 1.1)
    assert (await answer_once(gateway, repeat_penalty=1.3)).get("repetition_penalty") is None


async def test_how_much_is_thought_is_told_with_each_request_that_does_not_say(gateway: Gateway, admin: Admin) -> None:
    await admin.set(thinking=ThinkingLevel.LOW, thinking_budget=700)
    choices = await admin.choices()
    assert (choices.thinking, choices.maker_thinking) == (
        ThinkingDefault(level=ThinkingLevel.LOW, budget=700),
        ThinkingDefault(),
    )
    body = await answer_once(gateway)
    assert body["chat_template_kwargs"] == {"enable_thinking": True, "thinking": True, "reasoning_effort": "low"}
    assert (body["reasoning_effort"], body["thinking_budget_tokens"]) == ("low", 700)
    own = await answer_once(gateway, reasoning_effort="high")
    assert own == {"model": "told", "messages": HELLO, "reasoning_effort": "high"}
    await admin.set(engine="fake", thinking=ThinkingLevel.LOW, thinking_budget=700)
    assert not (await admin.choices()).answers.takes_budget
    assert "thinking_budget_tokens" not in await answer_once(gateway), "this engine would pass over it"


async def test_a_level_of_thinking_that_is_none_is_refused(admin: Admin) -> None:
    assert "thinking" in await admin.expect_refusal(thinking="a lot")
    assert "thinking_budget" in await admin.expect_refusal(thinking_budget=-1)


async def answer_once(gateway: Gateway, **wishes: object) -> dict[str, Any]:
    async def play(_request: web.Request) -> web.Response:
        return web.json_response(ANSWER)

    gateway.upstream.play = play
    gateway.supervisor.served_name = "told"
    status, _ = await gateway.chat(model="told", messages=HELLO, **wishes)
    assert status == 200
    body: dict[str, Any] = json.loads(gateway.upstream.bodies[-1])
    return body


async def test_everything_that_is_set_reaches_the_engine(gateway: Gateway, admin: Admin, models: Path) -> None:
    style = str(models / "style-lora.gguf")
    await admin.set(
        kv_type="q8_0", draft="small", loras=[style], chat_template=TEMPLATE, context=1024, engine="llama.cpp"
    )
    options = await options_of(gateway)
    assert (options.context, options.kv_type, options.chat_template) == (1024, "q8_0", TEMPLATE)
    assert options.draft.path == models / "small.gguf"
    assert options.lora == (Path(style),)


async def test_what_goes_with_a_model_is_offered(admin: Admin, models: Path) -> None:
    (models / "mmproj-told-f16.gguf").write_bytes(gguf_bytes({"general.architecture": "clip"}))
    offered_companions = {companion.kind: companion for companion in (await admin.choices()).companions}
    style = str(models / "style-lora.gguf")
    assert offered_companions[CompanionKind.LORA].name == style
    assert not offered_companions[CompanionKind.LORA].is_used
    assert offered_companions[CompanionKind.DRAFT].name == "small"
    assert offered_companions[CompanionKind.PROJECTOR] == Companion(
        kind=CompanionKind.PROJECTOR,
        name=str(models / "mmproj-told-f16.gguf"),
        title="mmproj-told-f16.gguf",
        size_bytes=offered_companions[CompanionKind.PROJECTOR].size_bytes,
        is_used=True,
    )
    await admin.set(loras=[style], projector="none")
    offered_companions = {companion.kind: companion for companion in (await admin.choices()).companions}
    assert offered_companions[CompanionKind.LORA].is_used
    assert not offered_companions[CompanionKind.PROJECTOR].is_used


async def test_a_projector_beside_the_model_is_loaded_unless_somebody_minds(
    gateway: Gateway, admin: Admin, models: Path
) -> None:
    beside = models / "mmproj-told-f16.gguf"
    beside.write_bytes(gguf_bytes({"general.architecture": "clip"}))
    assert (await options_of(gateway)).projector == beside
    await admin.set(projector="none")
    assert (await options_of(gateway)).projector is None


@pytest.mark.slow(cases=5)
@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"engine": "nosuch"}, "There is no engine 'nosuch'."),
        ({"engine": "mlx-lm"}, "MLX-LM does not read gguf."),
        ({"engine": "tgi"}, "TGI does not read gguf weights."),
        ({"draft": "nosuch"}, "There is no model called 'nosuch'."),
        ({"draft": "told"}, "cannot be its own draft model"),
        ({"draft": "/nowhere/draft.gguf"}, "no longer exists"),
        ({"loras": ["style.gguf"]}, "There is no file style.gguf."),
        ({"loras": ["/nowhere/x\0.gguf"]}, "There is no file"),
        ({"loras": ["~nobody/style.gguf"]}, "There is no file"),
        ({"projector": "/nowhere/mmproj.gguf"}, "There is no file"),
        ({"chat_template": "{% for m in messages %}"}, "This is not a chat template"),
        ({"chat_template": "{{ ''.__class__.__mro__ }}"}, "This is not a chat template"),
        ({"chat_template": "Hello!"}, "leaves out the messages' content"),
        ({"sampling": {"temperature": -1}}, "temperature"),
        ({"sampling": {"mood": 1}}, "mood"),
        ({"kv_type": "q1"}, "kv_type"),
    ],
)
async def test_what_cannot_be_had_is_refused_before_it_is_kept(
    gateway: Gateway, admin: Admin, settings: dict[str, Any], sentence: str
) -> None:
    assert sentence in await admin.expect_refusal(**settings)
    assert gateway.services.model_settings.all_settings() == {}


@pytest.mark.slow(cases=1)
@pytest.mark.parametrize(("draft", "name"), [("off", ""), ("ngram", "ngram"), (None, "")])
async def test_a_draft_of_its_own_is_what_every_place_says(
    gateway: Gateway, admin: Admin, draft: str | None, name: str
) -> None:
    await admin.set(draft=draft)
    assert (await options_of(gateway)).draft_name == name
    choices = await admin.choices()
    assert (choices.draft, choices.settings.draft, choices.draft_candidate) == (name, draft, "ngram")
    assert choices.draft_reason


async def test_a_head_that_is_not_there_cannot_draft(admin: Admin) -> None:
    assert "has no head for multi-token prediction" in await admin.expect_refusal(draft="mtp")


@pytest.mark.slow(cases=1)
@pytest.mark.parametrize(("rate", "name"), [(11.5, "ngram"), (10.5, "")])
async def test_a_trial_that_gained_a_tenth_is_used_until_the_file_is_another(
    gateway: Gateway, admin: Admin, models: Path, rate: float, name: str
) -> None:
    services, path = gateway.services, models / "told.gguf"
    place = services.catalogue.find_installation("llama.cpp")
    trial = DraftTrial(
        model="told",
        engine="llama.cpp",
        version=place.version,
        backend=place.backend,
        kind="ngram",
        plain_tokens_s=10.0,
        drafted_tokens_s=rate,
    )
    services.drafts.keep_trial(path, trial)
    assert (await options_of(gateway)).draft_name == name
    choices = await admin.choices()
    assert (choices.draft, choices.is_draft_tried) == (name, True)
    assert "times as fast in a trial on this machine" in choices.draft_reason
    await admin.set(draft="off")
    assert (await options_of(gateway)).draft is None
    await admin.set(draft=None)
    os.utime(path, (1.0, 1.0))
    assert (await options_of(gateway)).draft is None, "another file was not tried"


def test_experts_in_system_memory_are_drafted_for_only_where_that_was_tried(gateway: Gateway, models: Path) -> None:
    services, path = gateway.services, models / "told.gguf"
    place = services.catalogue.find_installation("llama.cpp")
    load = LoadRequest(
        engine="llama.cpp",
        source=ModelSource(name="told", path=path, format=ModelFormat.GGUF),
        options=LaunchOptions(draft=Draft(kind="ngram"), cpu_moe_layers=4),
    )
    assert keep_proven_draft(services.model_settings, services.drafts, services.catalogue, load).options.draft is None
    whole = msgspec.structs.replace(load, options=LaunchOptions(draft=Draft(kind="ngram")))
    assert keep_proven_draft(services.model_settings, services.drafts, services.catalogue, whole) is whole
    trial = DraftTrial(
        model="told",
        engine="llama.cpp",
        version=place.version,
        backend=place.backend,
        kind="ngram",
        plain_tokens_s=10.0,
        drafted_tokens_s=13.0,
        has_experts_in_memory=True,
    )
    services.drafts.keep_trial(path, trial)
    assert keep_proven_draft(services.model_settings, services.drafts, services.catalogue, load) is load


async def test_files_of_other_models_are_refused(admin: Admin, models: Path) -> None:
    wide = str(lora_for(TinyLlama(), models / "wide.gguf", wide=96))
    assert "made for another model" in await admin.expect_refusal(loras=[wide])
    assert "is not a projector" in await admin.expect_refusal(projector=wide)
    other = TinyLlama(layers=1, values={"tokenizer.ggml.tokens": "none"}).write(models / "mute.gguf")
    assert "cannot be" in await admin.expect_refusal(draft=str(other))


async def test_a_file_that_went_away_is_named_when_the_model_is_asked(
    gateway: Gateway, admin: Admin, models: Path
) -> None:
    style = models / "style-lora.gguf"
    await admin.set(loras=[str(style)])
    style.unlink()
    status, body = await gateway.chat(model="told", messages=HELLO)
    assert status == 404
    assert "style-lora.gguf is set for this model but no longer exists." in body["error"]["message"]


async def test_names_for_a_model_and_a_load_that_is_outdated_are_told(gateway: Gateway, admin: Admin) -> None:
    gateway.services.settings.change_values({"models.aliases": ["gpt-*=told", "claude=other"]})
    assert (await admin.choices()).aliases == ["gpt-*"]
    await answer_once(gateway)
    gateway.supervisor.is_loaded = True
    choices = await admin.choices()
    assert not choices.needs_reload


SEEING = [{"role": "user", "content": "what is it?", "images": ["iVBORw0KGgo="]}]


@pytest.mark.slow
async def test_images_go_to_a_model_with_a_projector_and_are_refused_without(
    gateway: Gateway, admin: Admin, models: Path
) -> None:
    async def show_model() -> dict[str, Any]:
        async with gateway.http.post(f"{gateway.url}/api/show", json={"model": "told"}) as reply:
            document: dict[str, Any] = await reply.json()
            return document

    async def ask() -> tuple[int, str]:
        body = {"model": "told", "messages": SEEING, "stream": False}
        async with gateway.http.post(f"{gateway.url}/api/chat", json=body) as reply:
            return reply.status, await reply.text()

    async def ask_responses() -> tuple[int, str]:
        picture = {"type": "input_image", "image_url": "data:image/png;base64,iVBORw0KGgo="}
        body = {"model": "told", "input": [{"role": "user", "content": [picture]}]}
        async with gateway.http.post(f"{gateway.url}/v1/responses", json=body) as reply:
            return reply.status, await reply.text()

    assert "vision" not in (await show_model())["capabilities"]
    status, answer = await ask()
    assert status == 400
    assert "does not support vision" in answer
    status, answer = await ask_responses()
    assert status == 400
    assert "cannot read images" in answer
    projector_for(TinyLlama(), models / "mmproj-told-f16.gguf")
    gateway.services.events.publish(ModelsChanged())
    assert "vision" in (await show_model())["capabilities"]
    await answer_once(gateway)  # lets the engine be played
    await ask()
    assert b"data:image/png;base64,iVBORw0KGgo=" in gateway.upstream.bodies[-1]
    assert "cannot read images" not in (await ask_responses())[1]
    await admin.set(projector="none")
    assert "vision" not in (await show_model())["capabilities"]
    assert (await ask())[0] == 400
