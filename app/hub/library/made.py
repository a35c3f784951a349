"""Made models: names with settings over weights that are here already, as Ollama's `create` and `copy` make them.

Only the name and the settings are kept; the weights stay where they lie and are found by their path, so that a base
that is renamed in the list is still the same base.
"""

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from app.core.errors import BadRequest, quote_value
from app.core.models import ModelInfo, Preset
from app.hub.library import naming
from app.hub.library.registry_file import VERSION, JsonFile

LONGEST_NAME = 200
_PART = r"[A-Za-z0-9_][A-Za-z0-9._-]*"
_NAME = re.compile(rf"{_PART}(?:/{_PART}){{0,2}}(?::{_PART})?")
"""`[host/][namespace/]model[:tag]`, as Ollama writes names."""


class MadeModel(msgspec.Struct, frozen=True, kw_only=True):
    """One name. `path` is the first file of its weights, or the record of an attached endpoint; times in Unix s."""

    name: str
    path: str
    preset: Preset
    made_at: float


class _MadeContent(msgspec.Struct):
    version: int
    models: list[MadeModel]


class MadeModelStore:
    """The names that were made, in the order of making. Its library holds a lock around it."""

    def __init__(self, file: Path) -> None:
        self._json_file = JsonFile(file, _MadeContent, "the list of made models")

    def list_models(self) -> list[MadeModel]:
        """Return every made model."""
        content = self._json_file.read_value()
        return content.models if content else []

    def put_model(self, made_model: MadeModel) -> None:
        """Keep one, in place of the one that had its name. Raises StorageFault."""
        self._write_models([*self._all_but(made_model.name), made_model])

    def remove_model(self, name: str) -> MadeModel | None:
        """Forget one; return it, or None if there was none of that name. Raises StorageFault."""
        model = next(
            (
                made_model
                for made_model in self.list_models()
                if naming.fold_name(made_model.name) == naming.fold_name(name)
            ),
            None,
        )
        if model is not None:
            self._write_models(self._all_but(name))
        return model

    def _all_but(self, name: str) -> list[MadeModel]:
        return [
            made_model
            for made_model in self.list_models()
            if naming.fold_name(made_model.name) != naming.fold_name(name)
        ]

    def _write_models(self, models: list[MadeModel]) -> None:
        self._json_file.write_value(_MadeContent(version=VERSION, models=models))


def check_name(name: str) -> str:
    """Return the name without the tag that every name has. Raises BadRequest for what no client could ask for."""
    plain = name.strip().removesuffix(":latest")
    if len(plain) > LONGEST_NAME or not _NAME.fullmatch(plain):
        raise BadRequest(
            f"invalid model name: {quote_value(name)}",
            hint="Names are letters, digits, dots, dashes and underscores, as in team/model:tag.",
            code="invalid_value",
        )
    return plain


def add_made_models(
    models: Sequence[ModelInfo], made_models: Iterable[MadeModel], uploaded_models: dict[str, ModelInfo]
) -> list[ModelInfo]:
    """Return the models with the made ones. `uploaded` are those whose weights are nobody else's, by path."""
    listing, bases = list(models), {model.path: model for model in models}
    for made_model in made_models:
        base = bases.get(made_model.path)
        if base is None and made_model.path in uploaded_models:
            listing.append(_apply_preset(uploaded_models[made_model.path], made_model, base=""))
            bases[made_model.path] = msgspec.structs.replace(uploaded_models[made_model.path], name=made_model.name)
        elif base is not None:
            listing.append(_apply_preset(base, made_model, base=base.name))
        else:
            listing.append(_orphan_model(made_model))
    return listing


def _apply_preset(model: ModelInfo, made_model: MadeModel, *, base: str) -> ModelInfo:
    return msgspec.structs.replace(
        model,
        name=made_model.name,
        title=made_model.name,
        is_builtin=False,
        modified_at=made_model.made_at,
        preset=msgspec.structs.replace(made_model.preset, base=base),
    )


def _orphan_model(made_model: MadeModel) -> ModelInfo:
    base = made_model.preset.base or Path(made_model.path).name
    return ModelInfo(
        name=made_model.name,
        title=made_model.name,
        path=made_model.path,
        format="gguf",
        size_bytes=0,
        preset=made_model.preset,
        modified_at=made_model.made_at,
        problem=f"The model it was made from, {base}, is no longer here.",
    )
