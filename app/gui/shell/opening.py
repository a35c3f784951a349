"""What the window is asked to open from outside: files that were double-clicked, and `roundhouse://` links.

A link can come from any web page, so it is read like anything from the network: nothing it says is done at once. A
repository is looked up and shown with its size and terms, and a person presses Download; a chat is only opened.

    roundhouse://pull/owner/name          show this repository, ready to download
    roundhouse://chat?model=NAME          a new chat with a model that is here
"""

import re
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import SplitResult, parse_qs, unquote, urlsplit

SCHEME = "roundhouse"
MOST_ARGUMENTS, LONGEST = 16, 4096
_PART = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,95}")
_LONGEST_NAME = 256


@dataclass(frozen=True, slots=True)
class OpenFile:
    """List a model file where it lies."""

    path: Path


@dataclass(frozen=True, slots=True)
class FindModel:
    """Show a repository of the hub."""

    repository: str


@dataclass(frozen=True, slots=True)
class ChatWith:
    """Start a chat; an empty name is the usual model."""

    model: str


@dataclass(frozen=True, slots=True)
class NotOpened:
    """What was asked cannot be done; the sentence says why."""

    sentence: str


Opening = OpenFile | FindModel | ChatWith | NotOpened


def openings(arguments: list[str], folder: Path) -> list[Opening]:
    """Return what a program's arguments ask for. Relative files are meant from `folder`; options are not ours."""
    asked = [argument for argument in arguments if argument and not argument.startswith("-")]
    return [_opening(argument, folder) for argument in asked[:MOST_ARGUMENTS]]


def _opening(argument: str, folder: Path) -> Opening:
    if len(argument) > LONGEST or not argument.isprintable():
        return NotOpened("This link or file name is too long, or holds characters that cannot be shown.")
    try:
        parts = urlsplit(argument)
    except ValueError:
        return NotOpened(f"{argument!r} is not a link.")
    if parts.scheme == SCHEME:
        return _link(parts)
    return _file(Path(unquote(parts.path)) if parts.scheme == "file" else folder / argument)


def _link(parts: SplitResult) -> Opening:
    if parts.netloc == "pull":
        steps = unquote(parts.path).strip("/").split("/")
        if len(steps) == 2 and all(_PART.fullmatch(step) and ".." not in step for step in steps):  # noqa: PLR2004 -- owner and name
            return FindModel("/".join(steps))
        return NotOpened("This link names no model: it should end in owner/name.")
    if parts.netloc == "chat":
        model = parse_qs(parts.query).get("model", [""])[0].strip()
        if len(model) <= _LONGEST_NAME and model.isprintable():
            return ChatWith(model)
    return NotOpened("This version of Roundhouse cannot do what the link asks for.")


def _file(path: Path) -> Opening:
    if path.suffix.lower() != ".gguf":
        return NotOpened(f"{path.name} is not a model file: those end in .gguf.")
    if not path.is_file():
        return NotOpened(f"There is no file {path}.")
    return OpenFile(path)
