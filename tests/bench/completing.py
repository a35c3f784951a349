"""What a typed character costs where code is completed: a file read before, with one more character, against read anew.

A real gateway with the real llama.cpp and a Llama of random weights whose tokens are bytes. Each round has a prefix of
its own, which nobody has read, and then types on in it.
"""

import http.client
import json
import random
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from tests.bench.figures import BenchFigure, at_most, without_target
from tests.bench.programs import HOST, start_program, wait_for
from tests.gguf_files import TinyLlama
from tests.ports import free_port

ROUNDS, TYPED = 5, 6
PREFIX_TOKENS = 1_500
TARGET_SHARE = 0.15
BEFORE, AFTER, GAP = range(3)
LLAMA = TinyLlama(
    width=384,
    layers=6,
    heads=6,
    inner=1024,
    head_width=64,
    values={
        "llama.context_length": 4096,
        "tokenizer.ggml.fim_pre_token_id": BEFORE,
        "tokenizer.ggml.fim_suf_token_id": AFTER,
        "tokenizer.ggml.fim_mid_token_id": GAP,
    },
)
"""Twelve million parameters; three tokens that no text has stand for the marks of a gap."""
MODEL = "completer"
_SUFFIX = "\n    return total\n"
_PATIENCE_S = 600.0


def measure(rounds: int = ROUNDS) -> Sequence[BenchFigure]:
    """Return the middle time of a completion after a typed character, as a share of that of an unread prefix."""
    with tempfile.TemporaryDirectory() as folder:
        home, port = Path(folder), free_port()
        (home / "data" / "models").mkdir(parents=True)
        LLAMA.write(home / "data" / "models" / f"{MODEL}.gguf")
        environment = {
            "ROUNDHOUSE_HOME": str(home),
            "ROUNDHOUSE_GATEWAY_PORT": str(port),
            "ROUNDHOUSE_MODELS_OTHER_PROGRAMS": "false",
        }
        with start_program("app.gateway", environment=environment) as child:
            wait_for(port, child)
            _complete(port, "a")  # loads the model
            cold_s, typed_s = _type_on(port, rounds)
    cold, typed_share = statistics.median(cold_s), statistics.median(typed_s)
    name = f"completion after {PREFIX_TOKENS:,} tokens"
    return [
        at_most(f"{name}, one more character against read anew, p50", typed_share / cold, TARGET_SHARE),
        without_target(f"{name}, read anew, p50", f"{cold * 1e3:.0f} ms"),
        without_target(f"{name}, one more character, p50", f"{typed_share * 1e3:.0f} ms"),
    ]


def _type_on(port: int, rounds: int) -> tuple[list[float], list[float]]:
    letters = random.Random(1)  # noqa: S311 -- texts to read, not secrets
    cold_s: list[float] = []
    typed_s: list[float] = []
    for _round in range(rounds):
        prefix = "".join(letters.choices("bcdfgjklmpqvwxyz", k=PREFIX_TOKENS))  # of which no two are one token
        cold_s.append(_complete(port, prefix))
        for _key in range(TYPED):
            prefix += letters.choice("bcdfgjklmpqvwxyz")
            typed_s.append(_complete(port, prefix))
    return cold_s, typed_s


def _complete(port: int, prefix: str) -> float:
    """Return the seconds until a completion of one token is there."""
    connection = http.client.HTTPConnection(HOST, port, timeout=_PATIENCE_S)
    body = {"model": MODEL, "input_prefix": prefix, "input_suffix": _SUFFIX, "n_predict": 1}
    try:
        began = time.perf_counter()
        connection.request("POST", "/infill", json.dumps(body), {"Content-Type": "application/json"})
        answer = connection.getresponse()
        text = answer.read()
        if answer.status != http.client.OK:
            raise RuntimeError(text.decode(errors="replace"))
        return time.perf_counter() - began
    finally:
        connection.close()
