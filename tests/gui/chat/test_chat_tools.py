"""Tools in the chat's window: calls in the transcript, the person's decision, and the card of the chat's servers."""

import pytest
from msgspec.structs import replace
from pytestqt.qtbot import QtBot

from app.core.attachments import Attachment
from app.core.chats import AnswerCallChanged, AnswerDelta, AnswerDone, ChatPatch
from app.core.events import McpServersChanged, SettingChanged
from app.core.mcp import McpServerState
from app.core.tool_calls import AnswerToolCall, ChatTools, DecideToolCall, ToolCallState, ToolDecision
from app.gui.net.remote_lists import Stores
from app.gui.screens.chat.tools_panel import ServerRow
from app.gui.screens.chat.transcript.box import Spot, Verb
from app.gui.screens.chat.transcript.call_box import CallBox, pretty_arguments, state_words
from app.gui.screens.chat.transcript.files_box import FilesBox
from app.gui.screens.chat.transcript.text_box import TextBox
from app.gui.screens.chat.transcript.transcript_turn import TranscriptTurn
from app.gui.screens.chat.view import ChatScreen
from app.gui.shell.contract import PageId
from app.gui.theme.theme import Theme
from tests.demo import data
from tests.demo.api import DemoApi
from tests.demo.attachments import EVENING, file_replies
from tests.demo.mcp import FILES, SERVERS, TIME, TRACKER
from tests.demo.tool_scenes import make_tool_chat
from tests.gui.conftest import QuietShell


@pytest.fixture
def screen(theme: Theme, api: DemoApi, shell: QuietShell, qtbot: QtBot) -> ChatScreen:
    api.replies |= {"GET /mcp/servers": SERVERS, "GET /chats/c1": make_tool_chat(is_waiting=True)}
    screen = ChatScreen(theme, Stores(api, shell), shell)
    qtbot.addWidget(screen)
    screen.resize(1000, 800)
    screen.show()
    api.flush()
    screen.model.open_chat("c1")
    api.flush()
    return screen


def answer_turn(screen: ChatScreen) -> TranscriptTurn:
    turn = screen.conversation_view.transcript.document.turns[1]
    turn.lay_out_between(0, turn.height)
    return turn


def spots_of(screen: ChatScreen, verb: Verb) -> list[Spot]:
    turn = answer_turn(screen)
    return [spot for spot in turn.spots_between(0, turn.height) if spot.verb is verb]


def press(screen: ChatScreen, spot: Spot) -> None:
    screen.conversation_view.transcript.perform_action(1, spot)


def box_texts(screen: ChatScreen) -> list[str]:
    """What stands in the answer, from the top: its texts and the tools that were called."""
    boxes = answer_turn(screen).boxes
    return [
        box.text if isinstance(box, TextBox) else box.call.tool for box in boxes if isinstance(box, TextBox | CallBox)
    ]


def stream_of(api: DemoApi) -> str:
    return next(path for path in api.streams if "/answers/a1" in path)


def test_calls_stand_where_they_were_made(screen: ChatScreen, api: DemoApi) -> None:
    texts = ["I will look up what time it is, and what your notes say."]
    texts += [
        "get_current_time",
        "read_text_file",
        "There is no note about the trip yet, so I write one.",
        "write_file",
    ]
    assert box_texts(screen) == texts
    answered_message = make_tool_chat(is_waiting=False).messages[-1]
    rest = answered_message.content[len(screen.model.conversation.text_of("a1")) :]
    api.send_event(stream_of(api), AnswerCallChanged(call=answered_message.calls[-1]))
    api.send_event(stream_of(api), AnswerDelta(content=rest, offset=len(answered_message.content) - len(rest)))
    transcript = screen.conversation_view.transcript
    transcript._take_frame()
    assert box_texts(screen) == [*texts, "Your train leaves at 07:28 tomorrow; it is in trip.md now."]
    api.send_event(stream_of(api), AnswerDone(message=answered_message))
    assert box_texts(screen)[-1].startswith("Your train")
    assert len(box_texts(screen)) == 6
    screen.model.open_chat("c1")
    api.replies["GET /chats/c1"] = make_tool_chat(is_waiting=False)
    api.flush()
    assert len(box_texts(screen)) == 6


def test_the_person_decides_by_a_button(screen: ChatScreen, api: DemoApi) -> None:
    buttons = spots_of(screen, Verb.DECIDE_CALL)
    assert [spot.name for spot in buttons] == ["Allow once", "Always in this chat", "Refuse", "Never in this chat"]
    for spot in buttons:
        press(screen, spot)
    bodies = api.bodies_of("POST", "/chats/c1/answers/a1/calls/k3")
    assert bodies == [DecideToolCall(decision=decision) for decision in ToolDecision]
    assert [spot.value for spot in spots_of(screen, Verb.FOLD_CALL)] == ["k1", "k2"]


def test_a_call_unfolds_and_its_state_is_told(screen: ChatScreen, api: DemoApi) -> None:
    folded_height = answer_turn(screen).height
    press(screen, spots_of(screen, Verb.FOLD_CALL)[0])
    assert answer_turn(screen).height > folded_height
    first = spots_of(screen, Verb.FOLD_CALL)[0]
    assert first.name == "time · get_current_time, 0.3 s: hide what was called and returned"
    press(screen, first)
    assert answer_turn(screen).height == folded_height
    call = make_tool_chat(is_waiting=False).messages[-1].calls[1]
    words = {state: state_words(replace(call, state=state)) for state in ToolCallState}
    assert words[ToolCallState.RUNNING] == "Running…"
    assert words[ToolCallState.CANCELLED] == "Cancelled"
    assert not words[ToolCallState.WAITING]
    running_call = replace(call, id="k3", state=ToolCallState.RUNNING)
    api.send_event(stream_of(api), AnswerCallChanged(call=running_call))
    screen.conversation_view.transcript._take_frame()
    assert not spots_of(screen, Verb.DECIDE_CALL)


def test_arguments_are_easy_to_read_and_never_break() -> None:
    assert pretty_arguments("{}") == pretty_arguments("") == ""
    assert pretty_arguments('{"a": "ä"}') == '{\n  "a": "ä"\n}'
    assert pretty_arguments("{broken") == "{broken"


def test_the_card_says_whose_tools_are_used(screen: ChatScreen, api: DemoApi, shell: QuietShell) -> None:
    view = screen.conversation_view
    assert ("GET", "/mcp/servers", None) not in api.calls, "nobody looked yet"
    view.toggle_tools()
    api.flush()
    rows = {name: row for name, row in view.tools_panel._list.rows.items() if isinstance(row, ServerRow)}
    assert {name for name, row in rows.items() if row.switch.isChecked()} == {"files", "time"}
    assert not rows["shell"].switch.isEnabled()
    assert rows["shell"].accessibleDescription() == "Added by a program, and not confirmed yet"
    assert rows["tracker"].accessibleDescription() == TRACKER.problem
    rows["tracker"].switch.click()
    chosen_servers = ["files", "time", "tracker"]
    assert api.bodies_of("PATCH", "/chats/c1") == [ChatPatch(tool_servers=chosen_servers)]
    view.tools_panel.forget.click()
    patches = api.bodies_of("PATCH", "/chats/c1")
    assert patches[-1] == ChatPatch(asks_again=True)
    assert screen.model.conversation.tools == ChatTools(servers=chosen_servers)
    assert view.tools_panel.forget.isHidden()
    api.replies["GET /mcp/servers"] = [replace(FILES, state=McpServerState.STARTING), replace(TIME, is_enabled=False)]
    shell.broadcast_event(McpServersChanged())
    api.flush()
    assert rows["files"].accessibleDescription() == "Starting · no network"
    assert rows["time"].accessibleDescription() == "Switched off"
    view.tools_panel.manage.click()
    assert shell.pages[-1] is PageId.MCP


def test_a_new_chat_is_made_with_the_tools_that_were_chosen(screen: ChatScreen, api: DemoApi) -> None:
    screen.model.conversation.start_chat("guide")
    assert screen.model.conversation.tools == ChatTools()
    screen.model.conversation.set_tool_servers(["time"])
    screen.model.conversation.send("What time is it?")
    (body,) = api.bodies_of("POST", "/chats")
    assert getattr(body, "tools", None) == ChatTools(servers=["time"])


def test_new_chats_begin_with_the_servers_that_are_usual(screen: ChatScreen, api: DemoApi, shell: QuietShell) -> None:
    conversation, panel = screen.model.conversation, screen.conversation_view.tools_panel
    screen.conversation_view.toggle_tools()
    api.flush()
    panel.make_usual.click()
    assert api.bodies_of("PATCH", "/settings") == [{"chats.tool_servers": ["files", "time"]}]
    screen.model.new_chat()
    assert conversation.tools == ChatTools()
    name = "chats.tool_servers"
    settings = [data.with_value(row, ["time"]) if row.name == name else row for row in data.default_settings()]
    api.replies["GET /settings"] = settings
    shell.broadcast_event(SettingChanged(name="chats.tool_servers"))
    api.flush()
    assert conversation.tools == ChatTools(servers=["time"]), "it is empty, and nobody chose others"
    conversation.set_tool_servers(["files"])
    api.replies["GET /settings"] = data.default_settings()
    shell.broadcast_event(SettingChanged(name="chats.tool_servers"))
    api.flush()
    assert conversation.tools == ChatTools(servers=["files"])


def test_a_drawn_picture_stands_below_its_call(screen: ChatScreen, api: DemoApi) -> None:
    api.replies |= file_replies()
    call = AnswerToolCall(id="k4", round=4, at=0, server="pictures", tool="draw_picture", state=ToolCallState.RUNNING)
    api.send_event(stream_of(api), AnswerCallChanged(call=call))
    drawn_call = replace(call, state=ToolCallState.ANSWERED, files=[EVENING.hash])
    for _ in range(2):  # a stream that is taken up again tells it twice
        api.send_event(stream_of(api), AnswerCallChanged(call=drawn_call, attachments=[EVENING]))
    screen.conversation_view.transcript._take_frame()
    assert drawn_below(screen) == [[EVENING]]
    before = make_tool_chat(is_waiting=False).messages[-1]
    drawn_message = replace(before, calls=[*before.calls, drawn_call], attachments=[EVENING])
    api.send_event(stream_of(api), AnswerDone(message=drawn_message))
    assert drawn_below(screen) == [[EVENING]]
    (card,) = spots_of(screen, Verb.SAVE_FILE)
    assert card.name.startswith("Save a copy of evening.png")
    assert card.area.left() == 0
    assert card.area.width() / card.area.height() == pytest.approx(1176 / 888)


def drawn_below(screen: ChatScreen) -> list[list[Attachment]]:
    """The files below the call that draws."""
    boxes = answer_turn(screen).boxes
    at = next(at for at, box in enumerate(boxes) if isinstance(box, CallBox) and box.call.tool == "draw_picture")
    return [box.attachments for box in boxes[at + 1 : at + 2] if isinstance(box, FilesBox)]
