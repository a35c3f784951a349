r"""Formulas in a text: where they are, and how each is drawn.

`\(…\)`, `\[…\]` and `$$…$$` are formulas; `$…$` is one by rule, because a dollar also is money: nothing before it that
belongs to a word, no blank inside it at either end, and no prose between.

A drawing is an SVG made by mathra, imported when the first formula is drawn. What it cannot draw whole is no drawing,
and its source is shown.
"""

import re
from collections.abc import Iterator
from functools import lru_cache

import msgspec

LONGEST = 4000
"""Characters of a formula that is drawn; mathra takes 40 ms for the worst of them."""
SCALE = 1.12
"""Of a drawing's em to that of the text around it: mathematical faces are small on their body, and look as high so."""
_LONGEST_INLINE = 1000
_LONGEST_HALF = 200
"""Characters after a dollar that may still become a formula while they arrive."""
_WIDEST_EM, _HIGHEST_EM, _LARGEST_SVG = 300.0, 150.0, 400_000
"""Beyond these a drawing is no help to a reader, and a picture of it takes too much memory."""
_UNITS_PER_EM = 1000
_CLOSING = {"\\(": "\\)", "\\[": "\\]", "$$": "$$"}
_BLOCK = re.compile(r"(\\\[|\$\$(?!\$)|\\begin\{(equation|align|gather|multline|alignat|eqnarray)(\*?)\})")
_AFTER_BLOCK = " .,;:"
_WORDY = re.compile(r"\\(?:text|mathrm|operatorname|mbox|textbf|textit|texttt)\*?\{[^{}]*\}|\\[a-zA-Z]+")
_WORD = re.compile(r"[^\W\d_]{2,}")
_FUNCTION = re.compile(r"(?:sin|cos|tan|cot|sec|csc|log|ln|exp|max|min|lim|sup|inf|mod|gcd|lcm|det|dim|ker|deg|arg)")
_SIGNS = frozenset("\\^_=<>+*/|{}")
_SIGN, _RUN = re.compile(r"[\\$`]"), re.compile(r"`+")
_NAME = re.compile(r"[A-Za-z]{1,3}\d*'*")
_VIEW_BOX = re.compile(r'viewBox="([-\d.]+) ([-\d.]+) ([-\d.]+) ([-\d.]+)"')
_SHAPE_REFERENCE, _XLINK = re.compile(r"(?<=<use )href="), 'xmlns:xlink="http://www.w3.org/1999/xlink"'
_OWN_NAMESPACE = re.compile(r'xmlns:mathra="[^"]*"')
"""Qt knows references to shapes by their older name only."""
_UNDRAWN = ("title", "metadata", "style", "text")


class Formula(msgspec.Struct, frozen=True, gc=False):
    """A formula in a text: from where to where, what is between its delimiters, and whether it stands by itself."""

    start: int
    end: int
    tex: str
    is_display: bool


class FormulaDrawing(msgspec.Struct, frozen=True, gc=False):
    """What a formula looks like: an SVG in `currentColor`, its measures in em, and what a screen reader says."""

    svg: str
    width: float
    ascent: float
    descent: float
    speech: str


@lru_cache(maxsize=1024)
def _without_undrawn(svg: str) -> str:
    """Return a drawing without the elements that are not drawn; one without an end stays."""
    for name in _UNDRAWN:
        kept_parts, at, end = [], 0, f"</{name}>"
        while (start := svg.find(f"<{name}", at)) >= 0 and (stop := svg.find(end, start)) >= 0:
            kept_parts.append(svg[at:start])
            at = stop + len(end)
        svg = "".join([*kept_parts, svg[at:]])
    return svg


def draw_formula(tex: str, *, is_display: bool) -> FormulaDrawing | None:
    """Return how a formula looks; None for what cannot be drawn whole."""
    if len(tex) > LONGEST:
        return None
    import mathra  # noqa: PLC0415 -- only who reads formulas waits for it

    try:
        result = mathra.render(tex, display=is_display)
    except ValueError:
        return None
    if result["warnings"] or len(result["svg"]) > _LARGEST_SVG:
        return None
    svg = _SHAPE_REFERENCE.sub("xlink:href=", _without_undrawn(result["svg"]))
    return read_drawing(_OWN_NAMESPACE.sub(_XLINK, svg), str(result["speech"]))


def read_drawing(svg: str, speech: str = "") -> FormulaDrawing | None:
    """Return a drawing with the measures that its SVG states; None for one that is too large to be shown."""
    box = _VIEW_BOX.search(svg)
    if box is None:
        return None
    _, top, width, height = (float(figure) / _UNITS_PER_EM for figure in box.groups())
    if not (0 < width <= _WIDEST_EM and 0 < height <= _HIGHEST_EM):
        return None
    return FormulaDrawing(svg, width, -top, height + top, speech)


def match_formula(text: str, at: int, end: int | None = None) -> Formula | None:
    """Return the formula that begins at a place and ends before another."""
    end = len(text) if end is None else end
    opening_mark = text[at : at + 2]
    if opening_mark in _CLOSING:
        return _match_delimited(text, at, end)
    return _match_dollars(text, at, end) if opening_mark[:1] == "$" else None


def find_formulas(text: str) -> Iterator[Formula]:
    """Yield the formulas of a paragraph, none of its code."""
    at = 0
    while (at := _next_sign(text, at)) >= 0:
        formula = match_formula(text, at)
        if formula is not None:
            yield formula
            at = formula.end
        else:
            at = _skip_sign(text, at)


def half_formula_at(text: str) -> int | None:
    """Return where a formula begins that may go on beyond the end of a text; None when there is none."""
    at = 0
    while (at := _next_sign(text, at)) >= 0:
        formula = match_formula(text, at)
        if formula is not None:
            at = formula.end
        elif _may_go_on(text, at):
            return at
        else:
            at, before = _skip_sign(text, at), at
            if text[before] == "`" and not text[before:at].strip("`"):
                return None  # in code that is still arriving
    return None


def block_closing(text: str) -> str | None:
    """Return what ends the formula that a line of its own begins; None for other lines."""
    match = _BLOCK.match(text)
    if match is None:
        return None
    return f"\\end{{{match[2]}{match[3]}}}" if match[2] else _CLOSING[match[1]]


def ends_block(text: str, closing_mark: str, start: int = 0) -> int:
    """Return where the formula that `closing` ends is over in a line, punctuation included; 0 for nowhere."""
    at = text.find(closing_mark, start)
    if at < 0:
        return 0
    at += len(closing_mark)
    while at < len(text) and text[at] in _AFTER_BLOCK:
        at += 1
    return at


def block_tex(source: str) -> str:
    """Return what is drawn of a formula that stands by itself: an environment whole, else what is in the delimiters."""
    source = source.strip()
    opening_mark, closing_mark = source[:2], _CLOSING.get(source[:2], "")
    if not closing_mark:
        return source
    inside, _, after = source.removeprefix(opening_mark).rpartition(closing_mark)
    return f"{inside.strip()}{after.strip()}"


def speak_formulas(text: str) -> str:
    """Return a text with its formulas in words, as a screen reader should say them."""
    parts, at = [], 0
    for formula in find_formulas(text):
        formula_drawing = draw_formula(formula.tex, is_display=formula.is_display)
        if formula_drawing is not None:
            parts += [text[at : formula.start], formula_drawing.speech]
            at = formula.end
    return "".join([*parts, text[at:]])


def _match_delimited(text: str, at: int, end: int) -> Formula | None:
    opening_mark = text[at : at + 2]
    closing_mark = _CLOSING[opening_mark]
    stop = text.find(closing_mark, at + 2, min(end, at + 2 + _LONGEST_INLINE))
    tex = text[at + 2 : stop].strip()
    if stop < 0 or not tex or "\n\n" in tex or (opening_mark == "$$" and "$" in {text[at - 1 : at], text[at + 2]}):
        return None
    return Formula(at, stop + 2, tex, opening_mark != "\\(")


def _match_dollars(text: str, at: int, end: int) -> Formula | None:
    if not _may_open(text, at):
        return None
    stop = text.find("$", at + 1, min(end, at + 1 + _LONGEST_INLINE))
    while stop > 0 and text[stop - 1] == "\\":
        stop = text.find("$", stop + 1, min(end, at + 1 + _LONGEST_INLINE))
    tex = text[at + 1 : max(stop, at + 1)]
    if not tex or tex[-1].isspace() or "\n\n" in tex or not _closes_well(tex, text[stop + 1 : stop + 2]):
        return None
    return Formula(at, stop + 1, tex, is_display=False) if _is_mathematical(tex) else None


def _may_open(text: str, at: int) -> bool:
    before, after = text[at - 1 : at], text[at + 1 : at + 2]
    return not (before.isalnum() or before == "$" or after.isspace() or after in {"", "$"})


def _closes_well(tex: str, after: str) -> bool:
    """Tell whether a dollar ends a formula, by what is before and behind it: "$A/$B" and "$20-$30" are none."""
    if after.isdigit() or after in {"{", "$"} or (tex[-1] in "=/:-+" and after):
        return False
    is_short = len(tex) <= 2 or "\\" in tex  # noqa: PLR2004 -- "the $n$th", "$ij$th"
    return is_short or not (after.isalpha() and after.isascii())


def _is_mathematical(tex: str) -> bool:
    bare = _WORDY.sub(" ", tex)
    words = [word for word in _WORD.findall(bare) if not _FUNCTION.fullmatch(word)]
    if _SIGNS & set(tex):
        return len([word for word in words if len(word) > 2]) <= 2  # noqa: PLR2004 -- names of variables, no sentence
    return not words or _NAME.fullmatch(tex) is not None


def _next_sign(text: str, at: int) -> int:
    match = _SIGN.search(text, at)
    return -1 if match is None else match.start()


def _skip_sign(text: str, at: int) -> int:
    """Return where to go on after a sign that begins no formula: behind what it escapes, or behind the code."""
    if text[at] == "\\":
        return at + 2
    if text[at] != "`":
        return at + 1
    run = _RUN.match(text, at)
    end = run.end() if run is not None else at + 1
    stop = text.find(text[at:end], end)
    return end if stop < 0 else stop + end - at


def _may_go_on(text: str, at: int) -> bool:
    if len(text) - at > _LONGEST_INLINE:
        return False
    rest = text[at:]
    if rest == "\\":
        return True
    if rest[:2] in _CLOSING:
        return "\n\n" not in rest
    if rest[0] != "$" or len(rest) > _LONGEST_HALF or "\n\n" in rest or "$" in rest[1:]:
        return False
    return rest == "$" or (_may_open(text, at) and _is_mathematical(rest[1:]))
