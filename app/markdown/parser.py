"""The one parser of Markdown: CommonMark with tables and strikethrough, and formulas as tokens.

HTML is not interpreted. A formula is read before its backslashes are taken for escapes, and one on lines of its own
before those are taken for anything else.

    formula, formula_block    `content` is what is drawn, `markup` how it was written
"""

from functools import cache

from markdown_it import MarkdownIt
from markdown_it.rules_block import StateBlock
from markdown_it.rules_inline import StateInline

from app.markdown.formulas import LONGEST, block_closing, block_tex, ends_block, match_formula


@cache
def markdown_parser() -> MarkdownIt:
    """Return the parser. Where it renders HTML, lines of a paragraph stay lines."""
    parser = MarkdownIt("commonmark", {"html": False, "breaks": True}).enable(["table", "strikethrough"])
    parser.inline.ruler.before("escape", "formula", _read_formula)
    interruptible = ["paragraph", "reference", "blockquote", "list"]
    parser.block.ruler.before("fence", "formula_block", _read_block, {"alt": interruptible})
    return parser


def _read_formula(state: StateInline, silent: bool) -> bool:  # noqa: FBT001 -- markdown-it's signature
    """Take a formula at the present place."""
    if state.src[state.pos] not in "\\$":
        return False
    formula = match_formula(state.src, state.pos, state.posMax)
    if formula is None:
        return False
    if not silent:
        token = state.push("formula", "", 0)
        token.content, token.markup = formula.tex, state.src[formula.start : formula.end]
        token.meta = {"is_display": formula.is_display}
    state.pos = formula.end
    return True


def _read_block(state: StateBlock, start: int, end: int, silent: bool) -> bool:  # noqa: FBT001 -- as above
    """Take a formula that begins with this line and ends with one before line `end`."""
    first = _line_of(state, start)
    closing_mark = None if state.is_code_block(start) else block_closing(first)
    if closing_mark is None:
        return False
    lines, stop = _lines_until(state, closing_mark, start, end)
    rest = lines[-1][stop:]
    if not stop or (rest and len(lines) == 1):
        return False  # it never ends, or a sentence goes on behind it
    last = start + len(lines) - 1
    if not silent:
        source = "\n".join([*lines[:-1], lines[-1][:stop]])
        token = state.push("formula_block", "", 0)
        token.content, token.markup, token.map = block_tex(source), source, [start, last + 1]
        _push_paragraph(state, rest, last)
    state.line = last + 1
    return True


def _lines_until(state: StateBlock, closing_mark: str, start: int, end: int) -> tuple[list[str], int]:
    """Return the lines from `start` to that with `closing`, and where in it the formula is over; 0 if it never is."""
    unended_formulas: dict[str, int] = state.env.setdefault("unended formulas", {})
    lines = [_line_of(state, start)]
    stop, at, size = ends_block(lines[0], closing_mark, start=2), start, 0
    if not stop and start < unended_formulas.get(closing_mark, 0):
        return lines, 0  # another began before it and was read this far: long texts are not read again for each
    while not stop and at + 1 < end and size <= LONGEST and _goes_on(state, at + 1):
        at += 1
        lines.append(_line_of(state, at))
        size += len(lines[-1]) + 1
        stop = ends_block(lines[-1], closing_mark)
    if not stop:
        unended_formulas[closing_mark] = at
    return lines, stop


def _goes_on(state: StateBlock, line: int) -> bool:
    """Tell whether a line can be part of a formula that began before it: it is in the same list, and no code begins."""
    return state.isEmpty(line) or (
        state.sCount[line] >= state.blkIndent and not _line_of(state, line).startswith(("```", "~~~"))
    )


def _line_of(state: StateBlock, line: int) -> str:
    return state.src[state.bMarks[line] + state.tShift[line] : state.eMarks[line]].rstrip()


def _push_paragraph(state: StateBlock, text: str, line: int) -> None:
    """Add what stands behind a formula in its last line as a paragraph."""
    if not text:
        return
    state.push("paragraph_open", "p", 1).map = [line, line + 1]
    inline = state.push("inline", "", 0)
    inline.content, inline.map, inline.children = text, [line, line + 1], []
    state.push("paragraph_close", "p", -1)
