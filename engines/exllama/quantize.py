"""EXL3 made of a model's original weights by ExLlamaV3's own converter, in a process of its own.

`python -m engines.exllama.quantize`, with the order in the environment like any worker's (`worker_base`). The converter
prints for people; how far it is comes from its own list of modules and from the lines with which it begins each.
"""

import importlib
import os
import re
import shutil
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TextIO

from engines import worker_base
from engines.exllama.kernel_build import visible_cards, watch_kernel_build

EVENT = "quantize"
"""What our lines to the gateway are called."""
_CONVERTER = "exllamav3.conversion.convert_model"
_BEGINS = re.compile(r"^ -- Loading unquantized module: (\S+)(?: \(slice (\d+)/)?")
_WRITES = re.compile(r"^ -- Writing (model\S*)")
_LAST_SHARE = 0.97
"""What is left after the last module is writing the result."""


class ModuleCounter:
    """A standard output that counts the modules that the converter begins, and passes its words on to the log."""

    def __init__(self, log: TextIO, tell: Callable[[str, float | None], None]) -> None:
        self._log, self._tell = log, tell
        self.total = 0
        self.done = 0
        self._rest = ""

    def write(self, text: str) -> int:
        """Take what is printed."""
        self._log.write(text)
        *lines, self._rest = (self._rest + text).split("\n")
        for line in lines:
            self._note(line)
        return len(text)

    def flush(self) -> None:
        """Pass it on."""
        self._log.flush()

    def isatty(self) -> bool:
        """Tell that nobody looks: bars are not drawn then."""
        return False

    def _note(self, line: str) -> None:
        begin_match = _BEGINS.match(line)
        if begin_match is not None and begin_match[2] in {None, "1"}:
            share = min(1.0, self.done / self.total) * _LAST_SHARE if self.total else None
            self.done += 1
            self._tell(f"Quantising {begin_match[1]}", share)
        elif _WRITES.match(line):
            self._tell("Writing the model", _LAST_SHARE)


def copy_no_modes() -> None:
    """Have files copied with the mode that new ones get: a confined process may not change modes by name."""
    shutil.copymode = lambda *_places, **_options: None


def run_converter(order: Mapping[str, Any], counter: ModuleCounter) -> None:
    """Run the converter to its end. Raises RuntimeError with what it refuses."""
    converter: Any = importlib.import_module(_CONVERTER)
    build_models = converter.get_base_model

    def count_modules(arguments: Any) -> Any:  # noqa: ANN401 -- the library's own
        built_models = build_models(arguments)
        models = [model for model in built_models[1:4] if model is not None]
        counter.total = sum(len(model.modules) for model in models)
        return built_models

    converter.get_base_model = count_modules
    arguments = converter.parser.parse_args(converter_arguments(order))
    chosen_arguments, state, is_ready, problem = converter.prepare(arguments)
    if not is_ready:
        raise RuntimeError(f"the converter refuses: {problem}")
    counter.done = int(state["next_module_idx"])
    converter.main(chosen_arguments, state)


def converter_arguments(order: Mapping[str, Any]) -> list[str]:
    """Return what the converter is told; one that goes on has all else in its working folder."""
    if order["resumes"]:
        return ["-w", str(order["work"]), "-r", "-cpi", str(order["checkpoint_s"])]
    return [
        *("-i", str(order["model"]), "-o", str(order["out"]), "-w", str(order["work"])),
        *("-b", f"{float(order['bits']):g}", "-hb", str(order["head_bits"]), "-cpi", str(order["checkpoint_s"])),
    ]


def has_checkpoint(work: Path) -> bool:
    """Tell whether a working folder can be gone on from, an interrupted exchange of checkpoints put right first."""
    current, before = work / "ckpt", work / "ckpt_old"
    latest = current if current.exists() else before
    return (work / "args.json").exists() and all((latest / name).exists() for name in ("job.json", "state.safetensors"))


def restore_checkpoint(work: Path) -> None:
    """Put back what an interrupted exchange of checkpoints left."""
    current, before = work / "ckpt", work / "ckpt_old"
    if not current.exists() and before.exists():
        before.rename(current)


def main() -> None:
    """Convert as the environment says."""

    def serve_order(launch: worker_base.WorkerLaunch) -> None:
        def emit_stage(stage: str, fraction: float | None = None) -> None:
            worker_base.emit(EVENT, stage=stage, fraction=fraction)

        order = launch.config
        emit_stage("Starting exllamav3")
        torch: Any = importlib.import_module("torch")
        if not torch.cuda.is_available():
            raise RuntimeError("no CUDA GPUs are available to PyTorch")
        ours = sys.stdout
        with watch_kernel_build("exllamav3", visible_cards(torch), os.environ, emit_stage):
            importlib.import_module("exllamav3")

        def tell_aside(stage: str, fraction: float | None = None) -> None:
            """Tell through our own output while the converter prints into the counter."""
            printed_stream, sys.stdout = sys.stdout, ours
            emit_stage(stage, fraction)
            sys.stdout = printed_stream

        counter = ModuleCounter(sys.stderr, tell_aside)
        sys.stdout = counter
        try:
            copy_no_modes()
            run_converter(order, counter)
        except (AssertionError, ValueError, KeyError, OSError) as error:
            raise RuntimeError(f"{type(error).__name__}: {error}") from error
        finally:
            sys.stdout = ours

    worker_base.run(serve_order)


if __name__ == "__main__":
    main()
