"""From an engine that is not here to its answers: installed, proved, chosen for a folder by its form, asked by all."""

import re
import shutil
import time
from collections.abc import Iterator
from typing import NamedTuple

import anthropic
import httpx
import ollama
import openai
import pytest

from app.client.http import GatewayClient
from app.config.paths import RESOURCES, Paths
from app.core.engines import EngineState, EngineStatus
from app.core.models import ModelInfo
from tests.end_to_end.conftest import Roundhouse
from tests.patience import PATIENCE_S

pytestmark = pytest.mark.own_gateway

GUIDE = RESOURCES / "guide"
QUESTION = "What is VRAM?"
BEGINS = "VRAM is the fast memory on the graphics card."


class Case(NamedTuple):
    """An engine, the Guide's folder in its form, and what that form is called."""

    engine: str
    folder: str
    form: str


CASES = [
    Case("openvino", "openvino", "openvino"),
    Case("onnxruntime-genai", "onnx", "onnx-genai"),
    Case("mistral.rs", "hf", "safetensors"),
]


@pytest.fixture(
    scope="module",
    params=[CASES[0], *(pytest.param(case, marks=pytest.mark.slow) for case in CASES[1:])],
    ids=lambda case: case.engine,
)
def case(request: pytest.FixtureRequest, roundhouse: Roundhouse, client: GatewayClient, home: Paths) -> Iterator[Case]:
    """An engine that was installed by the command a person would use, and a model in its form."""
    engine_case: Case = request.param
    install_result = roundhouse("engines", "install", engine_case.engine)
    if install_result.returncode and "network" in (install_result.stdout + install_result.stderr).lower():
        pytest.skip(f"{engine_case.engine} cannot be fetched")
    assert install_result.returncode == 0, install_result.stdout + install_result.stderr
    assert "tok/s with the Guide" in install_result.stdout
    shutil.copytree(GUIDE / engine_case.folder, home.models / engine_case.folder)
    yield engine_case
    shutil.rmtree(home.models / engine_case.folder)
    client.post("/unload", {"model": engine_case.folder, "force": True}, object)


def test_the_folder_is_recognised_by_its_form(case: Case, client: GatewayClient) -> None:
    models = {model.name: model for model in client.get("/models", list[ModelInfo])}
    assert (models[case.folder].format, models[case.folder].problem) == (case.form, "")


def test_the_command_line_gets_an_answer(case: Case, roundhouse: Roundhouse) -> None:
    assert roundhouse("run", case.folder, QUESTION).stdout.startswith(BEGINS)


def figures(client: GatewayClient, case: Case) -> dict[str, float]:
    """Return what the engine tells of itself, once it finds the time."""
    pattern = re.compile(
        rf'^roundhouse_engine_(\w+){{model="{case.folder}",engine="{case.engine}"}} (\S+)$', re.MULTILINE
    )
    until = time.monotonic() + PATIENCE_S
    while time.monotonic() < until:
        named_figures = dict(pattern.findall(httpx.get(f"{client.gateway.url}/metrics", timeout=30).text))
        if "generated_tokens_total" in named_figures:
            return {name: float(value) for name, value in named_figures.items()}
    pytest.fail(f"it tells nothing but {named_figures}")


def test_its_own_figures_are_in_the_metrics(case: Case, client: GatewayClient, roundhouse: Roundhouse) -> None:
    roundhouse("run", case.folder, QUESTION)
    counts = figures(client, case)
    assert counts["generated_tokens_total"] > 0
    assert ("kv_cache_usage_ratio" in counts) == (case.engine == "openvino"), "the other library does not tell"


def test_its_own_engine_was_chosen(case: Case, client: GatewayClient, roundhouse: Roundhouse) -> None:
    roundhouse("load", case.folder)
    statuses = {status.model: status for status in client.get("/running", list[EngineStatus])}
    assert (statuses[case.folder].engine, statuses[case.folder].state) == (case.engine, EngineState.READY)


def test_openai_s_client_gets_an_answer_whole_and_in_pieces(case: Case, client: GatewayClient) -> None:
    with openai.OpenAI(base_url=f"{client.gateway.url}/v1", api_key="none", timeout=60) as api:
        whole = api.chat.completions.create(model=case.folder, messages=[{"role": "user", "content": QUESTION}])
        assert (whole.choices[0].message.content or "").startswith(BEGINS)
        assert whole.usage is not None
        assert whole.usage.completion_tokens > 10
        pieces = api.chat.completions.create(
            model=case.folder, messages=[{"role": "user", "content": QUESTION}], stream=True
        )
        text = "".join(piece.choices[0].delta.content or "" for piece in pieces if piece.choices)
        assert text == whole.choices[0].message.content


def test_openai_s_client_is_told_that_a_prompt_is_too_long(case: Case, client: GatewayClient) -> None:
    with (
        openai.OpenAI(base_url=f"{client.gateway.url}/v1", api_key="none", timeout=60, max_retries=0) as api,
        pytest.raises(openai.BadRequestError) as error,
    ):
        api.chat.completions.create(model=case.folder, messages=[{"role": "user", "content": "a b " * 9000}])
    assert error.value.code == "context_length_exceeded"


def test_anthropic_s_client_gets_an_answer(case: Case, client: GatewayClient) -> None:
    with anthropic.Anthropic(base_url=client.gateway.url, api_key="none", timeout=60) as api:
        message = api.messages.create(
            model=case.folder, max_tokens=80, messages=[{"role": "user", "content": QUESTION}]
        ).content[0]
        assert message.type == "text"
        assert message.text.startswith(BEGINS)
        token_count = api.messages.count_tokens(model=case.folder, messages=[{"role": "user", "content": QUESTION}])
        assert token_count.input_tokens == 12


def test_ollama_s_client_gets_an_answer(case: Case, client: GatewayClient) -> None:
    with ollama.Client(host=client.gateway.url, timeout=60) as api:
        answer = api.chat(case.folder, [ollama.Message(role="user", content=QUESTION)])
        assert (answer.message.content or "").startswith(BEGINS)


def test_the_responses_route_gets_an_answer(case: Case, client: GatewayClient) -> None:
    with openai.OpenAI(base_url=f"{client.gateway.url}/v1", api_key="none", timeout=60) as api:
        assert api.responses.create(model=case.folder, input=QUESTION).output_text.startswith(BEGINS)
