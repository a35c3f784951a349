"""Code completed while somebody types: the model that was chosen for it, and what editors send, on the real engine."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import httpx
import pytest

from app.client.http import GatewayClient
from app.config.paths import Paths
from app.core.engines import EngineState, EngineStatus
from app.core.errors import RoundhouseError
from app.core.models import Autocomplete, ChooseAutocomplete, ModelInfo, ModelSettings, SetModel
from app.core.tools import ToolProbe, WireTool
from tests.end_to_end.test_openai_more import CODER
from tests.gguf_files import TinyLlama
from tests.patience import wait_until

pytestmark = pytest.mark.real_engine

QWEN = replace(
    CODER, script=["<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>", "return ", "one"], template="", name="Base"
)
BEFORE, AFTER = "def one():\n    ", "\n"


@pytest.fixture(scope="module", autouse=True)
def choose_coder(client: GatewayClient, home: Paths) -> None:
    replace(CODER, values={**CODER.values, "llama.context_length": 8192}).write(home.models / "completer.gguf")
    QWEN.write(home.models / "base.gguf")
    TinyLlama().write(home.models / "talker.gguf")
    client.post("/autocomplete", ChooseAutocomplete(model="completer"), Autocomplete)


@pytest.fixture
def http(client: GatewayClient) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=client.gateway.url, timeout=60) as http_client:
        yield http_client


def answer(http: httpx.Client, path: str, body: dict[str, Any]) -> Any:  # noqa: ANN401 -- any JSON
    reply = http.post(path, json=body)
    assert reply.status_code == 200, reply.text
    return reply.json()


def status_of(client: GatewayClient, model: str) -> EngineStatus | None:
    return next((status for status in client.get("/running", list[EngineStatus]) if status.model == model), None)


def test_the_model_that_was_chosen_is_loaded_and_has_room(client: GatewayClient) -> None:
    def is_ready() -> bool:
        status = status_of(client, "completer")
        return status is not None and status.state is EngineState.READY

    wait_until(is_ready)
    state = client.get("/autocomplete", Autocomplete)
    assert (state.model, state.is_loaded, state.problem) == ("completer", True, "")
    assert state.beside not in {"", "completer"}
    assert state.fits
    assert 0 < state.needed < state.room
    assert {"completer", "base"} <= {*state.choices}
    assert "talker" not in state.choices
    status = status_of(client, "completer")
    assert status is not None
    assert status.unload_at is None, "it stays however long it is unused"


def test_a_base_model_without_a_template_completes_code(client: GatewayClient, http: httpx.Client) -> None:
    models = {model.name: model for model in client.get("/models", list[ModelInfo])}
    assert "infill" in models["base"].capabilities
    filled_text = answer(
        http, "/infill", {"model": "base", "input_prefix": BEFORE, "input_suffix": AFTER, "n_predict": 9}
    )
    assert filled_text["content"] == "return one"


@pytest.mark.parametrize("name", ["talker", "nobody"])
def test_a_model_that_knows_no_gap_is_refused(client: GatewayClient, name: str) -> None:
    with pytest.raises(RoundhouseError) as error:
        client.post("/autocomplete", ChooseAutocomplete(model=name), Autocomplete)
    assert error.value.code == ("model_cannot" if name == "talker" else "model_not_found")
    assert client.get("/autocomplete", Autocomplete).model == "completer"


def test_llama_vim_and_llama_vscode_are_answered_by_it_without_a_name(http: httpx.Client) -> None:
    """As llama.vscode 0.0.63 asks: first for nothing, to have other files read ahead, then for the middle."""
    answer(http, "/v1/chat/completions", {"model": "talker", "messages": [{"role": "user", "content": "Hi"}]})
    extra = [{"filename": "other.py", "text": "x = 1\n", "time": 1}]
    ahead = {"id_slot": 0, "input_prefix": "", "input_suffix": "", "input_extra": extra, "prompt": "", "n_predict": 0}
    answer(http, "/infill", {**ahead, "samplers": [], "cache_prompt": True, "t_max_predict_ms": 1})
    body = {**ahead, "input_prefix": "def one():\n", "input_suffix": AFTER, "prompt": "    ", "n_predict": 9}
    sampling_fields = {"top_k": 40, "top_p": 0.99, "samplers": ["top_k", "top_p", "infill"], "stream": False}
    assert answer(http, "/infill", {**body, **sampling_fields, "t_max_prompt_ms": 500})["content"] == "return one"


def test_zed_has_its_own_prompt_completed_in_both_dialects(http: httpx.Client) -> None:
    prompt = f"<fim_prefix>{BEFORE}<fim_suffix>{AFTER}<fim_middle>"
    stop = ["<|endoftext|>", "<fim_prefix>", "<fim_middle>", "<fim_suffix>"]
    body = {"model": "completer", "prompt": prompt, "max_tokens": 64, "stop": stop}
    assert answer(http, "/v1/completions", body)["choices"][0]["text"] == "return one"
    options = {"num_predict": 64, "temperature": 0.2, "stop": stop}
    raw = {"model": "completer", "prompt": prompt, "raw": True, "stream": False, "options": options}
    assert answer(http, "/api/generate", raw)["response"] == "return one"


def test_continue_learns_that_the_server_fills_the_gap_and_has_it_filled(http: httpx.Client) -> None:
    assert ".Suffix" in answer(http, "/api/show", {"name": "completer"})["template"]
    options = {"num_predict": 9, "num_ctx": 8192}
    body = {"model": "completer", "prompt": BEFORE, "suffix": AFTER, "options": options, "keep_alive": 1800}
    lines = http.post("/api/generate", json={**body, "raw": True, "stream": False}).json()
    assert lines["response"] == "return one"


def test_tabby_streams_a_completion_with_a_suffix(http: httpx.Client) -> None:
    body = {"model": "completer", "prompt": BEFORE, "suffix": AFTER, "max_tokens": 9, "temperature": 0.1}
    with http.stream("POST", "/v1/completions", json={**body, "stream": True, "presence_penalty": 0.0}) as reply:
        events = [line for line in reply.iter_lines() if line.startswith("data: {")]
    assert "".join(httpx.Response(200, text=line[6:]).json()["choices"][0]["text"] for line in events) == "return one"


@pytest.mark.parametrize(
    "tool", ["continue", "zed", "vscode", "jetbrains", "llama-vscode", "llama-vim", "twinny", "tabby"]
)
def test_the_trial_of_a_tool_has_code_completed(client: GatewayClient, tool: str) -> None:
    probe = client.post(f"/tools/{tool}/probe", WireTool(model=""), ToolProbe)
    assert probe.ok, probe.sentence
    assert "completer completed code on" in probe.sentence or probe.sentence.startswith("completer answered on")


def test_it_is_not_the_model_in_use_for_chats(client: GatewayClient, http: httpx.Client) -> None:
    answer(http, "/v1/chat/completions", {"model": "talker", "messages": [{"role": "user", "content": "Hi"}]})
    answer(http, "/infill", {"input_prefix": BEFORE, "input_suffix": AFTER, "n_predict": 1})
    reply = answer(http, "/v1/chat/completions", {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 1})
    assert reply["model"] == "talker"


def test_a_model_set_for_itself_keeps_what_was_set(client: GatewayClient) -> None:
    client.post("/model-settings", SetModel(model="completer", settings=ModelSettings(idle_minutes=1)), ModelSettings)
    status = status_of(client, "completer")
    assert status is None or status.unload_at is None
    client.post("/model-settings", SetModel(model="completer", settings=ModelSettings()), ModelSettings)
