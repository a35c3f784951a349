"""Stands in for the converter of exllamav3 1.6.5: its arguments, its words, its files, and its checkpoints.

A file `fault` in the model's folder says what goes wrong: "memory" in the second module, "wait" there for ever, "disk"
while writing, "refuse" before anything.
"""

import argparse
import json
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

parser = argparse.ArgumentParser(allow_abbrev=False)
parser.add_argument("-i", "--in_dir")
parser.add_argument("-w", "--work_dir")
parser.add_argument("-o", "--out_dir")
parser.add_argument("-b", "--bits", type=float)
parser.add_argument("-hb", "--head_bits", type=float)
parser.add_argument("-r", "--resume", action="store_true")
parser.add_argument("-cpi", "--checkpoint_interval", type=int, default=120)

MODULES = ("model.embed_tokens", "model.layers.0", "model.layers.1", "lm_head")


def prepare(args: Any) -> tuple[dict[str, Any] | None, dict[str, Any] | None, bool, str | None]:
    work = Path(args.work_dir)
    if args.resume:
        options = json.loads((work / "args.json").read_text(encoding="utf-8"))
        print(" -- Resuming existing job")  # noqa: T201 -- as the original
        return options, json.loads((work / "ckpt" / "job.json").read_text(encoding="utf-8")), True, None
    if fault_of(args.in_dir) == "refuse":
        return None, None, False, "--bits must be between 1 and 8"
    (work / "ckpt").mkdir()
    options = {name: value for name, value in vars(args).items() if name != "resume"}
    (work / "args.json").write_text(json.dumps(options), encoding="utf-8")
    (work / "ckpt" / "job.json").write_text('{"next_module_idx": 0}', encoding="utf-8")
    return options, {"next_module_idx": 0}, True, None


def fault_of(folder: str) -> str:
    place = Path(folder) / "fault"
    return place.read_text(encoding="utf-8") if place.exists() else ""


def get_base_model(args: dict[str, Any]) -> tuple[object, ...]:
    return None, SimpleNamespace(modules=MODULES), None, None, None, True


def main(args: dict[str, Any], job_state: dict[str, Any]) -> None:
    _, model, *_ = get_base_model(args)
    fault, work = fault_of(args["in_dir"]), Path(args["work_dir"])
    for place, key in enumerate(model.modules):
        if place < job_state["next_module_idx"]:
            continue
        print(f" -- Loading unquantized module: {key}")  # noqa: T201 -- as the original
        if place == 1 and fault == "memory":
            raise RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB")
        if place == 1 and fault == "wait":
            time.sleep(3600)
        (work / "ckpt" / "state.safetensors").write_bytes(b"state")
        (work / "ckpt" / "job.json").write_text(json.dumps({"next_module_idx": place + 1}), encoding="utf-8")
        with (work / "quantised").open("a", encoding="utf-8") as log:
            log.write(f"{key}\n")
    out = Path(args["out_dir"])
    out.mkdir()
    print(" -- Writing model.safetensors")  # noqa: T201 -- as the original
    if fault == "disk":
        raise OSError(28, "No space left on device")
    bits = {"quant_method": "exl3", "bits": args["bits"], "head_bits": args["head_bits"]}
    (out / "model.safetensors").write_bytes(b"x" * 64)
    (out / "config.json").write_text(json.dumps({"quantization_config": bits}), encoding="utf-8")
    (out / "quantization_config.json").write_text(json.dumps(bits), encoding="utf-8")
    (out / "done.json").write_text((work / "quantised").read_text(encoding="utf-8"), encoding="utf-8")
    print(" -- All done")  # noqa: T201 -- as the original
