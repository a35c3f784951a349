"""The `llm` and `litellm` packages against a gateway with the real engine, in every dialect they speak.

They live in an environment of their own, since they bring 250 MB that Roundhouse needs for nothing else. Without one
these tests are skipped; `docs/clients.md` says how to make one.
"""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from app.client.http import Client
from app.config.paths import Paths
from tests.gguf_files import TinyLlama

pytestmark = pytest.mark.real_engine

BIN = "OTHER_CLIENTS_BIN"
QUESTION = "What is Roundhouse?"
WITHIN_S = 120
LITELLM = """
import json, sys
import litellm
model, base, asked = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
call = litellm.embedding if "input" in asked else litellm.completion
try:
    reply = call(model=model, api_base=base, api_key="any", **asked)
except Exception as error:
    said = {"error": type(error).__name__, "status": getattr(error, "status_code", None), "message": str(error)}
else:
    if asked.get("stream"):
        said = {"text": "".join(chunk.choices[0].delta.content or "" for chunk in reply)}
    elif "input" in asked:
        said = {"width": len(reply.data[0]["embedding"])}
    else:
        said = {"text": reply.choices[0].message.content, "tokens": reply.usage.completion_tokens}
print(json.dumps(said))
"""


@pytest.fixture(scope="module")
def programs() -> Path:
    """The folder of an environment's programs."""
    folder = os.environ.get(BIN, "")
    if not folder:
        pytest.skip(f"{BIN} names no environment with llm, llm-ollama and litellm")
    return Path(folder)


def run(*command: object, env: dict[str, str]) -> str:
    done = subprocess.run(
        [str(part) for part in command],
        capture_output=True,
        text=True,
        timeout=WITHIN_S,
        check=False,
        env={**os.environ, **env},
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def litellm(programs: Path, model: str, base: str, **asked: object) -> dict[str, Any]:
    # Its list of prices would come from the network, and it prints advice above its answer.
    env = {"LITELLM_LOCAL_MODEL_COST_MAP": "True"}
    said = run(programs / "python", "-c", LITELLM, model, base, json.dumps(asked), env=env)
    found: dict[str, Any] = json.loads(said.splitlines()[-1])
    return found


def base_url(client: Client, provider: str) -> str:
    """Return what LiteLLM wants as `api_base`: Ollama's and Anthropic's routes are below the root."""
    return client.gateway.url + ("" if provider in {"ollama", "ollama_chat", "anthropic"} else "/v1")


@pytest.mark.parametrize("provider", ["openai", "lm_studio", "hosted_vllm", "ollama_chat", "ollama", "anthropic"])
def test_litellm_gets_the_same_answer_streamed_and_not(programs: Path, client: Client, provider: str) -> None:
    base = base_url(client, provider)
    asked = {"messages": [{"role": "user", "content": QUESTION}], "max_tokens": 16, "temperature": 0}
    whole = litellm(programs, f"{provider}/guide", base, **asked)
    assert whole["text"]
    assert 0 < whole["tokens"] <= 16
    assert litellm(programs, f"{provider}/guide", base, **asked, stream=True)["text"] == whole["text"]


@pytest.mark.parametrize("provider", ["openai", "lm_studio", "ollama_chat", "anthropic"])
def test_litellm_knows_our_errors(programs: Path, client: Client, provider: str) -> None:
    base, hello = base_url(client, provider), [{"role": "user", "content": "Hi"}]
    unknown = litellm(programs, f"{provider}/gpt-9", base, messages=hello)
    assert (unknown["error"], unknown["status"]) == ("NotFoundError", 404)
    assert "guide" in unknown["message"]
    long = litellm(programs, f"{provider}/guide", base, messages=[{"role": "user", "content": "word " * 9000}])
    assert long["status"] == 400
    # It looks for no words of Ollama's about a prompt that is too long.
    assert long["error"] == ("BadRequestError" if provider == "ollama_chat" else "ContextWindowExceededError")


@pytest.mark.parametrize("provider", ["openai", "ollama"])
def test_litellm_makes_embeddings(programs: Path, client: Client, home: Paths, provider: str) -> None:
    TinyLlama(values={"llama.pooling_type": 1}).write(home.models / "embed.gguf")
    assert litellm(programs, f"{provider}/embed", base_url(client, provider), input=["hello"])["width"] > 1


@pytest.fixture
def llm_env(client: Client, tmp_path: Path) -> dict[str, str]:
    """Settings of `llm` in which the Guide is reached by OpenAI's dialect and by Ollama's."""
    url = client.gateway.url
    models = f"- model_id: guide-openai\n  model_name: guide\n  api_base: {url}/v1\n"
    (tmp_path / "extra-openai-models.yaml").write_text(models, encoding="utf-8")
    return {"LLM_USER_PATH": str(tmp_path), "OLLAMA_HOST": url}


@pytest.mark.parametrize("model", ["guide-openai", "guide:latest"])
def test_llm_prompts_goes_on_and_counts(programs: Path, llm_env: dict[str, str], model: str) -> None:
    llm = programs / "llm"
    fixed = ("-o", "temperature", 0, "-o", "seed", 1)
    streamed = run(llm, "-m", model, *fixed, QUESTION, env=llm_env)
    assert streamed.strip()
    assert run(llm, "-m", model, *fixed, "--no-stream", QUESTION, env=llm_env) == streamed
    assert run(llm, "-c", "And what does it do?", env=llm_env).strip()
    last = json.loads(run(llm, "logs", "-n", 1, "--json", env=llm_env))[0]
    assert last["input_tokens"] > 0
    assert last["output_tokens"] > 0


def test_llm_lists_what_ollamas_dialect_lists(programs: Path, llm_env: dict[str, str]) -> None:
    assert "guide:latest" in run(programs / "llm", "models", "list", env=llm_env)
