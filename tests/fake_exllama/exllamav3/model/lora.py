"""Adapters of PEFT, which the original reads into the modules of a loaded model."""

import json
from pathlib import Path
from typing import Any

from playing import keep_facts


class LoRA:
    @staticmethod
    def from_directory(model: Any, directory: str, lora_scaling: float = 1.0) -> "LoRA":
        assert model.is_loaded, "an adapter goes into modules that are there"
        assert "r" in json.loads((Path(directory) / "adapter_config.json").read_text(encoding="utf-8"))
        keep_facts(lora=Path(directory).name)
        return LoRA()
