"""What may help against a failure, as an offer with the command that does it."""

import shlex
from collections.abc import Callable, Mapping
from pathlib import Path, PurePath
from types import MappingProxyType
from typing import NamedTuple

from app.core.engines import RemedyOffer
from app.core.models import LoadOptions
from app.core.origins import origin_of
from app.supervisor.policy import LoadRequest
from engines.api import Failure, FailureKind, Remedy, RemedyKind


class _About(NamedTuple):
    """What a command may have to name. `origin` is how to pull the model, empty where that is not known."""

    model: str
    engine: str
    origin: str
    kind: FailureKind


def offers(model: str, failure: Failure, request: LoadRequest | None) -> list[RemedyOffer]:
    """Return what may help against a failure, each with the command that does it."""
    engine, place = ("", None) if request is None else (request.engine, request.source.path)
    about = _About(model=model, engine=engine, origin=_pull_name(place), kind=failure.kind)
    return [_offered(about, remedy) for remedy in failure.remedies]


def _offered(about: _About, remedy: Remedy) -> RemedyOffer:
    """Return a remedy with its command. Options that a load cannot choose are left to `mending`."""
    options = dict(remedy.options) if remedy.options.keys() <= set(LoadOptions.__struct_fields__) else {}
    is_load = bool(options) or remedy.kind is RemedyKind.LOAD_AGAIN
    words = ["load", about.model, *(word for name, value in options.items() for word in _flag(name, value))]
    command = _command(*words) if is_load else _COMMANDS.get(remedy.kind, _says_nothing)(about)
    return RemedyOffer(kind=remedy.kind.value, label=remedy.label, command=command, options=options)


def _flag(name: str, value: float | str) -> tuple[str, str]:
    return (f"--{name.replace('_', '-')}", str(value))


def _command(*words: str) -> str:
    return shlex.join(["roundhouse", *words])


def _says(*words: str) -> Callable[[_About], str]:
    return lambda about: _command(*(word.format(engine=about.engine, model=about.model) for word in words))


def _says_nothing(_about: _About) -> str:
    return ""


def _download(about: _About) -> str:
    """Return how to have a model's files anew: what lies here whole is not fetched again, so it goes first."""
    if not about.origin:
        return _command("search", about.model)
    pull = _command("pull", about.origin)
    return f"{_command('rm', about.model)} && {pull}" if about.kind in _DAMAGED else pull


def _pull_name(place: Path | None) -> str:
    origin = None if place is None else origin_of(place)
    if origin is None:
        return ""
    return f"{origin.repository}/{origin.path}" if PurePath(origin.path).suffix == _GGUF else origin.repository


_GGUF = ".gguf"
_DAMAGED = frozenset({FailureKind.MODEL_CORRUPT, FailureKind.BAD_TEMPLATE})
_COMMANDS: Mapping[RemedyKind, Callable[[_About], str]] = MappingProxyType(
    {
        RemedyKind.ALLOW_CODE: _says("tune", "{model}", "--allow-code"),
        RemedyKind.DOWNLOAD_AGAIN: _download,
        RemedyKind.FREE_DISK: _says("disk"),
        RemedyKind.FREE_MEMORY: _says("ps"),
        RemedyKind.INSTALL_AGAIN: _says("engines", "install", "{engine}"),
        RemedyKind.OTHER_MODEL: _says("list"),
        RemedyKind.OTHER_RUNTIME: _says("engines"),
        RemedyKind.RESET_OPTIONS: _says("tune", "{model}", "--reset"),
        RemedyKind.SIGN_IN: _says("token", "set"),
        RemedyKind.SMALLER_MODEL: _says("list"),
        RemedyKind.UPDATE_DRIVER: _says("doctor"),
        RemedyKind.UPDATE_ENGINE: _says("engines", "update", "{engine}"),
    }
)
"""What does it, or shows the way where a person has to choose."""
