"""Made models: names with settings over weights that are here already, as Ollama's `create` and `copy` make them.

Only the name and the settings are kept; the weights stay where they lie and are found by their path, so that a base
that is renamed in the list is still the same base.
"""

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from app.core.errors import BadRequest
from app.core.models import ModelInfo, Preset
from app.hub.library import naming
from app.hub.library.registry_file import VERSION, KeptFile

LONGEST_NAME = 200
_PART = r"[A-Za-z0-9_][A-Za-z0-9._-]*"
_NAME = re.compile(rf"{_PART}(?:/{_PART}){{0,2}}(?::{_PART})?")
"""`[host/][namespace/]model[:tag]`, as Ollama writes names."""


class Made(msgspec.Struct, frozen=True, kw_only=True):
    """One name. `path` is the first file of its weights, or the record of an attached endpoint; times in Unix s."""

    name: str
    path: str
    preset: Preset
    made_at: float


class _Content(msgspec.Struct):
    version: int
    models: list[Made]


class MadeModels:
    """The names that were made, in the order of making. Its library holds a lock around it."""

    def __init__(self, file: Path) -> None:
        self._kept = KeptFile(file, _Content, "The list of made models")

    def all(self) -> list[Made]:
        """Return every made model."""
        content = self._kept.read()
        return content.models if content else []

    def put(self, made: Made) -> None:
        """Keep one, in place of the one that had its name. Raises StorageFault."""
        self._write([*self._others(made.name), made])

    def remove(self, name: str) -> Made | None:
        """Forget one; return it, or None if there was none of that name. Raises StorageFault."""
        found = next((made for made in self.all() if naming.folded(made.name) == naming.folded(name)), None)
        if found is not None:
            self._write(self._others(name))
        return found

    def _others(self, name: str) -> list[Made]:
        return [made for made in self.all() if naming.folded(made.name) != naming.folded(name)]

    def _write(self, models: list[Made]) -> None:
        self._kept.write(_Content(version=VERSION, models=models))


def checked_name(name: str) -> str:
    """Return the name without the tag that every name has. Raises BadRequest for what no client could ask for."""
    plain = name.strip().removesuffix(":latest")
    if len(plain) > LONGEST_NAME or not _NAME.fullmatch(plain):
        raise BadRequest(
            f"invalid model name: {name[:80]!r}",
            hint="Names are letters, digits, dots, dashes and underscores, as in team/model:tag.",
            code="invalid_value",
        )
    return plain


def with_made(models: Sequence[ModelInfo], made: Iterable[Made], uploaded: dict[str, ModelInfo]) -> list[ModelInfo]:
    """Return the models with the made ones. `uploaded` are those whose weights are nobody else's, by path."""
    listed, bases = list(models), {model.path: model for model in models}
    for one in made:
        base = bases.get(one.path)
        if base is None and one.path in uploaded:
            listed.append(_over(uploaded[one.path], one, base=""))
            bases[one.path] = msgspec.structs.replace(uploaded[one.path], name=one.name)
        elif base is not None:
            listed.append(_over(base, one, base=base.name))
        else:
            listed.append(_orphan(one))
    return listed


def _over(model: ModelInfo, made: Made, *, base: str) -> ModelInfo:
    return msgspec.structs.replace(
        model,
        name=made.name,
        title=made.name,
        is_builtin=False,
        modified_at=made.made_at,
        preset=msgspec.structs.replace(made.preset, base=base),
    )


def _orphan(made: Made) -> ModelInfo:
    return ModelInfo(
        name=made.name,
        title=made.name,
        path=made.path,
        format="gguf",
        size_bytes=0,
        preset=made.preset,
        modified_at=made.made_at,
        problem=f"The model it was made from, {made.preset.base or Path(made.path).name}, is no longer here.",
    )
