"""The models the oracle is asked about: small ones of every architecture and kind of memory, and how each is loaded.

What llama.cpp allocated for them is kept in `data/allocations.json`, so that the advisor's sums can be compared with it
in a moment; `python -m tests.oracle_models --write` asks it again (after another llama.cpp was pinned, or for a new
model), which takes some minutes.
"""

import json
import sys
import tomllib
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from app.hub.shapes.shape import ModelShape, shape_from
from tests.oracle import Allocated, Refused, Setting, load, load_each
from tests.weightless import write_weightless

FILE = Path(__file__).parent / "data" / "weightless.toml"
ALLOCATIONS = Path(__file__).parent / "data" / "allocations.json"
QUANTIZATION = "Q4_K_M"

SETTINGS = (
    Setting(context=4096, slots=1),
    Setting(context=2048, slots=4),
    Setting(context=8192, slots=1, kv_type="q8_0", flash_attention=True),
    Setting(context=4096, slots=2, ubatch=2048, is_kv_unified=True),
)
"""One conversation; the product's four; a quantised cache; one cache shared by all slots, with a large batch."""
MORE_SETTINGS = (
    *SETTINGS,
    Setting(context=3000, slots=3, ubatch=128, flash_attention=False),
    Setting(context=512, slots=32, ubatch=64, kv_type="q4_0", flash_attention=True),
)
"""Also whole scores instead of flash attention; and more conversations than a batch has room for at once."""


class AllocatedBytes(msgspec.Struct, frozen=True, kw_only=True):
    """What llama.cpp logged for one load, in bytes, each buffer rounded to a hundredth of a MiB."""

    model: int
    kv: int
    recurrent: int
    output: int
    compute: int
    buffers: int
    """How many buffers that were."""


def summed_bytes(load_result: Allocated) -> AllocatedBytes:
    """Return the sums of a load."""
    return AllocatedBytes(
        model=load_result.of("model"),
        kv=load_result.of("kv"),
        recurrent=load_result.of("recurrent"),
        output=load_result.of("output"),
        compute=load_result.of("compute"),
        buffers=len(load_result.buffers),
    )


@cache
def allocations() -> dict[str, list[AllocatedBytes | None]]:
    """Return what was written down, by model: one for each of `MORE_SETTINGS`, None where it is refused."""
    return msgspec.json.decode(ALLOCATIONS.read_bytes(), type=dict[str, list[AllocatedBytes | None]])


@cache
def models() -> list[ModelShape]:
    """Return every model of the file, called "architecture.variant"."""
    table = tomllib.loads(FILE.read_text(encoding="utf-8"))
    return [
        shape_from(f"{architecture}.{variant}", architecture, figures)
        for architecture, variants in table.items()
        for variant, figures in variants.items()
    ]


def write_model(folder: Path, model: ModelShape) -> Path:
    """Write the file that llama.cpp loads; the tensors are those of `model.tensors(QUANTIZATION)`."""
    return write_weightless(folder / f"{model.name}.gguf", model.build_metadata(), model.build_tensors(QUANTIZATION))


def ask_each(model: ModelShape) -> list[AllocatedBytes | None]:
    """Return what each of `MORE_SETTINGS` allocates; None where llama.cpp does not load the model so."""
    with TemporaryDirectory() as folder:
        path = write_model(Path(folder), model)
        try:
            return [summed_bytes(load_result) for load_result in load_each(path, MORE_SETTINGS)]
        except (Refused, BrokenPipeError):  # of one setting, so that all have to be asked alone
            return [_ask_llama_cpp(path, setting) for setting in MORE_SETTINGS]


def _ask_llama_cpp(path: Path, setting: Setting) -> AllocatedBytes | None:
    try:
        return summed_bytes(load(path, setting))
    except (Refused, BrokenPipeError):
        return None


def main(arguments: Sequence[str]) -> None:
    """Write down what llama.cpp allocates: for all models, or with `--missing` for those of which nothing is known."""
    if list(arguments) not in (["--write"], ["--missing"]):
        raise SystemExit(__doc__)
    old_allocations = allocations() if list(arguments) == ["--missing"] and ALLOCATIONS.exists() else {}
    lines = []
    for model in models():
        sums = msgspec.json.encode(old_allocations.get(model.name) or ask_each(model)).decode()
        lines.append(f"{json.dumps(model.name)}: {sums}")
        sys.stderr.write(f"{model.name}\n")
        ALLOCATIONS.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
