"""The `llm` and `litellm` packages, run as programs of an environment of their own.

They bring 330 MB that Roundhouse needs for nothing else, so they are no part of the development environment. Without
one of their own their tests are skipped; `make clients` makes it.
"""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

BIN = "OTHER_CLIENTS_BIN"
WITHIN_S = 120
LITELLM = """
import json, sys
import litellm
litellm.suppress_debug_info = True

def add(said, message):
    said["text"] += message.content or ""
    said["thoughts"] += getattr(message, "reasoning_content", None) or ""
    for call in message.tool_calls or []:
        said["tool"] += call.function.name or ""
        said["arguments"] += call.function.arguments or ""

def answered(asked):
    said = {"text": "", "thoughts": "", "arguments": "", "tool": ""}
    call = litellm.embedding if "input" in asked else litellm.completion
    try:
        reply = call(model=sys.argv[1], api_base=sys.argv[2], api_key="any", num_retries=0, max_retries=0, **asked)
        if asked.get("stream"):
            for chunk in reply:
                add(said, chunk.choices[0].delta)
        elif "input" in asked:
            said["width"] = len(reply.data[0]["embedding"])
        else:
            choice = reply.choices[0]
            add(said, choice.message)
            odds = getattr(choice, "logprobs", None)
            said |= {"odds": odds.content[0].logprob if odds else None, "tokens": reply.usage.completion_tokens}
    except Exception as error:
        said |= {"error": type(error).__name__, "status": getattr(error, "status_code", None), "message": str(error)}
    return said

print(json.dumps([answered(asked) for asked in json.loads(sys.argv[3])]))
"""
"""One process for many questions: importing LiteLLM takes seconds."""


def programs_folder() -> Path:
    """Return the folder of an environment's programs; skip the test if there is none."""
    folder = os.environ.get(BIN, "")
    if not folder:
        pytest.skip(f"{BIN} names no environment with llm, llm-ollama and litellm")
    return Path(folder)


def run(*command: object, env: dict[str, str]) -> str:
    """Run a program and return its output; it must end well."""
    result = subprocess.run(
        [str(part) for part in command],
        capture_output=True,
        text=True,
        timeout=WITHIN_S,
        check=False,
        env={**os.environ, **env},
        stdin=subprocess.DEVNULL,
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


def litellm(programs: Path, model: str, base: str, *arguments: dict[str, Any]) -> list[dict[str, Any]]:
    """Ask by LiteLLM, one after the other, and return what it made of each answer."""
    # Its list of prices would come from the network, and it prints advice above its answer.
    env = {"LITELLM_LOCAL_MODEL_COST_MAP": "True"}
    output = run(programs / "python", "-c", LITELLM, model, base, json.dumps(arguments), env=env)
    body: list[dict[str, Any]] = json.loads(output.splitlines()[-1])
    return body


def base_url(url: str, provider: str) -> str:
    """Return what LiteLLM wants as `api_base`: Ollama's and Anthropic's routes are below the root."""
    return url + ("" if provider in {"ollama", "ollama_chat", "anthropic"} else "/v1")


def llm_settings(url: str, folder: Path) -> dict[str, str]:
    """Write settings of `llm` by which the Guide is reached in OpenAI's dialect; Ollama's needs the address alone."""
    models = f"- model_id: guide-openai\n  model_name: guide\n  api_base: {url}/v1\n"
    (folder / "extra-openai-models.yaml").write_text(models, encoding="utf-8")
    return {"LLM_USER_PATH": str(folder), "OLLAMA_HOST": url}
