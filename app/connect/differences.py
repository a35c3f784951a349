"""The change to a file as people read it: a unified diff in which keys of other services are masked."""

import difflib
import re

from app.connect.tool import KEY

_SECRET = re.compile(
    r"(?i)([\w-]*(?:key|token|secret|password|credential)[\w-]*[\"']?\s*[:=]\s*)([\"']?)"
    r"(?!(?:true|false|null|\d+)\s*[,}\]]|[{\[])([^\"'\s,#]+(?:[^\"'\r\n,#]*[^\"'\s,#])?)"
)
"""A name of a secret, and its value; not what opens a table or list, nor what is no text in a document on one line."""
_SIGN = re.compile(r"\b(?:sk|ghp|gho|xox[a-z]|AIza|hf)[-_][\w-]{8,}")
_NOT_SECRET = {KEY, "true", "false", "null"}
_MASK = "••••"


def difference(path: str, before: str, after: str) -> str:
    """Return the unified diff from `before` to `after`; empty when they are the same."""
    old, new = before.splitlines(), after.splitlines()
    if old == new:
        return ""
    lines = difflib.unified_diff(old, new, fromfile=path, tofile=path, lineterm="")
    return "\n".join(map(_mask_line, lines))


def _mask_line(line: str) -> str:
    if line.startswith(("---", "+++", "@@")):
        return line
    return _SIGN.sub(_MASK, _SECRET.sub(_mask_match, line))


def _mask_match(match: re.Match[str]) -> str:
    if match[3] in _NOT_SECRET or match[3].isdigit():
        return match[0]
    return match[1] + match[2] + _MASK
