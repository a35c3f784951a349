"""What the library shows of a GGUF file, from its header."""

from collections.abc import Mapping
from pathlib import Path

import msgspec

from app.core.capabilities import Capability, in_order
from app.hub.gguf.header import GgufHeader, read_header
from app.hub.gguf.tables import FILE_TYPES
from app.hub.gguf.values import MAX_NUMBER, Value, corrupt_error
from app.hub.sources import open_file


class GgufFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What one GGUF file says of itself. `kind` is `general.type`: "model", "adapter", "mmproj", ... or empty."""

    architecture: str
    kind: str
    name: str
    quantization: str
    trained_context: int | None
    parameters: int
    capabilities: list[Capability]
    tensor_count: int
    split_count: int
    file_bytes: int
    data_end: int | None
    """Where the last tensor ends, if every tensor type is known."""

    @property
    def missing_bytes(self) -> int:
        """How much of the file is not there: an interrupted download, usually."""
        return 0 if self.data_end is None else max(0, self.data_end - self.file_bytes)


def read_gguf(path: Path) -> GgufFacts:
    """Return what the file's header says.

    Raises NotFound (model_not_found), or BadRequest with code model_corrupt, model_unsupported or model_unreadable.
    """
    with open_file(path) as source:
        return _build_facts(read_header(source, with_tensors=False))


def _build_facts(header: GgufHeader) -> GgufFacts:
    values = header.values
    architecture = _text_value(values, "general.architecture")
    is_later_part = _integer_value(values, "split.no") > 0  # gguf-split leaves all else to the first
    if not architecture and not is_later_part:
        raise corrupt_error("it does not say what kind of model it is")
    return GgufFacts(
        architecture=architecture,
        kind=_text_value(values, "general.type"),
        name=_text_value(values, "general.name").strip(),
        quantization=FILE_TYPES.get(_integer_value(values, "general.file_type", default=-1), ""),
        trained_context=_integer_value(values, f"{architecture}.context_length") or None,
        parameters=header.elements,
        capabilities=_find_capabilities(header),
        tensor_count=header.tensor_count,
        split_count=_integer_value(values, "split.count"),
        file_bytes=header.file_bytes,
        data_end=header.data_end,
    )


def _find_capabilities(header: GgufHeader) -> list[Capability]:
    from app.hub.facts.capabilities import header_capabilities  # noqa: PLC0415 -- the gateway starts without it

    return in_order(map(Capability, header_capabilities(header)))


def _text_value(values: Mapping[str, Value], key: str) -> str:
    value = values.get(key, "")
    return value if isinstance(value, str) else ""


def _integer_value(values: Mapping[str, Value], key: str, *, default: int = 0) -> int:
    """Return a number that is not negative and that a reader of our JSON can hold; anything else is the default."""
    value = values.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MAX_NUMBER else default
