"""Which reader a path is for: a GGUF file, with its other parts, or a folder in one of the other formats."""

from pathlib import Path

from app.core.errors import BadRequest, NotFound
from app.core.model_facts import ModelFacts
from app.hub import naming
from app.hub.candidates import Candidate, candidate_for
from app.hub.facts.gguf import facts_of_header
from app.hub.gguf_header import GgufHeader, read_header
from app.hub.sources import open_file


def read_facts(path: Path) -> ModelFacts:
    """Return what the files of a model say: a GGUF file (a part stands for the whole), or a model folder.

    Raises NotFound (model_not_found), or BadRequest with code model_corrupt, model_unsupported or model_unreadable.
    """
    return gguf_facts(candidate_for(path))


def gguf_facts(candidate: Candidate) -> ModelFacts:
    """Return the facts of all parts of a GGUF model together. Raises NotFound or BadRequest."""
    headers = [_header(part, candidate) for part in candidate.parts]
    first = headers[0]
    tensors = [tensor for header in headers for tensor in header.tensors]
    whole = GgufHeader(first.values, tensors, first.tokens, first.has_infill_tokens, first.file_bytes, None)
    file_bytes = sum(header.file_bytes for header in headers)
    return facts_of_header(whole, name=candidate.stem, file_bytes=file_bytes)


def _header(part: Path, candidate: Candidate) -> GgufHeader:
    try:
        with open_file(part) as source:
            header = read_header(source)
    except NotFound:
        if len(candidate.parts) == 1:
            raise
        raise NotFound(
            f"{part.name} is missing; the model has {len(candidate.parts)} parts.",
            hint="Download the missing part.",
            code="model_not_found",
        ) from None
    if part == candidate.first:
        _check_is_model(header, part)
    return header


def _check_is_model(header: GgufHeader, path: Path) -> None:
    kind, architecture = (header.values.get(f"general.{key}", "") for key in ("type", "architecture"))
    is_model = naming.is_model_kind(str(kind), str(architecture))
    if not is_model and not naming.is_projector_kind(str(kind), str(architecture)):
        raise BadRequest(
            f"{path.name} belongs to another model and cannot be loaded by itself.",
            hint="Name the model itself.",
            code="model_unsupported",
        )
