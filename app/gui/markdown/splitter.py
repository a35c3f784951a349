"""Cuts Markdown into pieces while it arrives, one line at a time, and never looks at a line again.

    text ──feed──> finished pieces (frozen for good)     tail() ──> the few pieces the last lines would make now

What a new line can change is bounded: a piece is closed as soon as it is long, whatever block it is in, so a paragraph
of 100 kB or a program of 5,000 lines costs as little per word at its end as at its beginning.

What one line of Markdown is, seen alone: the patterns that decide where a block begins or ends.
"""

import re
from dataclasses import dataclass, field, replace

import msgspec

from app.gui.markdown.pieces import MarkdownPiece, PieceKind, close_open_marks
from app.markdown.formulas import LONGEST, block_closing, ends_block, find_formulas, half_formula_at

_ITEM = re.compile(r"( *)([-*+]|\d{1,9}[.)])( +|$)")
_FENCE = re.compile(r"(`{3,}|~{3,}) *([^`]*)$")
_HEADING = re.compile(r"(#{1,6})(?: +(.*))?$")
_RULE = re.compile(r"([-*_])(?: *\1){2,} *$")
_DELIMITER = re.compile(r"\|? *+:?-++:? *+(?:\| *+:?-++:? *+)*+(?:\| *+)?$")
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
    if match is None:
        return None
    title = (match[2] or "").strip(" ")
    before, _, last = title.rpartition(" ")
    return len(match[1]), before.rstrip(" ") if before and not last.strip("#") else title


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


LONG_TEXT = 1600
"""Characters after which a paragraph goes on in a new piece: about twenty lines, laid out in under a millisecond."""
LONG_CODE = 24
"""Lines of code after which a piece is closed at the next gap in the code, and at one and a half times that anyway."""
LONG_TABLE = 24
"""Rows of a table in one piece, its header and delimiter included."""

_UNSEEN = dict.fromkeys([*range(9), 11, 12, *range(14, 32), 127], "�") | {13: None}
"""Control characters have no shape: a random model's noise would send Qt through every font there is."""
_ENDS = (". ", "? ", "! ", "。", "; ", ", ", " ")


class MarkdownSplitter:
    """One message being read. `feed` returns the pieces it finished; `preview_tail` those that can still change."""

    def __init__(self, *, is_literal: bool = False, quote: int = 0) -> None:
        self._is_literal = is_literal
        self._quote = quote
        self._out: list[MarkdownPiece] = []
        self._partial = ""
        self._open_lines: list[str] = []
        self._open_size = 0
        self._block = _OpenBlock(PieceKind.TEXT)
        self._levels: list[tuple[int, int]] = []
        self._depth = 0
        self._marker = ""
        self._group = 0
        self._inner: MarkdownSplitter | None = None
        self._is_preview = False
        self._ignores_formulas = False

    def feed(self, text: str) -> list[MarkdownPiece]:
        """Take the next characters; return the pieces they completed."""
        *complete, self._partial = (self._partial + text.translate(_UNSEEN)).split("\n")
        for line in complete:
            self._take_whole(line)
        while len(self._partial) > LONG_TEXT * 2:
            self._partial = self._cut_line(self._partial)
        return self._drain_pieces()

    def finish(self) -> list[MarkdownPiece]:
        """Take the end of the message; return the pieces that were still open."""
        if self._partial:
            self._take_whole(self._partial)
            self._partial = ""
        if self._block.kind is PieceKind.MATH and not self._is_preview:
            self._abandon_formula()
        self._close_block()
        return self._drain_pieces()

    def preview_tail(self) -> list[MarkdownPiece]:
        """Return the open pieces as they would be if the message ended here. Changes nothing."""
        copy = self._copy_state()
        if set(copy._partial.strip()) <= {"`"} and copy._block.fence == "":  # noqa: SLF001 -- another of this class
            copy._partial = ""  # noqa: SLF001 -- half a fence is not text
        pieces = copy.finish()
        if pieces and pieces[-1].kind in {PieceKind.TEXT, PieceKind.HEADING} and not self._is_literal:
            pieces[-1] = _close_tail(pieces[-1])
        return pieces

    def _copy_state(self) -> "MarkdownSplitter":
        copy = MarkdownSplitter(is_literal=self._is_literal, quote=self._quote)
        copy.__dict__.update(self.__dict__)
        copy._out, copy._open_lines, copy._levels = [], self._open_lines[:], self._levels[:]
        copy._block = replace(self._block)
        copy._is_preview = True
        copy._inner = self._inner._copy_state() if self._inner else None  # noqa: SLF001 -- another of this class
        return copy

    def _drain_pieces(self) -> list[MarkdownPiece]:
        pieces, self._out = self._out, []
        return pieces

    def _take_whole(self, line: str) -> None:
        while len(line) > LONG_TEXT * 2:
            line = self._cut_line(line)
        self._take_line(line)

    def _take_line(self, line: str) -> None:
        if self._block.kind is PieceKind.CODE:
            self._take_code(line)
        elif self._block.kind is PieceKind.MATH:
            self._take_formula(line)
        elif not line.strip():
            self._close_block()
        elif self._is_literal:
            self._take_literal(line)
        else:
            self._take_text(line.expandtabs(_CODE_INDENT))

    def _take_text(self, line: str) -> None:
        if line.lstrip(" ").startswith(">") and indent_of(line) < _CODE_INDENT + self._content_column():
            self._take_quote(line)
            return
        self._close_quote()
        item = self._match_item(line)
        if item is not None:
            self._open_item(item)
        elif not self._start_block(line):
            self._leave_lists(line)
            self._hold_line(line.lstrip(" "))

    def _take_literal(self, line: str) -> None:
        fence = fence_of(line.strip())
        if fence is not None:
            self._open_code(line, *fence)
        else:
            self._hold_line(line)

    def _take_quote(self, line: str) -> None:
        if self._inner is None:
            self._close_block()
            self._leave_lists(line)
            self._inner = MarkdownSplitter(quote=self._quote + 1)
            self._inner._depth = self._depth + len(self._levels)  # noqa: SLF001 -- another of this class
            self._inner._group = self._group  # noqa: SLF001 -- another of this class
        rest = line.lstrip(" ")[1:].removeprefix(" ")
        self._out += self._inner.feed(rest + "\n")

    def _close_quote(self) -> None:
        inner, self._inner = self._inner, None
        if inner is not None:
            self._out += inner.finish()
            self._group = inner._group  # noqa: SLF001 -- another of this class

    def _match_item(self, line: str) -> ListItem | None:
        item = item_of(line)
        if item is None or (not self._levels and item.column >= _CODE_INDENT):
            return None
        interrupts = bool(self._open_lines) and not self._levels
        if interrupts and (item.is_empty or (item.sign[0].isdigit() and item.sign[:-1] != "1")):
            return None
        return item

    def _open_item(self, item: ListItem) -> None:
        self._close_block()
        while self._levels and item.column <= self._levels[-1][0] + 1:
            self._levels.pop()
        if self._marker:
            self._emit_piece("")
        self._levels.append((item.column, item.content))
        self._marker, rest = marker_of(item, len(self._levels))
        if not item.is_empty:
            self._take_text(" " * item.content + rest)

    def _start_block(self, line: str) -> bool:
        """Handle a line that ends a paragraph or turns it into something else; return False for plain text."""
        text = line.strip()
        return (
            self._start_formula(line, text)
            or self._take_underline(line, text)
            or self._start_table(text)
            or self._start_fence(line, text)
            or self._start_heading(line, text)
        )

    def _take_underline(self, line: str, text: str) -> bool:
        level = underline_level(text)
        is_inside = indent_of(line) >= self._content_column()
        if not (level and is_inside and self._open_lines and self._block.kind is PieceKind.TEXT):
            return False
        self._block = _OpenBlock(PieceKind.HEADING, level=level)
        self._close_block()
        return True

    def _start_table(self, text: str) -> bool:
        if self._block.kind is PieceKind.TEXT and self._open_lines and is_delimiter(text, self._open_lines[-1]):
            header = self._open_lines.pop()
            if self._open_lines:
                self._close_block()
            self._block = _OpenBlock(PieceKind.TABLE, head=[header, text])
            self._open_lines, self._open_size = [header, text], 0
            return True
        if self._block.kind is PieceKind.TABLE and "|" not in text:
            self._close_block()
        return False

    def _start_fence(self, line: str, text: str) -> bool:
        fence = fence_of(text)
        if fence is not None:
            self._open_code(line, *fence)
            return True
        deep = _CODE_INDENT + self._content_column()
        if indent_of(line) < deep or self._open_lines or self._marker or not self._block.is_first:
            return False
        self._open_code(" " * deep, "", "")
        self._take_code(line)
        return True

    def _start_heading(self, line: str, text: str) -> bool:
        heading = heading_of(text)
        if heading is None and not is_rule(text):
            return False
        self._close_block()
        self._leave_lists(line)
        kind = PieceKind.HEADING if heading else PieceKind.RULE
        self._block = _OpenBlock(kind, level=heading[0] if heading else 0)
        self._emit_piece(heading[1] if heading else "")
        return True

    def _open_code(self, line: str, fence: str, language: str) -> None:
        self._close_block()
        self._leave_lists(line)
        self._block = _OpenBlock(PieceKind.CODE, fence=fence, language=language, indent=indent_of(line + "x"))

    def _start_formula(self, line: str, text: str) -> bool:
        """Open a formula that stands by itself, or take all of it; one that a sentence goes on after is in a line."""
        closing_mark = None if self._ignores_formulas else block_closing(text)
        if closing_mark is None:
            return False
        end = ends_block(text, closing_mark, start=2)
        if 0 < end < len(text):
            return False
        self._close_block()
        self._leave_lists(line)
        self._block = _OpenBlock(PieceKind.MATH, fence=closing_mark)
        self._open_lines, self._open_size = [text], len(text)
        if end:
            self._close_block()
        return True

    def _take_formula(self, line: str) -> None:
        text, closing_mark = line.strip(), self._block.fence
        end = ends_block(text, closing_mark)
        if not end and (self._open_size > LONGEST or fence_of(text) is not None):
            self._abandon_formula()
            self._take_line(line)
            return
        self._open_lines.append(text[:end] if end else text)
        self._open_size += len(text) + 1
        if end:
            self._close_block()
            self._take_line(text[end:])

    def _abandon_formula(self) -> None:
        """Read what was taken for a formula that never ends as text."""
        lines, self._open_lines, self._block = self._open_lines, [], _OpenBlock(PieceKind.TEXT)
        self._ignores_formulas, self._open_size = True, 0
        for line in lines:
            self._take_line(line)
        self._ignores_formulas = False

    def _take_code(self, line: str) -> None:
        block = self._block
        text = line[min(block.indent, indent_of(line)) :]
        if not block.fence and text.strip() and indent_of(line) < block.indent:
            self._close_block()
            self._take_line(line)
        elif block.fence and closes_fence(text.strip(), block.fence):
            self._close_block()
        else:
            self._hold_line(text)

    def _hold_line(self, text: str) -> None:
        """Add a line to the open piece, and close the piece if it is long enough."""
        self._open_lines.append(text)
        self._open_size += len(text)
        if self._block.kind is PieceKind.CODE:
            if len(self._open_lines) >= LONG_CODE * 3 // 2 or (len(self._open_lines) >= LONG_CODE and not text.strip()):
                self._break_piece()
        elif self._block.kind is PieceKind.TABLE:
            if len(self._open_lines) >= LONG_TABLE:
                self._break_piece()
        elif self._open_size > LONG_TEXT * 2 or (self._open_size > LONG_TEXT and half_formula_at(text) is None):
            self._break_piece()

    def _cut_line(self, line: str) -> str:
        """Close the piece in the middle of a long line; return the rest of the line."""
        if self._block.kind is PieceKind.MATH:
            self._abandon_formula()
        at = _cut_at(line)
        head, rest = line[:at], line[at:]
        if self._block.kind is not PieceKind.CODE:
            lead = head[: len(head) - len(head.lstrip(" >"))]
            rest = (lead if ">" in lead else " " * self._content_column()) + rest
        self._take_line(head)
        if self._open_lines:
            self._break_piece()
        self._block.is_glued = self._inner is None
        return rest

    def _break_piece(self) -> None:
        """Close the piece, not its block."""
        self._emit_piece(self._piece_source(), is_last=False)
        self._block.is_first = False
        self._open_lines, self._open_size = list(self._block.head), 0

    def _close_block(self) -> None:
        """End the block."""
        self._close_quote()
        block = self._block
        if (
            len(self._open_lines) > len(block.head)
            or (self._open_lines and block.is_first)
            or block.kind is PieceKind.CODE
        ):
            self._emit_piece(self._piece_source())
        elif self._marker:
            self._emit_piece("")
        self._open_lines, self._open_size, self._block = [], 0, _OpenBlock(PieceKind.TEXT)

    def _piece_source(self) -> str:
        if self._block.kind is PieceKind.CODE and not self._block.fence:
            while self._open_lines and not self._open_lines[-1].strip():
                self._open_lines.pop()
        return "\n".join(self._open_lines)

    def _emit_piece(self, source: str, *, is_last: bool = True) -> None:
        block = self._block
        self._group += block.is_first
        is_half = block.kind is PieceKind.MATH and not ends_block(source, block.fence, start=2)
        self._out.append(
            MarkdownPiece(
                kind=PieceKind.TEXT if is_half else block.kind,
                source=source,
                group=self._group,
                level=block.level,
                depth=self._depth + len(self._levels),
                marker=self._marker,
                quote=self._quote,
                language=block.language,
                is_literal=self._is_literal or is_half,
                is_first=block.is_first,
                is_last=is_last,
                is_glued=block.is_glued,
            )
        )
        self._marker = ""
        block.is_glued = False
        if block.kind in {PieceKind.HEADING, PieceKind.RULE}:
            self._block = _OpenBlock(PieceKind.TEXT)

    def _leave_lists(self, line: str) -> None:
        """Drop the list levels a line is not in, unless it goes on with a paragraph."""
        if self._open_lines or self._marker:
            return
        indent = indent_of(line)
        while self._levels and indent <= self._levels[-1][0]:
            self._levels.pop()

    def _content_column(self) -> int:
        return self._levels[-1][1] if self._levels else 0


@dataclass(slots=True)
class _OpenBlock:
    """The block that is open: what its pieces will be."""

    kind: PieceKind
    level: int = 0
    fence: str = ""
    language: str = ""
    indent: int = 0
    head: list[str] = field(default_factory=list)
    is_first: bool = True
    is_glued: bool = False


def _cut_at(text: str) -> int:
    """Return where to cut a long line: after the last sentence, clause or word before the limit, in no formula."""
    ends = ((text.rfind(end, LONG_TEXT // 2, LONG_TEXT), len(end)) for end in _ENDS)
    at = next((at + length for at, length in ends if at >= 0), LONG_TEXT)
    around = (formula.start for formula in find_formulas(text[: LONG_TEXT * 2]) if formula.start < at < formula.end)
    return next(around, at) or at


def _close_tail(piece: MarkdownPiece) -> MarkdownPiece:
    """Return the last piece of a text still arriving, with nothing in it that flickers."""
    if piece.is_literal:
        return piece
    at = half_formula_at(piece.source)
    if at is None:
        return msgspec.structs.replace(piece, source=close_open_marks(piece.source))
    head = close_open_marks(piece.source[:at])
    return msgspec.structs.replace(piece, source=head, half_formula=piece.source[at:])
