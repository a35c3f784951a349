"""The Guide as a model folder, loaded by an engine that was made for cards, in a gateway of its own."""

import shutil
from typing import Any, NamedTuple

import httpx
import openai
import psutil

from app.client.http import GatewayClient
from app.config.paths import RESOURCES, Paths
from app.core.engines import EngineState, EngineStatus
from tests.end_to_end.conftest import Roundhouse
from tests.patience import wait_until

MODEL = "hf"
QUESTION = "What is VRAM?"
BEGINS = "VRAM is the fast memory on the graphics card."
CONTEXT = 2048
"""Of the model's settings, so that it is the same when a request loads it again."""
WITHIN_S = 600.0
"""Alone on two cores vLLM loads in half a minute, SGLang in one, Dynamo in two and a half."""
TOOL: Any = {
    "type": "function",
    "function": {
        "name": "weather",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}


class ServedGuide(NamedTuple):
    """What tests ask."""

    client: GatewayClient
    roundhouse: Roundhouse

    def load(self, paths: Paths, engine: str, *options: str) -> None:
        """Tune the model for the engine, and load it by the plan."""
        shutil.copytree(RESOURCES / "guide" / "hf", paths.models / MODEL, dirs_exist_ok=True)
        tune_options = ("--engine", engine, "--context", str(CONTEXT), "--slots", "4", *options)
        tune_result = self.roundhouse("tune", MODEL, *tune_options, within_s=WITHIN_S)
        assert not tune_result.returncode, tune_result.stdout + tune_result.stderr
        load_result = self.roundhouse("load", MODEL, within_s=WITHIN_S)
        assert not load_result.returncode, (
            load_result.stdout + load_result.stderr + self.roundhouse("logs", MODEL).stdout
        )

    def unload(self) -> None:
        """End the engine, whatever it does."""
        self.client.post("/unload", {"model": MODEL, "force": True}, object)

    def status(self) -> EngineStatus:
        """Return what `ps` tells."""
        statuses = self.client.get("/running", list[EngineStatus])
        return next(entry for entry in statuses if entry.model == MODEL)

    def connect(self) -> openai.OpenAI:
        """Return OpenAI's client of the gateway."""
        return openai.OpenAI(base_url=f"{self.client.gateway.url}/v1", api_key="none", timeout=WITHIN_S, max_retries=0)

    def gauge(self, name: str) -> float:
        """Return what the engine's metrics say, below 0 if nothing."""
        start = f'roundhouse_engine_{name}{{model="{MODEL}"'
        lines = httpx.get(f"{self.client.gateway.url}/metrics", timeout=WITHIN_S).text.splitlines()
        return next((float(line.split()[-1]) for line in lines if line.startswith(start)), -1.0)

    def leave(self) -> None:
        """Ask for a long answer and go away at its first piece."""
        body = {"model": MODEL, "prompt": "a", "max_tokens": 1900, "ignore_eos": True, "stream": True}
        url = f"{self.client.gateway.url}/v1/completions"
        with httpx.stream("POST", url, json=body, timeout=WITHIN_S) as reply:
            next(reply.iter_bytes())

    def kill_worker(self, name: str) -> None:
        """Kill the process whose name begins so, and wait until all of the engine is gone and `ps` says so."""
        family = psutil.Process(self.client.gateway.pid).children(recursive=True)
        before = self.status().pid
        (worker,) = (process for process in family if process.name().startswith(name))
        worker.kill()
        wait_until(lambda: self.status().state is not EngineState.READY or self.status().pid != before)
        wait_until(lambda: all(is_gone(process) for process in family))


def ask(api: openai.OpenAI, **more: Any) -> Any:  # noqa: ANN401 -- fields of a request, and the package's answer
    """Return a whole answer or a stream."""
    fields: dict[str, Any] = {"model": MODEL, "messages": [{"role": "user", "content": QUESTION}], "temperature": 0}
    return api.chat.completions.create(**{**fields, **more})


def is_gone(process: psutil.Process) -> bool:
    """Tell whether nothing of it is left but, at most, its exit status."""
    try:
        return process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True
