"""One engine started by its own adapter's plan, asked, timed and ended."""

import json
import shutil
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any

from app.confinement.rules import LaunchOrder
from engines.api import EngineAdapter, EngineInstallation, LaunchOptions, LaunchPlan, ListenOptions, ModelSource
from tests.gpu.confined import order_process, run_order
from tests.ports import free_port

KEY = "a-key-for-one-launch"
QUESTION = "What is Roundhouse?"
STREAMS = 8
TOKENS = 64
_PAUSE_S = 0.25
_DRIVER_S = 60


class EngineEnded(RuntimeError):
    """It ended, or did not become ready in time; says its last words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """What came of asking: text, seconds to readiness, tokens a second alone and with `STREAMS` at once.

    `card_mib` is what the engine takes of the first card, by the driver's program; None where that cannot say.
    """

    text: str
    ready_s: float
    alone: float
    together: float
    card_mib: int | None = None


def ask_engine(
    adapter: EngineAdapter,
    installation: EngineInstallation,
    source: ModelSource,
    options: LaunchOptions,
    within_s: float,
) -> Answers:
    """Start the engine, ask, and end it. Raises EngineEnded, ValueError for what the adapter refuses."""
    net = ListenOptions(host="127.0.0.1", port=free_port(), key=KEY)
    plan = adapter.plan(source, options, net, installation)
    (spec,) = plan.processes
    before = read_card_mib()
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="roundhouse-gpu-") as name:
        folder = Path(name)
        order = order_process(
            adapter.descriptor, source, options, installation, spec=spec, folder=folder, port=net.port
        )
        with _run_order(order, folder) as (process, log):
            _wait_ready(plan, process, log, began + within_s)
            return _time_answers(plan, time.monotonic() - began, before)


def _time_answers(plan: LaunchPlan, ready_s: float, before: int | None) -> Answers:
    text = _complete(plan, TOKENS)[0]
    alone = _rate(plan, 1)
    together, after = _rate(plan, STREAMS), read_card_mib()
    taken_mib = None if before is None or after is None else after - before
    return Answers(text=text, ready_s=ready_s, alone=alone, together=together, card_mib=taken_mib)


def read_card_mib() -> int | None:
    """Return what is in use of the first card's memory, in MiB; None without the driver's program."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return None
    command = [program, "--query-gpu=memory.used", "--format=csv,noheader,nounits"]
    result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_DRIVER_S)
    words = result.stdout.split()
    return int(words[0]) if words and words[0].isdigit() else None


@contextmanager
def _run_order(order: LaunchOrder, folder: Path) -> Iterator[tuple["subprocess.Popen[bytes]", Path]]:
    log = folder / "log"
    with log.open("wb") as output, run_order(order, output) as process:
        try:
            yield process, log
        finally:
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()


def _wait_ready(plan: LaunchPlan, process: "subprocess.Popen[bytes]", log: Path, deadline: float) -> None:
    while True:
        if process.poll() is not None or time.monotonic() > deadline:
            words = log.read_text(encoding="utf-8", errors="replace").splitlines()[-8:]
            why = "did not become ready in time" if process.poll() is None else f"ended with code {process.poll()}"
            raise EngineEnded(f"{why}: {' / '.join(words)}")
        try:
            with urllib.request.urlopen(_request(plan, plan.readiness.path), timeout=5) as reply:  # noqa: S310 -- loopback
                if reply.status == HTTPStatus.OK:
                    return
        except (OSError, urllib.error.HTTPError):
            pass
        time.sleep(_PAUSE_S)


def _rate(plan: LaunchPlan, streams: int) -> float:
    """Return tokens a second of so many answers at once."""
    began = time.monotonic()
    with ThreadPoolExecutor(streams) as pool:
        counts = [answer[1] for answer in pool.map(lambda _: _complete(plan, TOKENS), range(streams))]
    return sum(counts) / (time.monotonic() - began)


def _complete(plan: LaunchPlan, tokens: int) -> tuple[str, int]:
    body = {
        "model": plan.served_name,
        "messages": [{"role": "user", "content": QUESTION}],
        "temperature": 0,
        "max_tokens": tokens,
    }
    with urllib.request.urlopen(_request(plan, "/v1/chat/completions", body), timeout=120) as reply:  # noqa: S310 -- loopback
        answer: Any = json.load(reply)
    return str(answer["choices"][0]["message"]["content"]), int(answer["usage"]["completion_tokens"])


def _request(plan: LaunchPlan, path: str, body: object = None) -> urllib.request.Request:
    headers = {"Authorization": f"Bearer {KEY}", "Content-Type": "application/json"}
    content = None if body is None else json.dumps(body).encode()
    return urllib.request.Request(plan.base_url + path, data=content, headers=headers)  # noqa: S310 -- loopback
