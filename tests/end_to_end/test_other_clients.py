"""The `llm` and `litellm` packages against a gateway with the real engine, in every dialect they speak."""

import json
from pathlib import Path

import pytest

from app.client.http import GatewayClient
from app.config.paths import Paths
from tests.gguf_files import TinyLlama
from tests.other_clients import base_url, litellm, llm_settings, programs_folder, run

pytestmark = pytest.mark.real_engine

QUESTION = "What is Roundhouse?"


@pytest.fixture(scope="module")
def programs() -> Path:
    return programs_folder()


@pytest.mark.parametrize("provider", ["openai", "lm_studio", "hosted_vllm", "ollama_chat", "ollama", "anthropic"])
def test_litellm_gets_the_same_answer_streamed_and_not(programs: Path, client: GatewayClient, provider: str) -> None:
    base = base_url(client.gateway.url, provider)
    body = {"messages": [{"role": "user", "content": QUESTION}], "max_tokens": 16, "temperature": 0}
    whole, streamed_answer = litellm(programs, f"{provider}/guide", base, body, {**body, "stream": True})
    assert whole["text"]
    assert 0 < whole["tokens"] <= 16
    assert streamed_answer["text"] == whole["text"]


@pytest.mark.parametrize("provider", ["openai", "lm_studio", "ollama_chat", "anthropic"])
def test_litellm_knows_our_errors(programs: Path, client: GatewayClient, provider: str) -> None:
    base, hello = base_url(client.gateway.url, provider), [{"role": "user", "content": "Hi"}]
    (unknown,) = litellm(programs, f"{provider}/gpt-9", base, {"messages": hello})
    assert (unknown["error"], unknown["status"]) == ("NotFoundError", 404)
    assert "guide" in unknown["message"]
    words = [{"role": "user", "content": "word " * 9000}]
    (long,) = litellm(programs, f"{provider}/guide", base, {"messages": words})
    assert long["status"] == 400
    # It looks for no words of Ollama's about a prompt that is too long.
    assert long["error"] == ("BadRequestError" if provider == "ollama_chat" else "ContextWindowExceededError")


@pytest.mark.parametrize("provider", ["openai", "ollama"])
def test_litellm_makes_embeddings(programs: Path, client: GatewayClient, home: Paths, provider: str) -> None:
    TinyLlama(values={"llama.pooling_type": 1}).write(home.models / "embed.gguf")
    (embedding,) = litellm(programs, f"{provider}/embed", base_url(client.gateway.url, provider), {"input": ["hello"]})
    assert embedding["width"] > 1


@pytest.fixture
def llm_env(client: GatewayClient, tmp_path: Path) -> dict[str, str]:
    return llm_settings(client.gateway.url, tmp_path)


@pytest.mark.parametrize("model", ["guide-openai", "guide:latest"])
def test_llm_prompts_goes_on_and_counts(programs: Path, llm_env: dict[str, str], model: str) -> None:
    llm = programs / "llm"
    fixed_options = ("-o", "temperature", 0, "-o", "seed", 1)
    streamed_text = run(llm, "-m", model, *fixed_options, QUESTION, env=llm_env)
    assert streamed_text.strip()
    assert run(llm, "-m", model, *fixed_options, "--no-stream", QUESTION, env=llm_env) == streamed_text
    assert run(llm, "-c", "And what does it do?", env=llm_env).strip()
    last = json.loads(run(llm, "logs", "-n", 1, "--json", env=llm_env))[0]
    assert last["input_tokens"] > 0
    assert last["output_tokens"] > 0


def test_llm_lists_what_ollamas_dialect_lists(programs: Path, llm_env: dict[str, str]) -> None:
    assert "guide:latest" in run(programs / "llm", "models", "list", env=llm_env)
