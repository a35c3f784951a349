"""Tell tool calls from text, as it is written: text goes on at once, calls once they are whole.

What looked like a call and is none, or calls a tool that was not offered, is text after all. The white space before a
call belongs to it.
"""

from collections.abc import Callable, Sequence

from app.gateway.canonical.families.calls import ParsedCall
from app.gateway.canonical.families.family import CallForm
from app.gateway.canonical.families.marks import first_mark, partial_mark_length

Piece = str | ParsedCall
_DECIDED = 256
"""Characters by which an answer's beginning is surely a call or none."""
MatchTool = Callable[[ParsedCall], ParsedCall | None]
"""Returns a call as its tool wants it, or None if there is no such tool."""


class CallCutter:
    """Reads one answer."""

    def __init__(self, forms: Sequence[CallForm], match_tool: MatchTool) -> None:
        self._match_tool = match_tool
        self._forms = {mark: form for form in forms for mark in form.opens}
        self._at_start = [form for form in forms if form.looks_like is not None]
        self._rest = ""
        self._later: list[str] = []
        """What has come of a call since its end was last looked for: a long one is not joined with every piece."""
        self._edge = ""
        self._form: CallForm | None = None
        self._mark = ""
        self._gap = ""
        """The white space before the mark."""
        self._is_start = True
        self._has_called = False

    def feed(self, text: str) -> Sequence[Piece]:
        """Return what is surely said."""
        self._later.append(text)
        if self._form is not None and not self._may_end(self._form, text):
            return []
        self._rest += "".join(self._later)
        self._later.clear()
        pieces: list[Piece] = []
        while self._rest and self._step(pieces):
            pass
        return pieces

    def end(self, *, is_cut: bool) -> Sequence[Piece]:
        """Return what was held back. Of an answer cut off by its limit, an unfinished call is no call and no text."""
        pieces: list[Piece] = []
        rest, self._rest = self._rest + "".join(self._later), ""
        self._later.clear()
        if self._form is not None:
            if not is_cut:
                self._read(rest, pieces, whole=rest)
            elif not self._mark:
                pieces.append(rest)
        elif rest.strip() or not self._has_called:
            pieces += [rest] if rest else []
        return pieces

    def _may_end(self, form: CallForm, text: str) -> bool:
        """Tell whether a call may be over with this piece; only its last characters and the ones before count."""
        if form.looks_like is not None:
            return len(self._rest.lstrip()) < _DECIDED
        probe = self._edge + text
        longest = max(map(len, form.closes), default=1)
        self._edge = probe[len(probe) - longest + 1 :] if len(probe) >= longest else probe
        return any(mark in probe for mark in form.closes)

    def _step(self, pieces: list[Piece]) -> bool:
        if self._form is not None:
            return self._take_call(self._form, pieces)
        if self._is_start:
            return self._begin()
        return self._take_text(pieces)

    def _begin(self) -> bool:
        """See whether the answer begins with a call in a form without marks."""
        text = self._rest.lstrip()
        if not text:
            return False
        self._is_start = False
        self._form = next((form for form in self._at_start if _may_be(form, text)), None)
        self._mark = self._gap = ""
        return True

    def _take_text(self, pieces: list[Piece]) -> bool:
        mark_found = first_mark(self._rest, self._forms)
        if mark_found is None:
            cut = len(self._rest) - partial_mark_length(self._rest, self._forms)
            self._say(len(self._rest[:cut].rstrip()), pieces)
            return False
        at, mark = mark_found
        before, self._rest = self._rest[:at], self._rest[at + len(mark) :]
        self._gap = before[len(before.rstrip()) :]
        if before.rstrip():
            pieces.append(before.rstrip())
        self._form, self._mark = self._forms[mark], mark
        return True

    def _say(self, size: int, pieces: list[Piece]) -> None:
        if size:
            pieces.append(self._rest[:size])
            self._rest = self._rest[size:]

    def _take_call(self, form: CallForm, pieces: list[Piece]) -> bool:
        if form.looks_like is not None:
            if not _may_be(form, self._rest.lstrip()):
                self._form = next(
                    (other_form for other_form in self._at_start if _may_be(other_form, self._rest.lstrip())), None
                )
            return self._form is None
        if not form.closes:
            return False
        mark_found = first_mark(self._rest, form.closes)
        if mark_found is None:
            self._edge = self._rest[-max(map(len, form.closes)) :]
            return False
        end = mark_found[0]
        region, rest = self._rest[:end], self._rest[end + len(mark_found[1]) :]
        whole, self._rest = region + mark_found[1], rest
        self._read(region, pieces, whole=whole)
        return True

    def _read(self, region: str, pieces: list[Piece], *, whole: str) -> None:
        """Say what a stretch holds; all of it, marks included, if that is no call of a tool there is."""
        form, mark = self._form, self._mark
        self._form, self._mark = None, ""
        if form is None:
            return
        try:
            calls = [self._match_tool(call) for call in form.read(mark + region if form.keeps_open else region)]
        except ValueError:
            calls = [None]
        known_calls = [call for call in calls if call is not None]
        if len(known_calls) < len(calls):
            pieces.append(self._gap + mark + whole)
            return
        self._has_called = self._has_called or bool(known_calls)
        pieces += known_calls


def _may_be(form: CallForm, text: str) -> bool:
    return form.looks_like is not None and form.looks_like(text[:_DECIDED])
