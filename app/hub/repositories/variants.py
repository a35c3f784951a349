"""What one revision of a repository offers to run: each variant with its files, its size, and what goes with it.

A repository of GGUF files holds one variant per quantisation; any other holds one in all, told by its files and, for
its quantisation, by its configuration. Weights in Python's pickle format can run code when they are opened: never
offered.

Whether the hub has other content than lies here, under the names of a model that came from it.

Both sides name content by its hash: the hub in its list of files, its cache here in the names of blobs.
"""

import contextlib
import re
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path, PurePosixPath

import msgspec
from msgspec.structs import replace

from app.core.errors import BadRequest, NotFound
from app.core.hub import Origin
from app.core.library import Freshness, ModelUpdate
from app.core.models import CompanionKind, ModelInfo
from app.hub.disk.verification import files_of
from app.hub.library.candidates import split_parts, split_stem
from app.hub.library.companions import kind_by_name, projector_place
from app.hub.library.naming import GENERATION_CONFIG
from app.hub.repositories.repository import RepoFile, Repository

_QUANTIZATION = re.compile(
    r"(?:^|[-._])((?:UD-)?(?:I?Q\d[A-Z0-9_]*|TQ\d_\d|MXFP4(?:_MOE)?|NVFP4|BF16|F16|F32|FP16))$", re.IGNORECASE
)
PICKLES = (".bin", ".pt", ".pth", ".ckpt", ".pkl")
_BESIDE = (".json", ".jinja", ".model", ".txt", ".tiktoken")
"""Small files that belong to a model: configuration, tokenizer, template, merges."""
_MAX_BESIDE_BYTES = 64 << 20
_ADAPTER = "adapter_config.json"
"""What PEFT writes beside an adapter."""


class ModelVariant(msgspec.Struct, frozen=True, kw_only=True):
    """One way to have the model. `quantization` is empty where only the configuration tells."""

    format: str
    """An `engines.api.ModelFormat` value; "safetensors" stands for every format kept in those files."""
    quantization: str
    first: str
    """The path an engine is given: a GGUF file, or the folder of a model of several files ("" for the root)."""
    files: list[RepoFile]
    projector: RepoFile | None = None
    """What makes it see images."""
    recommends: RepoFile | None = None
    """Where the sampling is that its makers recommend, where that does not lie in the model's own files."""
    revision: str = ""
    """The branch it lies on, where the repository keeps one for each."""

    @property
    def size_bytes(self) -> int:
        """Of the model's own files, without the projector."""
        return sum(file.size for file in self.files)

    @property
    def files_to_fetch(self) -> list[RepoFile]:
        """Everything to fetch."""
        return [*self.files, *(file for file in (self.projector, self.recommends) if file is not None)]


def variants_of(repository: Repository) -> list[ModelVariant]:
    """Return what can be run, GGUF files by size, largest first.

    Raises BadRequest (pickle_only) when all weights are pickles, NotFound (no_model_files) when there are none at all.
    """
    variants = [*_gguf_variants(repository), *_openvino_variants(repository.files), *_onnx_variants(repository.files)]
    variants += _safetensors_variants(repository.files)
    if variants:
        return variants
    if any(file.path == _ADAPTER for file in repository.files):
        raise BadRequest(
            f"{repository.name} is a LoRA adapter, not a complete model.",
            hint=_hint_for_adapter(repository.base_models),
            code="adapter_only",
        )
    if any(file.path.endswith(PICKLES) for file in repository.files):
        raise BadRequest(
            f"{repository.name} has its weights as pickle files only, which can run programs when opened.",
            hint="Look for the same model in GGUF or safetensors format.",
            code="pickle_only",
        )
    raise NotFound(f"{repository.name} holds no model files.", code="no_model_files")


def companions_of(repository: Repository) -> list[tuple[CompanionKind, RepoFile]]:
    """Return the drafts and LoRA adapters that lie with a GGUF model, told by their names; projectors are taken along.

    A repository whose files are all named like that holds models: finetunes are called after how they were made.
    """
    ggufs = [file for file in repository.files if file.path.lower().endswith(".gguf")]
    kinds = [(kind_by_name(file.path), file) for file in ggufs]
    if all(kind is not None for kind, _ in kinds):
        return []
    offered_kinds = {CompanionKind.DRAFT, CompanionKind.LORA}
    return [(kind, file) for kind, file in kinds if kind is not None and kind in offered_kinds]


def quantization_of(stem: str) -> str:
    """Return the quantisation a GGUF file's name ends with, in capitals; empty if it names none."""
    match = _QUANTIZATION.search(stem)
    return match[1].upper() if match else ""


def find_variant(variants: Iterable[ModelVariant], query: str) -> ModelVariant:
    """Return the variant of a quantisation or a file's path. Raises NotFound (variant_not_found) with what there is."""
    available = list(variants)
    folded_query = query.casefold()
    for variant in available:
        name = PurePosixPath(variant.first).name
        names = {variant.quantization, variant.revision, variant.first, name, split_stem(name)}
        if folded_query in {name.casefold() for name in names if name}:
            return variant
    variants_text = ", ".join(variant.quantization or variant.first or variant.format for variant in available)
    raise NotFound(f"There is no {query}.", hint=f"There are {variants_text}.", code="variant_not_found")


def _gguf_variants(repository: Repository) -> list[ModelVariant]:
    by_path = {file.path: file for file in repository.files if file.path.lower().endswith(".gguf")}
    projectors = [file for path, file in by_path.items() if _is_projector(path)]
    beside = {file.path for _, file in companions_of(repository)} | {file.path for file in projectors}
    groups: dict[str, list[RepoFile]] = defaultdict(list)
    for path, file in sorted(by_path.items()):
        if path not in beside and "imatrix" not in PurePosixPath(path).name.lower():
            groups[_first_part(path)].append(file)
    whole = {
        first: parts for first, parts in groups.items() if len(parts) == len(split_parts(PurePosixPath(first).name))
    }
    variants = [
        ModelVariant(
            format="gguf",
            quantization=quantization_of(split_stem(PurePosixPath(first).name)),
            first=first,
            files=parts,
            projector=min(projectors, key=lambda file: projector_place(file.path), default=None),
            recommends=repository.find_file(GENERATION_CONFIG),
        )
        for first, parts in whole.items()
    ]
    return sorted(variants, key=lambda variant: (-variant.size_bytes, variant.first))


def _first_part(path: str) -> str:
    pure = PurePosixPath(path)
    return str(pure.with_name(split_parts(pure.name)[0]))


def _is_projector(path: str) -> bool:
    return kind_by_name(path) is CompanionKind.PROJECTOR


def _hint_for_adapter(bases: list[str]) -> str:
    base = f" of {bases[0]}" if bases else ""
    return f"Download the model{base}, and look for the adapter as GGUF: `roundhouse tune MODEL --lora FILE` adds that."


def _openvino_variants(files: Iterable[RepoFile]) -> list[ModelVariant]:
    there = [file for file in files if "/" not in file.path]
    names = {file.path for file in there}
    if not {"openvino_model.xml", "openvino_language_model.xml"} & names:
        return []
    own = [file for file in there if file.path.startswith("openvino_") and file.path.endswith((".xml", ".bin"))]
    return [ModelVariant(format="openvino", quantization="", first="", files=[*own, *_small_files_beside(there)])]


def _onnx_variants(files: Iterable[RepoFile]) -> list[ModelVariant]:
    all_files = list(files)
    folders = [
        PurePosixPath(file.path).parent for file in all_files if PurePosixPath(file.path).name == "genai_config.json"
    ]
    return [
        ModelVariant(
            format="onnx-genai",
            quantization=folder.name,
            first="" if str(folder) == "." else str(folder),
            files=[
                file for file in all_files if PurePosixPath(file.path).parent == folder and not _is_pickle(file.path)
            ],
        )
        for folder in sorted(folders)
    ]


def _safetensors_variants(files: Iterable[RepoFile]) -> list[ModelVariant]:
    there = [file for file in files if "/" not in file.path]
    weights = [file for file in there if file.path.endswith(".safetensors") and not file.path.startswith("adapter")]
    if not weights or "config.json" not in {file.path for file in there}:
        return []
    shards = [file for file in weights if not file.path.startswith("consolidated")]
    return [
        ModelVariant(
            format="safetensors", quantization="", first="", files=[*(shards or weights), *_small_files_beside(there)]
        )
    ]


def _small_files_beside(files: Iterable[RepoFile]) -> list[RepoFile]:
    return [
        file
        for file in files
        if file.path.endswith(_BESIDE) and file.size <= _MAX_BESIDE_BYTES and not file.path.startswith("README")
    ]


def _is_pickle(path: str) -> bool:
    return path.endswith(PICKLES)


_HASH = re.compile(r"[0-9a-f]{64}|[0-9a-f]{40}")


def initial_update(model: ModelInfo, origin: Origin, note: str = "") -> ModelUpdate:
    """Return what is known before the hub was asked."""
    path = Path(model.path)
    return ModelUpdate(
        model=model.name,
        repository=origin.repository,
        revision=_find_branch(_snapshot_folder(path, origin)),
        quantization="" if path.is_dir() else quantization_of(split_stem(path.name)) or model.quantization,
        state=Freshness.UNKNOWN,
        note=note,
    )


def compare_with_hub(model: ModelInfo, origin: Origin, there: Repository) -> ModelUpdate:
    """Return how what is here compares with a revision of its repository."""
    snapshot = _snapshot_folder(Path(model.path), origin)
    known_update = replace(initial_update(model, origin), modified=there.modified)
    pairs = [(file, there.find_file(file.relative_to(snapshot).as_posix())) for file in files_of(model)]
    matched_pairs = [(file, hub_file) for file, hub_file in pairs if hub_file is not None]
    if not matched_pairs:
        return replace(known_update, state=Freshness.GONE, note="The hub no longer has these files.")
    others = [hub_file for file, hub_file in matched_pairs if _is_other(file, hub_file)]
    if others:
        size = sum(hub_file.size for hub_file in others)
        return replace(
            known_update, state=Freshness.NEWER, files=[hub_file.path for hub_file in others], download_bytes=size
        )
    if not all(_HASH.fullmatch(file.resolve().name) for file, _ in matched_pairs):
        return replace(known_update, note="Only its size could be compared, which is the same.")
    return replace(known_update, state=Freshness.CURRENT)


def _is_other(file: Path, there: RepoFile) -> bool:
    file_name = file.resolve().name
    if there.etag and _HASH.fullmatch(file_name) and len(file_name) == len(there.etag):
        return file_name != there.etag
    return file.stat().st_size != there.size


def _snapshot_folder(path: Path, origin: Origin) -> Path:
    return path if path.is_dir() else path.parents[len(Path(origin.path).parts) - 1]


def _find_branch(snapshot: Path) -> str:
    """Return the branch that points to a snapshot; the default one for a snapshot that a branch has moved on from."""
    references = snapshot.parent.parent / "refs"
    for reference in sorted(references.rglob("*")):
        with contextlib.suppress(OSError, UnicodeDecodeError):
            if reference.is_file() and reference.read_text(encoding="ascii").strip() == snapshot.name:
                return reference.relative_to(references).as_posix()
    return "main"
