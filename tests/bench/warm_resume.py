"""How long the first token of a long prompt takes when the model was read anew, and when its prompt was kept.

A real gateway with the real llama.cpp and a small Llama of random weights. The prompt is read once; then, in turns, the
gateway is ended and started again, and the same prompt is asked with what was kept, and with nothing.
"""

import http.client
import json
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.bench.figures import BenchFigure, at_most, without_target
from tests.bench.programs import HOST, start_program, wait_for
from tests.file_keyring import keyring_environment
from tests.gguf_files import TinyLlama
from tests.ports import free_port

ROUNDS = 3
PROMPT_TOKENS = 30_000
CONTEXT = 32_768
TARGET_SHARE = 0.05
LLAMA = TinyLlama(values={"llama.context_length": 40_960})
"""A hundred thousand parameters and a vocabulary of bytes: most of its time is attention to what it has read."""
MODEL = "warm"
_PATIENCE_S = 1800.0


def measure(rounds: int = ROUNDS) -> Sequence[BenchFigure]:
    """Return the first token after a restart with the prompt kept, as a share of that without it, and both times."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        (home / "data" / "models").mkdir(parents=True)
        LLAMA.write(home / "data" / "models" / f"{MODEL}.gguf")
        cold_s: list[float] = []
        warm_s: list[float] = []
        for _ in range(rounds):
            with _run_gateway(home) as port:
                _remove_kept(home)
                cold_s.append(_time_first_token(port))
            with _run_gateway(home) as port:
                warm_s.append(_time_first_token(port))
        size_bytes = sum(file.stat().st_size for file in _kept_files(home))
    cold, warm = statistics.median(cold_s), statistics.median(warm_s)
    name = f"first token of {PROMPT_TOKENS:,} tokens after a restart"
    return [
        at_most(f"{name}, kept against read anew", warm / cold, TARGET_SHARE),
        without_target(f"{name}, read anew", f"{cold:.2f} s"),
        without_target(f"{name}, kept", f"{warm:.2f} s"),
        without_target("the kept prompt on the disk", f"{size_bytes / 1e6:.0f} MB"),
    ]


@contextmanager
def _run_gateway(home: Path) -> Iterator[int]:
    """Run a gateway that has loaded the model; ended in good order, so that what was read is kept."""
    port = free_port()
    with start_program("app.gateway", environment=_environment(home, port)) as child:
        wait_for(port, child)
        _ask(port, "Hello.")  # loads the model, which is no part of what is compared
        yield port


def _environment(home: Path, port: int) -> dict[str, str]:
    return {
        **keyring_environment(home / "keyring.json"),
        "ROUNDHOUSE_HOME": str(home),
        "ROUNDHOUSE_GATEWAY_PORT": str(port),
        "ROUNDHOUSE_MODELS_CONTEXT": str(CONTEXT),
        "ROUNDHOUSE_MODELS_SLOTS": "1",
        "ROUNDHOUSE_MODELS_OTHER_PROGRAMS": "false",
    }


def _kept_files(home: Path) -> list[Path]:
    return list((home / "data" / "kept-prompts").glob("*.prompt"))


def _remove_kept(home: Path) -> None:
    for file in _kept_files(home):
        file.unlink()


def _time_first_token(port: int) -> float:
    words = " ".join(f"Line {number} of a long file." for number in range(PROMPT_TOKENS // 20))
    return _ask(port, words[: PROMPT_TOKENS - 100])  # a token for each byte, and the template's


def _ask(port: int, text: str) -> float:
    """Return the seconds until the first bytes of an answer."""
    connection = http.client.HTTPConnection(HOST, port, timeout=_PATIENCE_S)
    body = {"model": MODEL, "messages": [{"role": "user", "content": text}], "max_tokens": 2, "stream": True}
    try:
        began = time.perf_counter()
        connection.request("POST", "/v1/chat/completions", json.dumps(body), {"Content-Type": "application/json"})
        answer = connection.getresponse()
        if answer.status != http.client.OK:
            raise RuntimeError(answer.read().decode(errors="replace"))
        while not (line := answer.readline()).startswith(b"data:"):
            if not line:
                raise RuntimeError("The answer ended before its first token.")
        taken_s = time.perf_counter() - began
        answer.read()
        return taken_s
    finally:
        connection.close()
