"""What an answer of the Guide offers to do: a row of buttons below its text."""

from collections.abc import Sequence

from PySide6.QtGui import QPainter

from app.core.guide import ActionKind, AnswerAction
from app.core.translation import LazyText, tr
from app.gui.screens.chat.transcript.box import Box, PaintState, Spot, Verb, paint_words, words_area
from app.gui.screens.chat.transcript.look import TranscriptLook
from app.gui.shell.contract import PageId, Task
from app.gui.shell.rail import TITLES

_ROW = 30
_GAP = 8
_PAGES = {page: title for page, (title, _) in TITLES.items()} | {
    PageId.CONNECTIONS: LazyText("Connections to other computers"),
    PageId.MCP: LazyText("Tools for models"),
    PageId.DOCUMENTS: LazyText("Documents"),
    PageId.BENCHMARKS: LazyText("Benchmarks"),
    PageId.PROFILES: LazyText("Profiles"),
    PageId.AGENTS: LazyText("Coding agents"),
    PageId.MACHINES: LazyText("Other computers"),
}


def select_shown(actions: Sequence[AnswerAction]) -> list[AnswerAction]:
    """Return what a window can offer: the chat is there already, and opens only its dialog for files."""
    return [action for action in actions if action.kind is not ActionKind.OPEN_PAGE or _is_showable(action)]


def _is_showable(action: AnswerAction) -> bool:
    return action.target in _PAGES and (action.target != PageId.CHAT or action.task == Task.ATTACH_FILES)


def describe_action(action: AnswerAction) -> str:
    """Return what a button says."""
    if action.kind is ActionKind.DOWNLOAD:
        return tr("Download {model}", model=action.title)
    if action.kind is ActionKind.LOAD:
        return tr("Load {model}", model=action.title)
    if action.kind is ActionKind.UNLOAD:
        return tr("Unload {model}", model=action.title)
    if action.task == Task.ATTACH_FILES:
        return tr("Attach files")
    return tr("Open {page}", page=_PAGES[PageId(action.target)].tr())


class ActionsBox(Box):
    """The buttons, in as many rows as they need."""

    gap = 12

    def __init__(self, actions: list[AnswerAction]) -> None:
        super().__init__()
        self.actions = actions
        self._spots: list[Spot] = []

    def guess_height(self, look: TranscriptLook, width: float) -> float:
        """Return the height of one row."""
        del width
        return look.px(_ROW)

    def lay_out(self, look: TranscriptLook, width: float) -> None:
        """Set the buttons beside each other, and below where there is no room."""
        self._spots, self.natural = [], width
        x = y = 0.0
        for number, action in enumerate(self.actions):
            name = describe_action(action)
            area = words_area(look, name, x, y)
            if x and area.right() > width:
                x, y = 0.0, y + look.px(_ROW + _GAP)
                area = words_area(look, name, x, y)
            self._spots.append(Spot(area, Verb.DO_ACTION, name, str(number)))
            x += area.width() + look.px(_GAP)
        self.height = y + look.px(_ROW)

    def paint(self, painter: QPainter, look: TranscriptLook, pose: PaintState) -> None:
        """Draw the buttons."""
        for spot in self._spots:
            paint_words(painter, look, spot, pose=pose)

    def list_spots(self) -> list[Spot]:
        """Return the buttons."""
        return self._spots
