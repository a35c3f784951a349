"""Ollama's own client makes models, and the real engine answers to them: settings, templates, uploaded weights."""

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anthropic
import httpx
import ollama
import openai
import pytest

from app.client.http import GatewayClient
from app.config.paths import Paths
from app.core.engines import EngineStatus
from tests.gguf_files import TEMPLATE, TinyLlama

pytestmark = pytest.mark.real_engine

PROMPT = "You answer everything with one word."
QUESTION = "What is GGUF?"
TOLD = [ollama.Message(role="user", content=QUESTION)]
ASKED: Any = [{"role": "user", "content": QUESTION}]
CERTAIN = {"num_predict": 3, "temperature": 0, "seed": 1}
"""Random weights may end their answer at any token; with these they say the same each time."""


@pytest.fixture
def api(client: GatewayClient) -> Iterator[ollama.Client]:
    with ollama.Client(host=client.gateway.url, timeout=60) as client_api:
        yield client_api


@pytest.fixture(scope="module")
def noise(home: Paths) -> str:
    TinyLlama(values={"tokenizer.chat_template": TEMPLATE}).write(home.models / "noise.gguf")
    return "noise"


def render_prompt(client: GatewayClient, model: str, messages: list[dict[str, str]]) -> str:
    """What the engine would read, by llama-server's own route."""
    url = client.gateway.url + "/apply-template"
    reply = httpx.post(url, json={"model": model, "messages": messages}, timeout=60)
    return str(reply.json()["prompt"])


def test_a_made_model_answers_with_its_settings_in_every_dialect(
    api: ollama.Client, client: GatewayClient, noise: str
) -> None:
    made_model = api.create(
        "terse", from_=noise, system=PROMPT, parameters={"temperature": 0, "seed": 1, "num_predict": 5}
    )
    assert made_model.status == "success"
    assert "terse:latest" in [model.model for model in api.list().models]
    model_info = api.show("terse")
    assert "num_predict" in (model_info.parameters or "")
    plain = api.chat(noise, TOLD, options={"num_predict": 5, "temperature": 0, "seed": 1})
    own = api.chat("terse", TOLD)
    assert own.eval_count == 5
    assert (own.prompt_eval_count or 0) > (plain.prompt_eval_count or 0), "its system prompt was read"
    with openai.OpenAI(base_url=f"{client.gateway.url}/v1", api_key="x") as other:
        reply = other.chat.completions.create(model="terse", messages=ASKED)
        assert reply.usage is not None
        assert (reply.usage.completion_tokens, reply.usage.prompt_tokens) == (5, own.prompt_eval_count)
    with anthropic.Anthropic(base_url=client.gateway.url, api_key="x") as third:
        count = third.messages.count_tokens(model="terse", messages=ASKED)
        assert count.input_tokens == own.prompt_eval_count
    statuses = client.get("/running", list[EngineStatus])
    assert [status.model for status in statuses] == [noise], "the weights are in memory once"


def test_creating_is_told_line_by_line(api: ollama.Client, noise: str) -> None:
    status = [line.status for line in api.create("lines", from_=noise, system="x", stream=True)]
    assert status[-2:] == ["writing manifest", "success"]


@pytest.mark.parametrize(
    ("template", "reads"),
    [
        (
            "{{ if .System }}<S>{{ .System }}{{ end }}{{ if .Prompt }}<U>{{ .Prompt }}{{ end }}<A>{{ .Response }}<E>\n",
            "<S>Sys<U>one<A>two<E>\n<U>three<A>",
        ),
        (
            """{{- range $i, $_ := .Messages }}{{- $last := eq (len (slice $.Messages $i)) 1 }}
            {{- if eq .Role "user" }}<U>{{ if and (eq $i 1) $.System }}({{ $.System }}){{ end }}{{ .Content }}
            {{- else if eq .Role "assistant" }}<A>{{ .Content }}{{ end }}{{ if $last }}<A>{{ end }}{{ end }}""",
            "<U>(Sys)one<A>two<U>three<A>",
        ),
        (
            "{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}",
            "[system]Sys[user]one[assistant]two[user]three",
        ),
    ],
)
def test_a_template_is_what_the_engine_reads(
    api: ollama.Client, client: GatewayClient, noise: str, template: str, reads: str
) -> None:
    name = "templated-" + hashlib.sha256(template.encode()).hexdigest()[:8]
    api.create(name, from_=noise, template=template)
    assert api.show(name).template == template
    turns = [("system", "Sys"), ("user", "one"), ("assistant", "two"), ("user", "three")]
    assert render_prompt(client, name, [{"role": role, "content": text} for role, text in turns]) == reads
    api.delete(name)


@pytest.mark.slow
def test_a_model_of_uploaded_weights(api: ollama.Client, tmp_path: Path) -> None:
    file = TinyLlama(name="Uploaded").write(tmp_path / "own.gguf")
    digest = api.create_blob(file)
    assert digest == "sha256:" + hashlib.sha256(file.read_bytes()).hexdigest()
    assert api.create_blob(file) == digest, "again is no mistake"
    assert api.create("own:v1", files={"own.gguf": digest}, system="x").status == "success"
    assert api.generate("own:v1", "Hello", options=CERTAIN).eval_count == 3
    api.copy("own:v1", "own:v2")
    api.delete("own:v1")
    names = [model.model for model in api.list().models]
    assert "own:v2" in names
    assert "own:v1" not in names
    assert api.generate("own:v2", "Hello", options=CERTAIN).eval_count == 3
    api.delete("own:v2")


def test_what_cannot_be_is_an_error_of_the_clients(api: ollama.Client) -> None:
    with pytest.raises(ollama.ResponseError, match="not found") as error:
        api.create("x", from_="gpt-9")
    assert error.value.status_code == 404
    with pytest.raises(ollama.ResponseError, match="not quantised"):
        api.create("x", from_="guide", quantize="q4_0")
    with pytest.raises(ollama.ResponseError, match="already"):
        api.copy("guide", "guide")
