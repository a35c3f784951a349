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


class _OfferContext(NamedTuple):
    """What a command may have to name. `origin` is how to pull the model, empty where that is not known."""

    model: str
    engine: str
    origin: str
    kind: FailureKind


def list_remedy_offers(model: str, failure: Failure, request: LoadRequest | None) -> list[RemedyOffer]:
    """Return what may help against a failure, each with the command that does it."""
    engine, place = ("", None) if request is None else (request.engine, request.source.path)
    context = _OfferContext(model=model, engine=engine, origin=_pull_name(place), kind=failure.kind)
    return [_build_offer(context, remedy) for remedy in failure.remedies]


def _build_offer(context: _OfferContext, remedy: Remedy) -> RemedyOffer:
    """Return a remedy with its command. Options that a load cannot choose are left to `mending`."""
    options = dict(remedy.options) if remedy.options.keys() <= set(LoadOptions.__struct_fields__) else {}
    is_load = bool(options) or remedy.kind is RemedyKind.LOAD_AGAIN
    words = ["load", context.model, *(word for name, value in options.items() for word in _option_flag(name, value))]
    command = _shell_command(*words) if is_load else _COMMANDS.get(remedy.kind, _no_command)(context)
    return RemedyOffer(kind=remedy.kind.value, label=remedy.label, command=command, options=options)


def _option_flag(name: str, value: float | str) -> tuple[str, str]:
    return (f"--{name.replace('_', '-')}", str(value))


def _shell_command(*words: str) -> str:
    return shlex.join(["roundhouse", *words])


def _command_template(*words: str) -> Callable[[_OfferContext], str]:
    return lambda context: _shell_command(*(word.format(engine=context.engine, model=context.model) for word in words))


def _no_command(_context: _OfferContext) -> str:
    return ""


def _download_command(context: _OfferContext) -> str:
    """Return how to have a model's files anew: what lies here whole is not fetched again, so it goes first."""
    if not context.origin:
        return _shell_command("search", context.model)
    pull = _shell_command("pull", context.origin)
    return f"{_shell_command('rm', context.model)} && {pull}" if context.kind in _DAMAGED else pull


def _pull_name(place: Path | None) -> str:
    origin = None if place is None else origin_of(place)
    if origin is None:
        return ""
    return f"{origin.repository}/{origin.path}" if PurePath(origin.path).suffix == _GGUF else origin.repository


_GGUF = ".gguf"
_DAMAGED = frozenset({FailureKind.MODEL_CORRUPT, FailureKind.BAD_TEMPLATE})
_COMMANDS: Mapping[RemedyKind, Callable[[_OfferContext], str]] = MappingProxyType(
    {
        RemedyKind.ALLOW_CODE: _command_template("tune", "{model}", "--allow-code"),
        RemedyKind.DOWNLOAD_AGAIN: _download_command,
        RemedyKind.FREE_DISK: _command_template("disk"),
        RemedyKind.FREE_MEMORY: _command_template("ps"),
        RemedyKind.INSTALL_AGAIN: _command_template("engines", "install", "{engine}"),
        RemedyKind.OTHER_MODEL: _command_template("list"),
        RemedyKind.OTHER_RUNTIME: _command_template("engines"),
        RemedyKind.RESET_OPTIONS: _command_template("tune", "{model}", "--reset"),
        RemedyKind.SIGN_IN: _command_template("token", "set"),
        RemedyKind.SMALLER_MODEL: _command_template("list"),
        RemedyKind.UPDATE_DRIVER: _command_template("doctor"),
        RemedyKind.UPDATE_ENGINE: _command_template("engines", "update", "{engine}"),
    }
)
"""What does it, or shows the way where a person has to choose."""
