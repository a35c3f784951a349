"""Which reader a path is for: a GGUF file, with its other parts, or a folder, told by the files in it.

Names inside files are never followed out of the folder, and pickled weights, which run code when they are opened, are
refused with the reason.
"""

from collections.abc import Mapping
from pathlib import Path

import msgspec

from app.core.errors import BadRequest, NotFound
from app.core.model_facts import ModelFacts
from app.hub.facts.capabilities import chat_template_of
from app.hub.facts.gguf import facts_of_headers
from app.hub.facts.hugging_face import FolderContent, facts_of
from app.hub.facts.json_text import Object, read_object, read_object_if_there, read_text
from app.hub.facts.onnx import is_onnx, read_onnx
from app.hub.facts.openvino import is_openvino, read_openvino
from app.hub.facts.safetensors import MAX_TENSORS, FileTensor, read_safetensors
from app.hub.gguf.header import GgufHeader, read_header
from app.hub.gguf.values import corrupt_error
from app.hub.library.candidates import Candidate, candidate_for
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
    missing_names = [name for name in names if not (folder / name).is_file()]
    if missing_names:
        raise NotFound(
            f"{missing_names[0]} is missing; the model has {len(names)} parts.",
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


def read_facts(path: Path) -> ModelFacts:
    """Return what the files of a model say: a GGUF file (a part stands for the whole), or a model folder.

    Raises NotFound (model_not_found), or BadRequest with code model_corrupt, model_unsupported or model_unreadable.
    """
    if path.is_dir():
        return _folder_facts(path)
    if path.suffix == ".safetensors" or path.name == "config.json":
        return _folder_facts(path.parent)
    return gguf_facts(candidate_for(path))


def _folder_facts(folder: Path) -> ModelFacts:
    files = [candidate_for(path) for path in sorted(folder.glob("*.gguf"))]
    models = {file.first: file for file in files if not file.is_projector}
    if len(models) == 1 and not (folder / "config.json").is_file():
        projector = next((file for file in files if file.is_projector), None)
        facts = gguf_facts(next(iter(models.values())))
        return with_projector(facts, gguf_facts(projector)) if projector else facts
    if models and not (folder / "config.json").is_file():
        raise BadRequest(
            f"{folder.name} holds {len(models)} models.",
            hint="Choose one of them: " + ", ".join(sorted(path.name for path in models)) + ".",
            code="model_unsupported",
        )
    return read_folder(folder)


def with_projector(facts: ModelFacts, projector: ModelFacts) -> ModelFacts:
    """Return a model together with the file that lets it see or hear."""
    return msgspec.structs.replace(
        facts,
        weights=[*facts.weights, *projector.weights],
        file_bytes=facts.file_bytes + projector.file_bytes,
        parameters=facts.parameters + projector.parameters,
        capabilities=[*facts.capabilities, *projector.capabilities],
    )


def gguf_facts(candidate: Candidate) -> ModelFacts:
    """Return the facts of all parts of a GGUF model together. Raises NotFound or BadRequest."""
    return facts_of_headers([_read_part_header(part, candidate) for part in candidate.parts], name=candidate.stem)


def _read_part_header(part: Path, candidate: Candidate) -> GgufHeader:
    try:
        with open_file(part) as source:
            return read_header(source)
    except NotFound:
        if len(candidate.parts) == 1:
            raise
        raise NotFound(
            f"{part.name} is missing; the model has {len(candidate.parts)} parts.",
            hint="Download the missing part.",
            code="model_not_found",
        ) from None
