"""From what people call a model to its facts: one of the library, a file or folder, a well-known name, a repository."""

import asyncio
import logging
import re
import time
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import msgspec

from app.config.environment import hub_endpoint
from app.config.paths import expand_path
from app.core.errors import BadRequest, Forbidden, NotFound, RoundhouseError, Unauthorized, Unavailable, quote_value
from app.core.model_facts import ModelFacts
from app.core.models import ModelInfo
from app.hub.library.library import Library

log = logging.getLogger(__name__)

_KEPT = 64
USUAL_QUANTIZATION = "Q4_K_M"
"""What a well-known name without a quantisation is taken to mean: the usual balance of size and quality."""
ASKED_AGAIN_S = 60.0
"""How long a hub that could not be reached is left alone where its model is known by name."""
_PAGE = re.compile(r"^(?:https?://)?(?:www\.)?(?:hf\.co|huggingface\.co)/(?=[^/]+/[^/]+/?$)", re.IGNORECASE)
"""A repository as its page's address, or as Ollama writes it."""
_REPOSITORY = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*(?::[\w.-]+)?")
_Stamp = tuple[str, int, int]


class FactsReader:
    """Reads headers once per file and change. Its methods read disks, so they run in a thread."""

    def __init__(self, library: Library) -> None:
        self._library = library
        self._facts_by_stamp: OrderedDict[_Stamp, ModelFacts] = OrderedDict()
        self._unreachable_until = 0.0

    async def find(self, name: str) -> ModelFacts:
        """Return the facts of what `name` means. Raises NotFound (model_not_found) or BadRequest."""
        return await asyncio.to_thread(self._find_facts, name.strip())

    async def of_file(self, path: Path) -> ModelFacts:
        """Return the facts of a model file or folder. Raises NotFound or BadRequest."""
        return await asyncio.to_thread(self.read, path)

    def read(self, path: Path) -> ModelFacts:
        """Do the same where this is a thread already."""
        from app.hub.facts import read_facts  # noqa: PLC0415 -- the gateway starts without it

        return self._read_cached(_stamp(path), lambda: read_facts(path))

    async def of_model(self, model: ModelInfo) -> ModelFacts | None:
        """Return what a model's own files say of it; None for one that is attached or cannot be read."""
        return await asyncio.to_thread(self.read_model, model)

    def read_model(self, model: ModelInfo) -> ModelFacts | None:
        """Do the same where this is a thread already."""
        if model.attached:
            return None
        try:
            return self.read(Path(model.path))
        except (RoundhouseError, OSError) as error:
            log.info("The facts of %s cannot be read: %s", model.name, error)
            return None

    def _find_facts(self, name: str) -> ModelFacts:
        if not name:
            raise BadRequest("No model was given.", hint="Name a model, a file or a folder.", code="model_required")
        path = expand_path(name)
        if path.is_absolute() and path.exists():
            return self.read(path)
        library_facts = self._in_library(name)
        if library_facts is not None:
            return library_facts
        name = _PAGE.sub("", name)
        if "://" in name or _REPOSITORY.fullmatch(name):
            return self._in_repository(name.rstrip("/"))
        return _facts_by_name(name) or _raise_not_found(name)

    def is_here(self, name: str) -> bool:
        """Whether `name` means a file of this machine."""
        path = expand_path(name)
        return (path.is_absolute() and path.exists()) or self._in_library(name) is not None

    def _in_library(self, name: str) -> ModelFacts | None:
        try:
            model = self._library.find_model(name)
        except NotFound:
            return None
        if model.attached:
            raise BadRequest(f"{model.name} is attached: only its endpoint knows its files.")
        return msgspec.structs.replace(self.read(Path(model.path)), name=model.title or model.name)

    def _in_repository(self, name: str) -> ModelFacts:
        """Return what the hub has; where it does not answer us, what is known of the model by that name."""
        from app.hub.facts.remote import read_remote_facts  # noqa: PLC0415 -- as above

        well_known = _facts_by_name(name) if "://" not in name else None
        if well_known is not None and time.monotonic() < self._unreachable_until:
            return well_known
        endpoint = hub_endpoint()
        try:
            return self._read_cached((f"{endpoint}/{name}", 0, 0), lambda: read_remote_facts(name, endpoint=endpoint))
        except (Unavailable, Unauthorized, Forbidden) as error:
            if isinstance(error, Unavailable):
                self._unreachable_until = time.monotonic() + ASKED_AGAIN_S
            if well_known is None:
                raise
            return well_known

    def _read_cached(self, stamp: _Stamp, read: Callable[[], ModelFacts]) -> ModelFacts:
        facts = self._facts_by_stamp.get(stamp)
        if facts is None:
            facts = read()
        self._facts_by_stamp[stamp] = facts
        self._facts_by_stamp.move_to_end(stamp)
        while len(self._facts_by_stamp) > _KEPT:
            self._facts_by_stamp.popitem(last=False)
        return facts


NATIVE_QUANTIZATION = {"gpt-oss": "MXFP4"}
"""Architectures published in one quantisation only, which everybody runs as it is."""


class WellKnownModel(NamedTuple):
    """A well-known model, the quantisation that was named with it, and the one it was published in, if only in one."""

    name: str
    quantization: str
    native: str = ""


def find_well_known(text: str) -> WellKnownModel | None:
    """Return the model whose shape we know by that name."""
    from app.hub.shapes import find_shape, split_name  # noqa: PLC0415 -- the gateway starts without it

    name, quantization = split_name(text)
    shape = find_shape(name)
    return (
        None if shape is None else WellKnownModel(name, quantization, NATIVE_QUANTIZATION.get(shape.architecture, ""))
    )


def _facts_by_name(text: str) -> ModelFacts | None:
    from app.hub.shapes import shape_facts  # noqa: PLC0415 -- as above

    well_known = find_well_known(text)
    if well_known is None:
        return None
    kind, quantization = format_and_quantization(
        text, well_known.quantization or well_known.native or USUAL_QUANTIZATION
    )
    return shape_facts(well_known.name, quantization, format=kind)


_FORMS = (
    ("exl3", r"exl3", "4.0bpw"),
    ("exl2", r"exl2|bpw", "4.0bpw"),
    ("awq", r"awq|w4a16", "4bit"),
    ("gptq", r"gptq", "4bit"),
    ("nvfp4", r"nvfp4", "NVFP4"),
    ("fp8", r"fp8|w8a8", "FP8"),
    ("openvino", r"openvino|(?<=int[48])-ov\b", "int4"),
    ("mlx", r"mlx|\d-?bit", "4bit"),
)
"""Format, what names of its files say, and the usual quantisation."""


def format_and_quantization(text: str, quantization: str) -> tuple[str, str]:
    """Return the format a name speaks of, and the quantisation as that format writes it."""
    lower_text, lowered_quantization = text.lower(), quantization.lower()
    for kind, words, usual in _FORMS:
        if re.search(words, lower_text):
            bits = re.match(r"\d(?:\.\d+)?(?=bpw|-?bit)|(?<=int)[48]", lowered_quantization)
            type_letters = usual.lstrip("0123456789.") if usual[0].isdigit() else ""
            return kind, f"{bits[0]}{type_letters}" if bits and type_letters and kind not in {"awq", "gptq"} else usual
    return "gguf", quantization


def _raise_not_found(name: str) -> ModelFacts:
    if re.match(r"[./~\\]|[A-Za-z]:\\", name) or name.endswith((".gguf", ".safetensors")):
        raise NotFound(f"There is no file or folder {name}.", code="model_not_found")
    raise NotFound(
        f"No model is known as {quote_value(name)}.",
        hint="`roundhouse list` lists the installed ones; a file, a model folder or a repository can be given too.",
        code="model_not_found",
    )


def _stamp(path: Path) -> _Stamp:
    """Return what changes when a file or folder does: its place, its size and its time."""
    try:
        status = path.stat()
    except OSError:
        return (str(path), 0, 0)
    return (str(path), status.st_size, status.st_mtime_ns)
