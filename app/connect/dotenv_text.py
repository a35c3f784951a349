"""Files of variables (`.env`) as text: sets one of them and leaves every other byte as it is.

One variable a line, `NAME=value`, as dotenv's programs read it: quotes around a value and `export` before a name are
allowed, the last line of a name counts, `#` begins a comment. A value over several lines is left alone.
"""

import re
from collections.abc import Sequence

from app.connect.document_paths import Plain, Step, UnreadableSettings

_EMPTY = re.compile(r"\s*(?:#.*)?")
_LINE = re.compile(
    r"""\s*(?:export\s+)?(?P<name>[A-Za-z_][\w.-]*)\s*=\s*(?P<value>"[^"]*"|'[^']*'|[^"'\s#](?:[^#]*[^#\s])?|)\s*(?:#.*)?"""
)
_BARE = re.compile(r"[\w.:/@%+,~-]*")


def parse_text(text: str) -> Plain:
    """Return the variables; None for an empty file. Raises UnreadableSettings."""
    variables = {match["name"]: match["value"].strip("\"'") for match in _matches_in(text) if match is not None}
    return dict(variables) or None


def put(text: str, path: Sequence[Step], value: Plain) -> str:
    """Return `text` with a variable set to a text. Raises UnreadableSettings."""
    name = str(path[0])
    if not isinstance(value, str) or '"' in value or "\n" in value:
        raise UnreadableSettings(f"`{name}` cannot have that value.")
    written_value = value if _BARE.fullmatch(value) else f'"{value}"'
    lines, matches = text.splitlines(keepends=True), _matches_in(text)
    for at in reversed(range(len(lines))):
        match = matches[at]
        if match is not None and match["name"] == name:
            begin, end = match.span("value")
            return "".join([*lines[:at], lines[at][:begin] + written_value + lines[at][end:], *lines[at + 1 :]])
    end_of_line = "\r\n" if "\r\n" in text else "\n"
    gap = end_of_line if text.lstrip("\ufeff") and not text.endswith("\n") else ""
    return f"{text}{gap}{name}={written_value}{end_of_line}"


def _matches_in(text: str) -> list[re.Match[str] | None]:
    """Return what each line sets, None for one that sets nothing. Raises UnreadableSettings."""
    matches = []
    for at, line in enumerate(text.splitlines(), 1):
        begin = 1 if line.startswith("\ufeff") else 0
        match = _LINE.fullmatch(line, begin)
        if match is None and not _EMPTY.fullmatch(line, begin):
            raise UnreadableSettings(f"line {at} sets no variable.")
        matches.append(match)
    return matches
