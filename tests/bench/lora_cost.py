"""What LoRA adapters cost: `python -m tests.bench.lora_cost --write`, by llama.cpp, with adapters of several ranks.

An adapter changes every matrix of attention and feed-forward, as trained ones do, by small random weights: what it
teaches makes no difference to how long it takes. `roundhouse bench` loads the model with and without it.
"""

import argparse
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from app.benchmark.gains import format_ratio
from app.benchmark.markdown import markdown_table
from app.client.http import GatewayClient
from app.config.paths import guide_gguf
from app.core.benchmarks import BenchmarkReceipt, BenchmarkSettings, StartBenchmark
from app.core.errors import RoundhouseError
from app.core.events import BenchmarkChanged
from app.core.models import ModelSettings, SetModel
from app.hub.gguf.header import read_header
from app.hub.sources import open_file
from tests.bench.architectures import MINIATURES, write_miniature
from tests.bench.doc_spans import write_span
from tests.bench.engine_installs import run_gateway
from tests.bench.programs import ROOT
from tests.bench.real_engines import LONGEST_S, follow_job, note
from tests.gguf_files import Value, gguf_bytes, noise_stretches, weights

PAGE = ROOT / "docs" / "internals" / "benchmarks.md"
SPAN = "lora cost"
RANKS = (4, 16)
_MATRICES = ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down")
_SETTINGS = BenchmarkSettings(requests=4, answer_tokens=48)


def write_adapter(model: Path, path: Path, *, rank: int) -> int:
    """Write an adapter for every matrix of a GGUF's layers, and return how many it changes."""
    with open_file(model) as source:
        header = read_header(source)
    changed_tensors = [part for part in header.tensors if part.name.split(".")[-2] in _MATRICES]
    noise = noise_stretches(rank)
    tensors = [
        (f"{part.name}.{side}", shape, weights(shape, noise))
        for part in changed_tensors
        for side, shape in (("lora_a", [part.shape[0], rank]), ("lora_b", [rank, part.shape[1]]))
    ]
    values: dict[str, Value] = {
        "general.type": "adapter",
        "general.architecture": str(header.values["general.architecture"]),
        "general.name": f"Rank {rank}",
        "adapter.type": "lora",
        "adapter.lora.alpha": float(rank),
    }
    path.write_bytes(gguf_bytes(values, tensors))
    return len(changed_tensors)


def measure() -> list[tuple[int, BenchmarkReceipt | str]]:
    """Return a receipt for each model and rank, or why there is none; ranks are those of the adapters."""
    results: list[tuple[int, BenchmarkReceipt | str]] = []
    adapters: dict[str, list[Path]] = {}

    def prepare_models(home: Path) -> dict[str, str]:
        folder = home / "models-with-adapters"
        folder.mkdir()
        shutil.copy(guide_gguf(), folder / "guide-copy.gguf")
        for miniature in MINIATURES:
            write_miniature(folder / f"{miniature.name}.gguf", miniature)
        for model in sorted(folder.glob("*.gguf")):
            adapters[model.stem] = [home / f"{model.stem}-rank-{rank}.gguf" for rank in RANKS]
            for rank, adapter in zip(RANKS, adapters[model.stem], strict=True):
                write_adapter(model, adapter, rank=rank)
        return {"ROUNDHOUSE_MODELS_FOLDERS": str(folder)}

    with run_gateway(prepare=prepare_models) as (client, _, _):
        for name, paths in adapters.items():
            for rank, adapter in zip(RANKS, paths, strict=True):
                note(f"measuring {name} with an adapter of rank {rank}")
                try:
                    results.append((rank, _bench_with(client, name, adapter)))
                except RoundhouseError as error:
                    results.append((rank, f"{name}, rank {rank}: {error}"))
    return results


def _bench_with(client: GatewayClient, name: str, adapter: Path) -> BenchmarkReceipt:
    client.post("/model-settings", SetModel(model=name, settings=ModelSettings(loras=[str(adapter)])), object)
    start = StartBenchmark(model=name, settings=_SETTINGS, keeps_disturbed=True)
    client.post("/benchmarks", start, BenchmarkChanged, timeout_s=LONGEST_S)
    return client.get(f"/benchmarks/{follow_job(client, BenchmarkChanged).receipt}", BenchmarkReceipt)


def describe_costs(results: Sequence[tuple[int, BenchmarkReceipt | str]], *, duration_s: float) -> Iterator[str]:
    """Yield the lines of the docs."""
    yield f"llama.cpp on the processor, on {time.strftime('%d %B %Y')}, in {duration_s / 60:.0f} min:"
    yield ""
    rows = [
        [
            receipt.target.model,
            str(rank),
            format_ratio(receipt.lora_cost.ttft),
            format_ratio(receipt.lora_cost.token),
            "yes" if receipt.disturbances else "",
        ]
        for rank, receipt in results
        if isinstance(receipt, BenchmarkReceipt) and receipt.lora_cost is not None
    ]
    yield from markdown_table(("model", "rank", "first token", "whole answer, by token", "disturbed"), rows)
    for _, receipt in results:
        if isinstance(receipt, str):
            yield f"- {receipt}"
        elif receipt.lora_cost is None:
            yield f"- {receipt.target.model}: {' '.join(receipt.notes)}"


def main(arguments: Sequence[str]) -> int:
    """Measure, print, and with `--write` put it into the docs."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.lora_cost", description=__doc__)
    parser.add_argument("--write", action="store_true", help="write the figures into the docs")
    options = parser.parse_args(arguments)
    began = time.monotonic()
    results = measure()
    text = "\n".join(describe_costs(results, duration_s=time.monotonic() - began))
    sys.stdout.write(f"{text}\n")
    if options.write:
        write_span(PAGE, SPAN, text)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
