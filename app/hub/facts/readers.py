"""Which reader a path is for: a GGUF file, with its other parts, or a folder in one of the other formats."""

from pathlib import Path

import msgspec

from app.core.errors import BadRequest, NotFound
from app.core.model_facts import ModelFacts
from app.hub.facts.folders import read_folder
from app.hub.facts.gguf import facts_of_headers
from app.hub.gguf.header import GgufHeader, read_header
from app.hub.library.candidates import Candidate, candidate_for
from app.hub.sources import open_file


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
