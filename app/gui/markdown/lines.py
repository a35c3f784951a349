"""What one line of Markdown is, seen alone: the patterns that decide where a block begins or ends."""

import re

import msgspec

_ITEM = re.compile(r"( *)([-*+]|\d{1,9}[.)])( +|$)")
_FENCE = re.compile(r"(`{3,}|~{3,}) *([^`]*)$")
_HEADING = re.compile(r"(#{1,6})(?: +(.*?))?(?: +#+)? *$")
_RULE = re.compile(r"([-*_])(?: *\1){2,} *$")
_DELIMITER = re.compile(r"\|? *:?-+:? *(\| *:?-+:? *)*\|? *$")
_TASK = re.compile(r"\[([ xX])\](?= )")
_BULLETS = ("•", "◦", "▪")
_CODE_INDENT = 4


class ListItem(msgspec.Struct, frozen=True, gc=False):
    """The start of a list item: where its marker stands, and where its content does."""

    column: int
    content: int
    sign: str
    rest: str

    @property
    def is_empty(self) -> bool:
        """Whether nothing follows the marker."""
        return not self.rest.strip()


def item_of(line: str) -> ListItem | None:
    """Return the list item `line` starts, if it starts one."""
    match = _ITEM.match(line)
    if match is None or _RULE.fullmatch(line.strip()):
        return None
    column, sign, gap = len(match[1]), match[2], match[3]
    width = len(gap) if 0 < len(gap) <= _CODE_INDENT else 1
    content = column + len(sign) + width
    return ListItem(column, content, sign, line[content:])


def marker_of(item: ListItem, depth: int) -> tuple[str, str]:
    """Return what to show before an item in `depth` lists, and its text without a task's box."""
    task = _TASK.match(item.rest)
    if task is not None:
        return ("☐" if task[1] == " " else "☑"), item.rest[4:]
    if item.sign[0].isdigit():
        return item.sign[:-1] + ".", item.rest
    return _BULLETS[min(depth, len(_BULLETS)) - 1], item.rest


def fence_of(text: str) -> tuple[str, str] | None:
    """Return the fence and its language if `text` opens a code block."""
    match = _FENCE.match(text)
    if match is None:
        return None
    words = match[2].split()
    return match[1], words[0].strip("{}.") if words else ""


def closes_fence(text: str, fence: str) -> bool:
    """Whether `text` ends the code block that `fence` opened."""
    return len(text) >= len(fence) and set(text) == {fence[0]}


def heading_of(text: str) -> tuple[int, str] | None:
    """Return level and text of a heading that starts with hashes."""
    match = _HEADING.match(text)
    return None if match is None else (len(match[1]), match[2] or "")


def is_rule(text: str) -> bool:
    """Whether `text` is a line across the column."""
    return _RULE.match(text) is not None


def underline_level(text: str) -> int:
    """Return the level of the heading `text` makes of the paragraph above it; 0 when it makes none."""
    bare = text.strip()
    if bare and set(bare) == {"="}:
        return 1
    return 2 if bare and set(bare) == {"-"} else 0


def is_delimiter(text: str, header: str) -> bool:
    """Whether `text` below `header` starts a table."""
    return "|" in header and "-" in text and _DELIMITER.match(text) is not None


def indent_of(line: str) -> int:
    """Return how many blanks stand before the first word."""
    return len(line) - len(line.lstrip(" "))
