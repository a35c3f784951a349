"""The transcript: lays out only what is seen, keeps the reader's place, lets itself be read, copied and pressed."""

from collections.abc import Callable, Sequence

import pytest
from PySide6.QtCore import QPoint, QPointF, Qt, QUrl
from PySide6.QtGui import QDesktopServices
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot

from app.core.chats import MessageStatus
from app.core.engines import RemedyOffer
from app.gui.screens.chat.transcript import text_lines
from app.gui.screens.chat.transcript.box import Spot, Verb
from app.gui.screens.chat.transcript.look import TranscriptLook
from app.gui.screens.chat.transcript.mouse import word_around
from app.gui.screens.chat.transcript.note_boxes import FootBox, TroubleBox
from app.gui.screens.chat.transcript.transcript import Transcript
from app.gui.screens.chat.turns import AnswerTrouble, LiveText, TroubleRemedy, TurnView
from app.gui.theme.theme import Theme
from app.gui.widgets.links import open_link
from tests.demo import long_chat

WORDS = "Some words that take a line or two, and then a little more of the same. "


@pytest.fixture
def area(qtbot: QtBot, theme: Theme) -> Transcript:
    area = Transcript(theme)
    qtbot.addWidget(area)
    area.resize(900, 600)
    with qtbot.waitActive(area):
        area.show()
        area.activateWindow()
    return area


def conversation(count: int) -> list[TurnView]:
    views = []
    for number in range(1, count + 1):
        views.append(TurnView(message=long_chat.make_question(number, f"Question {number}?", None)))
        views.append(TurnView(message=long_chat.make_answer(number, f"Answer {number}. {WORDS * 4}")))
    return views


def stream_turns(live: LiveText) -> list[TurnView]:
    answer = long_chat.make_answer(1, "", timings=None, status=MessageStatus.GENERATING)
    return [TurnView(message=long_chat.make_question(1, "Go on.", None)), TurnView(message=answer, live=live)]


def write(area: Transcript, live: LiveText, text: str) -> None:
    live.content.append(text)
    area.pull_answer("a1")
    area._frame.stop()
    area._take_frame()


def spots(area: Transcript, turn: int) -> dict[Verb, Spot]:
    box = area.document.turns[turn]
    box.lay_out_between(0, box.height)
    return {spot.verb: spot for spot in box.spots_between(0, box.height)}


def on_screen(area: Transcript, turn: int, spot: Spot) -> QPoint:
    x = spot.area.center().x() + area.column_left
    return QPointF(x, spot.area.center().y() + area.document.turn_top(turn) - area.offset).toPoint()


def press(area: Transcript, turn: int, verb: Verb) -> None:
    QTest.mouseClick(area.viewport(), Qt.MouseButton.LeftButton, pos=on_screen(area, turn, spots(area, turn)[verb]))


def test_only_what_is_near_the_view_is_read(area: Transcript) -> None:
    area.show_turns(conversation(500), at_end=True)
    built_turns = [index for index, turn in enumerate(area.document.turns) if turn.is_built]
    assert 2 <= len(built_turns) < 40
    assert built_turns[-1] == 999


def test_a_chat_opens_at_its_end_and_stays_there_while_it_grows(area: Transcript) -> None:
    live = LiveText()
    area.show_turns([*conversation(5), *stream_turns(live)], at_end=True)
    for _ in range(20):
        write(area, live, WORDS * 3 + "\n\n")
    bar = area.verticalScrollBar()
    assert bar.value() == bar.maximum() > 600


def test_a_reader_who_scrolled_up_is_left_alone(area: Transcript) -> None:
    live = LiveText()
    area.show_turns([*conversation(20), *stream_turns(live)], at_end=True)
    area.verticalScrollBar().setValue(400)
    before = area.offset
    write(area, live, WORDS * 30)
    assert area.offset == before
    assert area.to_end.isVisible()
    area.to_end.click()
    assert area.offset == area.verticalScrollBar().maximum()
    assert not area.to_end.isVisible()


def test_coming_back_to_the_end_follows_again(area: Transcript) -> None:
    live = LiveText()
    area.show_turns([*conversation(20), *stream_turns(live)], at_end=True)
    area.verticalScrollBar().setValue(100)
    area.verticalScrollBar().setValue(area.verticalScrollBar().maximum())
    write(area, live, WORDS * 30)
    assert area.offset == area.verticalScrollBar().maximum()


@pytest.mark.parametrize("change", ["resize", "scale"])
def test_the_place_is_kept_when_everything_is_laid_out_anew(area: Transcript, theme: Theme, change: str) -> None:
    area.show_turns(conversation(50), at_end=True)
    area.scroll_to(area.document.turn_top(40))
    before = area.document.anchor_at(area.offset)
    if change == "resize":
        area.resize(500, 600)
    else:
        theme.set_percent(150)
    after = area.document.anchor_at(area.offset)
    assert (after.turn, after.box) == (before.turn, before.box)


def counted_lines(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    new_lines: list[str] = []
    original = text_lines.TextLines._set_width

    def count_line(self: text_lines.TextLines, width: float) -> None:
        new_lines.append(self.layout.text())
        original(self, width)

    monkeypatch.setattr(text_lines.TextLines, "_set_width", count_line)
    return new_lines


@pytest.mark.slow(cases=1)
@pytest.mark.parametrize("source", [WORDS, "x = 1\n", "- item\n", "| a | b |\n", WORDS + "\n\n"])
def test_a_frame_lays_out_as_little_at_the_end_as_at_the_beginning(
    area: Transcript, monkeypatch: pytest.MonkeyPatch, source: str
) -> None:
    live = LiveText()
    area.show_turns(stream_turns(live), at_end=True)
    write(area, live, "```py\n" if source.startswith("x") else "| a | b |\n|---|---|\n" if "|" in source else "")
    new_lines = counted_lines(monkeypatch)
    costs = []
    for _ in range(400):
        new_lines.clear()
        write(area, live, source)
        costs.append(sum(len(text) for text in new_lines))
    assert max(costs[-100:]) <= 1.5 * max(costs[:100]) + 200


def test_what_is_finished_keeps_its_boxes(area: Transcript) -> None:
    live = LiveText()
    area.show_turns(stream_turns(live), at_end=True)
    write(area, live, "One.\n\nTwo.\n\nThr")
    first = area.document.turns[1].boxes[0]
    write(area, live, "ee.\n\nFour.")
    live_view = area.document.turns[1].view
    whole_answer = long_chat.make_answer(1, "One.\n\nTwo.\n\nThree.\n\nFour.")
    area.show_turns([area.document.turns[0].view, TurnView(message=whole_answer)])
    assert area.document.turns[1].boxes[0] is first
    assert live_view.live is live
    assert [box.text for box in area.document.turns[1].boxes] == ["One.", "Two.", "Three.", "Four.", ""]


def test_what_was_stored_wins_over_what_was_streamed(area: Transcript) -> None:
    live = LiveText()
    area.show_turns(stream_turns(live), at_end=True)
    write(area, live, "Something longer than what was kept")
    area.show_turns([area.document.turns[0].view, TurnView(message=long_chat.make_answer(1, "Kept"))])
    assert area.document.turns[1].boxes[0].text == "Kept"


def test_everything_selected_is_copied_as_it_was_written(qtbot: QtBot, area: Transcript) -> None:
    area.show_turns(conversation(2))
    area.setFocus()
    with qtbot.waitSignal(area.copy_requested) as copy_signal:
        QTest.keyClick(area, Qt.Key.Key_A, Qt.KeyboardModifier.ControlModifier)
        QTest.keyClick(area, Qt.Key.Key_C, Qt.KeyboardModifier.ControlModifier)
    assert copy_signal.args == ["\n\n".join(view.message.content for view in conversation(2))]


def test_a_selection_with_the_mouse_runs_across_messages(area: Transcript) -> None:
    area.show_turns(
        [
            TurnView(message=long_chat.make_question(1, "First question", None)),
            TurnView(message=long_chat.make_answer(1, "- one **two**\n- three\n\n| a | b |\n|---|---|\n| c | d |")),
        ]
    )
    turns = area.document.turns
    assert [box.text for box in turns[1].boxes] == ["one two", "three", "a\tb\u2028c\td", ""]
    area.document.select_range((0, 0, 6), (1, 2, 3))
    assert area.document.selection_text() == "question\n\n• one two\n• three\na\tb"
    area.document.select_range((1, 0, 4), (1, 0, 7))
    assert area.document.selection_text() == "two"


def test_dragging_selects_and_a_double_click_takes_the_word(area: Transcript) -> None:
    area.show_turns([TurnView(message=long_chat.make_answer(1, "alpha beta gamma"))])
    corner = area.document.turns[0].box_corner(0)
    y = round(corner.y()) + 10
    QTest.mousePress(area.viewport(), Qt.MouseButton.LeftButton, pos=QPoint(area.column_left, y))
    QTest.mouseMove(area.viewport(), QPoint(area.column_left + 400, y))
    QTest.mouseRelease(area.viewport(), Qt.MouseButton.LeftButton, pos=QPoint(area.column_left + 400, y))
    assert area.document.selection_text() == "alpha beta gamma"
    QTest.mouseDClick(area.viewport(), Qt.MouseButton.LeftButton, pos=QPoint(area.column_left + 60, y))
    assert area.document.selection_text() == "beta"


@pytest.mark.parametrize(("at", "word"), [(0, (0, 5)), (3, (0, 5)), (7, (6, 10)), (10, (10, 10 + 1))])
def test_words(at: int, word: tuple[int, int]) -> None:
    start, end = word_around("alpha beta gamma", at)
    assert start <= at <= end
    if at != 10:
        assert (start, end) == word


def test_a_code_block_is_copied_whole_however_many_boxes_it_has(qtbot: QtBot, area: Transcript) -> None:
    source = "\n".join(f"line {number}" for number in range(200))
    area.show_turns(
        [TurnView(message=long_chat.make_answer(1, f"See:\n\n```\n{source}\n```\n\nAnd:\n\n```\nother\n```"))]
    )
    area.scroll_to(0)
    with qtbot.waitSignal(area.copy_requested) as copy_signal:
        area.perform_action(
            0, next(spot for spot in area.document.turns[0].spots_between(0, 200) if spot.verb is Verb.COPY_CODE)
        )
    assert copy_signal.args == [source]


def test_wrapping_code_makes_it_taller(area: Transcript) -> None:
    area.show_turns([TurnView(message=long_chat.make_answer(1, f"```\n{WORDS * 5}\n```"))])
    before = area.document.height
    press(area, 0, Verb.WRAP_CODE)
    assert area.document.height > before


def test_thinking_is_folded_until_it_is_asked_for(area: Transcript) -> None:
    view = TurnView(message=long_chat.make_answer(1, "Done.", reasoning="First.\n\nThen."), thought_s=6.2)
    area.show_turns([view])
    assert spots(area, 0)[Verb.FOLD].name == "Thought for 6 s: show the thoughts"
    press(area, 0, Verb.FOLD)
    assert [box.text for box in area.document.turns[0].boxes] == ["", "First.", "Then.", "Done.", ""]
    press(area, 0, Verb.FOLD)
    assert [box.text for box in area.document.turns[0].boxes] == ["", "Done.", ""]


def test_thinking_streams_while_it_is_open(area: Transcript) -> None:
    live = LiveText(thinking_since=1.0, reasoning=["Let me"])
    area.show_turns(stream_turns(live), at_end=True)
    area.perform_action(1, spots(area, 1)[Verb.FOLD])
    live.reasoning.append(" think.")
    write(area, live, "So: yes.")
    assert [box.text for box in area.document.turns[1].boxes][1:3] == ["Let me think.", "So: yes."]


@pytest.mark.parametrize(
    ("verb", "arguments"),
    [
        (Verb.COPY, ("copy", "a1", "")),
        (Verb.REGENERATE, ("regenerate", "a1", "")),
        (Verb.PREVIOUS_BRANCH, ("previous_branch", "a1", "")),
        (Verb.TRY_AGAIN, ("try_again", "a1", "")),
        (Verb.CHOOSE_MODEL, ("choose_model", "a1", "")),
    ],
)
def test_pressing_asks_for_what_it_says(qtbot: QtBot, area: Transcript, verb: Verb, arguments: Sequence[str]) -> None:
    trouble = AnswerTrouble(sentence="It failed.", remedies=(TroubleRemedy.TRY_AGAIN, TroubleRemedy.CHOOSE_MODEL))
    area.show_turns([TurnView(message=long_chat.make_answer(1, "Hm"), branch=2, branches=2, trouble=trouble)])
    with qtbot.waitSignal(area.action_requested) as action_signal:
        press(area, 0, verb)
    assert tuple(action_signal.args or ()) == arguments


MENDS = (RemedyOffer(kind="less_context", label="Load with less context", options={"context": 4096}),)


@pytest.mark.parametrize(
    ("verb", "arguments"),
    [
        (Verb.LOAD_OTHERWISE, ("load_otherwise", "a1", "less_context")),
        (Verb.MEND, ("mend", "a1", "")),
        (Verb.LOAD_AGAIN, ("load_again", "a1", "")),
    ],
)
def test_a_failure_has_buttons_for_what_may_mend_it(
    qtbot: QtBot, area: Transcript, verb: Verb, arguments: Sequence[str]
) -> None:
    trouble = AnswerTrouble(
        sentence="It failed.", remedies=(TroubleRemedy.LOAD_AGAIN, TroubleRemedy.CHOOSE_MODEL), offers=MENDS
    )
    area.show_turns([TurnView(message=long_chat.make_answer(1, ""), trouble=trouble)])
    with qtbot.waitSignal(area.action_requested) as action_signal:
        press(area, 0, verb)
    assert tuple(action_signal.args or ()) == arguments


def test_buttons_go_on_in_a_second_row_where_there_is_no_room(theme: Theme) -> None:
    trouble = AnswerTrouble(
        sentence="It failed.", remedies=(TroubleRemedy.LOAD_AGAIN, TroubleRemedy.CHOOSE_MODEL), offers=MENDS
    )
    heights, rows = [], []
    for width in (1200, 300):
        box = TroubleBox(trouble)
        box.ensure_layout(TranscriptLook(theme), width)
        heights.append(box.height)
        rows.append(len({spot.area.top() for spot in box.list_spots()}))
        assert all(spot.area.right() <= width for spot in box.list_spots())
    assert rows[0] == 1
    assert rows[1] > 1
    assert heights[1] > heights[0]


def test_the_cause_of_a_failure_unfolds(area: Transcript) -> None:
    area.show_turns(
        [TurnView(message=long_chat.make_answer(1, ""), trouble=AnswerTrouble(sentence="No.", cause="a\nb\nc"))]
    )
    before = area.document.height
    press(area, 0, Verb.SHOW_CAUSE)
    assert area.document.height > before


@pytest.mark.parametrize(
    ("link", "is_opened"),
    [
        ("https://example.org/a", True),
        ("http://example.org", True),
        ("file:///etc/passwd", False),
        ("javascript:alert(1)", False),
        ("smb://host/share", False),
    ],
)
def test_only_web_pages_are_opened(monkeypatch: pytest.MonkeyPatch, link: str, is_opened: bool) -> None:  # noqa: FBT001
    urls: list[QUrl] = []
    monkeypatch.setattr(QDesktopServices, "openUrl", urls.append)
    open_link(link)
    assert [url.toString() for url in urls] == ([link] if is_opened else [])


def test_a_link_can_be_pressed_and_another_scheme_cannot(area: Transcript) -> None:
    area.show_turns([TurnView(message=long_chat.make_answer(1, "[a](https://example.org) [b](file:///etc/passwd)"))])
    links = [spot.value for spot in area.document.turns[0].spots_between(0, 200) if spot.verb is Verb.OPEN_LINK]
    assert links == ["https://example.org"]


def test_the_keys_reach_every_action_of_a_message(qtbot: QtBot, area: Transcript) -> None:
    area.show_turns(conversation(3), at_end=True)
    area.clearFocus()
    area.setFocus(Qt.FocusReason.TabFocusReason)
    assert area.current == 5
    assert area.accessibleDescription().startswith("Answer: Answer 3.")
    QTest.keyClick(area, Qt.Key.Key_Up, Qt.KeyboardModifier.AltModifier)
    assert area.current == 4
    QTest.keyClick(area, Qt.Key.Key_Right)
    assert area.accessibleDescription() == "Edit"
    with qtbot.waitSignal(area.action_requested) as action_signal:
        QTest.keyClick(area, Qt.Key.Key_Return)
    assert action_signal.args == ["edit", "q3", ""]


def test_a_chosen_message_out_of_view_comes_into_it(area: Transcript) -> None:
    area.show_turns(conversation(40), at_end=True)
    area.clearFocus()
    area.setFocus(Qt.FocusReason.TabFocusReason)
    for _ in range(20):
        QTest.keyClick(area, Qt.Key.Key_Up, Qt.KeyboardModifier.AltModifier)
    assert area.current is not None
    top = area.document.turn_top(area.current)
    assert area.offset <= top < area.offset + area.viewport().height()


def test_text_from_the_right_stands_at_the_right(area: Transcript) -> None:
    area.show_turns(
        [
            TurnView(message=long_chat.make_answer(1, long_chat.ARABIC)),
            TurnView(message=long_chat.make_answer(2, "Left")),
        ]
    )
    area.grab()

    def left_edge(turn: int) -> float:
        box = area.document.turns[turn].boxes[0]
        lines: Callable[[], text_lines.TextLines] = lambda: box._lines  # type: ignore[attr-defined]  # noqa: E731
        return lines().range_areas(0, len(box.text))[0].left()

    assert left_edge(0) > 200
    assert left_edge(1) == 0


def test_wide_signs_are_selected_whole(area: Transcript) -> None:
    area.show_turns([TurnView(message=long_chat.make_answer(1, "𝄞🚂 end"))])
    area.document.select_range((0, 0, 2), (0, 0, 8))
    assert area.document.selection_text() == "🚂 end"


def test_the_ring_of_the_chosen_message_leaves_its_text_alone(area: Transcript) -> None:
    area.show_turns(conversation(2), at_end=True)
    QTest.keyClick(area, Qt.Key.Key_Up, Qt.KeyboardModifier.AltModifier)
    assert area.current == 3
    turn = area.document.turns[3]
    assert area.ring_area(3).top() < area.document.turn_top(3) + turn.box_corner(turn.body_box).y()
    QTest.keyClick(area, Qt.Key.Key_Up, Qt.KeyboardModifier.AltModifier)
    assert area.current == 2
    assert area.ring_area(2).top() > area.document.turn_top(2), "the gap above a question belongs to nobody"


@pytest.mark.parametrize("width", [900, 300])
def test_the_quiet_line_and_the_versions_never_share_a_place(area: Transcript, width: int) -> None:
    area.resize(width, 600)
    answer = TurnView(message=long_chat.make_answer(1, "Short."), branch=2, branches=12)
    area.show_turns([answer], at_end=True)
    foot = area.document.turns[0].boxes[-1]
    assert isinstance(foot, FootBox)
    room = area.document.look.meta.metrics.horizontalAdvance(foot.words)
    line = area.document.look.px(26)
    is_beside = min(spot.area.left() for spot in foot.list_spots()) >= room
    is_below = min(spot.area.top() for spot in foot.list_spots()) >= line
    assert (is_beside, is_below) == ((True, False) if width == 900 else (False, True))
