"""Model folders: which format one holds, and the files that say what is in it.

Names inside files are never followed out of the folder, and pickled weights, which run code when they are opened, are
refused with the reason.
"""

from collections.abc import Mapping
from pathlib import Path

import msgspec

from app.core.errors import BadRequest, NotFound
from app.core.model_facts import ModelFacts
from app.hub.facts.hugging_face import FolderContent, facts_of
from app.hub.facts.json_text import Object, read_object, read_object_if_there, read_text
from app.hub.facts.onnx import is_onnx, read_onnx
from app.hub.facts.openvino import is_openvino, read_openvino
from app.hub.facts.safetensors import MAX_TENSORS, FileTensor, read_safetensors
from app.hub.facts.templates import chat_template_of
from app.hub.gguf.values import corrupt_error
from app.hub.sources import open_file

INDEX = "model.safetensors.index.json"
SEPARATE = ("hf_quant_config.json", "quantize_config.json")
"""Where quantisation is stated apart from the configuration."""
MAX_SHARDS = 1024
MAX_INDEX_BYTES = 32 << 20
"""A line for each tensor: nine MiB for the 92,000 of DeepSeek V3."""
_PICKLED = (".bin", ".pt", ".pth", ".ckpt")


class _ShardIndex(msgspec.Struct):
    weight_map: dict[str, str] = {}


def read_folder(folder: Path) -> ModelFacts:
    """Return what a model folder says. Raises NotFound, or BadRequest with the codes of `read_facts`."""
    if is_onnx(folder):
        return read_onnx(folder)
    if is_openvino(folder):
        return read_openvino(folder)
    shards = shards_of(folder)
    config = read_object(folder / "config.json")
    headers = [_read_shard(shard) for shard in shards]
    tensors = [tensor for shard_tensors, _, _ in headers for tensor in shard_tensors]
    if len(tensors) > MAX_TENSORS:
        raise corrupt_error("it claims to have more parts than any model")
    files = FolderContent(
        config=_add_separate_quantization(folder, config),
        tensors=tensors,
        header_format=next((shard_format for _, shard_format, _ in headers if shard_format), ""),
        file_bytes=sum(size for _, _, size in headers),
        chat_template=chat_template_of(folder),
    )
    return facts_of(files, name=folder.name, source="safetensors headers" if shards else "configuration")


def shards_of(folder: Path) -> list[Path]:
    """Return the safetensors files that make up the model, by its index if it has one. Raises NotFound, BadRequest."""
    index = folder / INDEX
    if not index.is_file():
        return [folder / name for name in select_shards([path.name for path in folder.iterdir()], folder.name)]
    names = shard_names(read_text(index, MAX_INDEX_BYTES))
    missing = [name for name in names if not (folder / name).is_file()]
    if missing:
        raise NotFound(
            f"{missing[0]} is missing; the model has {len(names)} parts.",
            hint="Download the missing part.",
            code="model_not_found",
        )
    return [folder / name for name in names]


def select_shards(files: list[str], model: str) -> list[str]:
    """Return which of a folder's files are the model's weights; none where there is only a configuration.

    Raises BadRequest (model_unsupported) if there are weights, and none that can be used.
    """
    weight_files = sorted(name for name in files if name.endswith(".safetensors") and not name.startswith("adapter"))
    split = [name for name in weight_files if not name.startswith("consolidated")]  # Mistral's second copy
    if not weight_files:
        _refuse_what_cannot_be_used(files, model)
    return (split or weight_files)[:MAX_SHARDS]


def shard_names(text: bytes) -> list[str]:
    """Return the file names in an index. Raises BadRequest (model_corrupt) for names that lead elsewhere."""
    try:
        names = sorted(set(msgspec.json.decode(text, type=_ShardIndex).weight_map.values()))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise corrupt_error("its index cannot be read") from error
    is_plain = all(Path(name).name == name and name.endswith(".safetensors") and "\\" not in name for name in names)
    if not names or len(names) > MAX_SHARDS or not is_plain:
        raise corrupt_error("its index names impossible files")
    return names


def _read_shard(path: Path) -> tuple[list[FileTensor], str, int]:
    with open_file(path) as source:
        header = read_safetensors(source)
    return header.tensors, header.format, header.file_bytes


def _add_separate_quantization(folder: Path, config: Object) -> Object:
    return with_quantization(config, {name: read_object_if_there(folder / name) for name in SEPARATE})


def with_quantization(config: Object, files: Mapping[str, Object]) -> Object:
    """Add what NVIDIA's and older GPTQ tools write into files of their own (`SEPARATE`)."""
    if "quantization_config" in config or "quantization" in config:
        return config
    nvidia, gptq = (files.get(name, {}) for name in SEPARATE)
    if isinstance(nvidia.get("quantization"), dict):
        return {**config, "quantization_config": {"quant_method": "modelopt", **nvidia["quantization"]}}
    return {**config, "quantization_config": {"quant_method": "gptq", **gptq}} if gptq else config


def _refuse_what_cannot_be_used(files: list[str], model: str) -> None:
    if "mlc-chat-config.json" in files:
        raise BadRequest("Models compiled for MLC cannot be read yet.", code="model_unsupported")
    if any(name.endswith(_PICKLED) for name in files):
        raise BadRequest(
            f"{model} holds pickled weights only, which can run any program when opened.",
            hint="Look for a copy of the model with .safetensors or .gguf files.",
            code="model_unsupported",
        )
    if "config.json" not in files:
        raise BadRequest(f"{model} contains no model that Roundhouse supports.", code="model_unsupported")
