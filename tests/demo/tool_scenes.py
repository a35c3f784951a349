"""What is photographed of tools: a call that waits, calls that were made, the card of the chat's servers."""

from collections.abc import Iterator

import msgspec

from app.core.chats import Chat, MessageStatus
from app.core.documents import AnswerDocuments, AnswerSource
from app.core.guide import MANUAL, ActionKind, AnswerAction
from app.core.mcp import McpPermission
from app.core.tool_calls import AnswerToolCall, ChatToolPermission, ChatTools, ToolCallState
from app.gui.screens.chat.transcript.box import Verb
from app.gui.screens.chat.view import ChatScreen
from app.gui.shell.contract import PageId
from app.gui.shell.window import MainWindow
from tests.demo import long_chat
from tests.demo.api import DemoApi
from tests.demo.attachments import EVENING, file_replies
from tests.demo.mcp import SERVERS
from tests.demo.scene import USUAL_LOOKS, Replies, Scene, SceneLook

TOOLS = ChatTools(
    servers=["files", "time"],
    permissions=[ChatToolPermission(server="time", tool="convert_time", permission=McpPermission.ALLOW)],
)
_DONE = AnswerToolCall(
    id="k1",
    round=1,
    at=0,
    server="time",
    tool="get_current_time",
    arguments='{"timezone": "Europe/Vienna"}',
    state=ToolCallState.ANSWERED,
    result='{\n  "timezone": "Europe/Vienna",\n  "datetime": "2026-11-26T09:14:03+01:00",\n  "is_dst": false\n}',
    seconds=0.3,
)
_READ = msgspec.structs.replace(
    _DONE, id="k2", round=2, server="files", tool="read_text_file", arguments='{"path": "/home/ada/notes/trip.md"}',
    state=ToolCallState.FAILED, result="ENOENT: no such file or directory, open '/home/ada/notes/trip.md'",
)  # fmt: skip
_WAITING = msgspec.structs.replace(
    _READ, id="k3", round=3, tool="write_file", state=ToolCallState.WAITING, result="", seconds=0.0,
    arguments='{"path": "/home/ada/notes/trip.md", "content": "# Vienna\\n\\n- 27 November: train at 07:28\\n"}',
)  # fmt: skip
_DRAWING = "I will have it drawn."
_BEFORE = "I will look up what time it is, and what your notes say."
_BETWEEN = "\n\nThere is no note about the trip yet, so I write one."


def make_tool_chat(*, is_waiting: bool) -> Chat:
    """Return a chat whose last answer calls tools."""
    question = long_chat.make_question(1, "When does my train to Vienna leave? Put it into my notes.", None)
    calls = [
        msgspec.structs.replace(_DONE, at=len(_BEFORE)),
        msgspec.structs.replace(_READ, at=len(_BEFORE)),
        msgspec.structs.replace(_WAITING, at=len(_BEFORE + _BETWEEN)),
    ]
    if is_waiting:
        answer = long_chat.make_answer(
            1, _BEFORE + _BETWEEN, calls=calls, status=MessageStatus.GENERATING, timings=None, reasoning=""
        )
    else:
        written_call = msgspec.structs.replace(calls[-1], state=ToolCallState.ANSWERED, result="Written.", seconds=0.1)
        rest = "\n\nYour train leaves at 07:28 tomorrow; it is in `trip.md` now."
        answer = long_chat.make_answer(1, _BEFORE + _BETWEEN + rest, calls=[*calls[:-1], written_call], reasoning="")
    chat = long_chat.make_chat([question, answer], title="Train to Vienna")
    return msgspec.structs.replace(chat, tools=TOOLS)


def make_drawn_chat() -> Chat:
    """Return a chat whose answer has a picture that was drawn for it."""
    question = long_chat.make_question(1, "Draw me hills in the evening, please.", None)
    call = msgspec.structs.replace(
        _DONE, at=len(_DRAWING), server="pictures", tool="draw_picture", seconds=21.4, files=[EVENING.hash],
        arguments='{"prompt": "Hills in the evening, soft light, flat colours"}',
        result="SDXL drew the picture (1176 x 888 pixels). The person sees it below this call; it needs no link.",
    )  # fmt: skip
    text = f"{_DRAWING}\n\nHere are the hills, in the last light of the day."
    answer = long_chat.make_answer(1, text, calls=[call], attachments=[EVENING], reasoning="")
    return long_chat.make_chat([question, answer], title="Hills in the evening")


def tool_scenes(replies: Replies) -> Iterator[Scene]:
    """Yield the calls of an answer and the card of tools; `replies` are those of a chat page."""
    looks = (*USUAL_LOOKS, SceneLook(is_mirrored=True))
    known_replies: Replies = {**replies, "GET /mcp/servers": SERVERS}
    waiting_replies: Replies = {**known_replies, "GET /chats/c1": make_tool_chat(is_waiting=True)}
    done_replies: Replies = {**known_replies, "GET /chats/c1": make_tool_chat(is_waiting=False)}
    yield Scene("chat-tool-waits", PageId.CHAT, waiting_replies, open_tool_chat, looks=looks)
    yield Scene("chat-tool-calls", PageId.CHAT, done_replies, unfold_call, looks=looks)
    guide: Replies = {**known_replies, "GET /chats/c1": make_guide_chat()}
    yield Scene("chat-guide", PageId.CHAT, guide, open_tool_chat, looks=looks)
    drawn_replies: Replies = {**known_replies, **file_replies(), "GET /chats/c1": make_drawn_chat()}
    yield Scene("chat-drawn-picture", PageId.CHAT, drawn_replies, open_drawn_chat, looks=looks)
    yield Scene("chat-tools", PageId.CHAT, done_replies, open_tools, looks=looks)
    yield Scene("chat-tools-none", PageId.CHAT, {**known_replies, "GET /mcp/servers": []}, open_tools)


def open_tool_chat(window: MainWindow, api: DemoApi) -> None:
    """Open the chat."""
    page = window.pages.currentWidget()
    if isinstance(page, ChatScreen):
        page.model.open_chat("c1")
        api.flush()


def open_drawn_chat(window: MainWindow, api: DemoApi) -> None:
    """Open the chat; the picture is asked for once it is to be drawn."""
    open_tool_chat(window, api)
    window.grab()
    api.flush()


def unfold_call(window: MainWindow, api: DemoApi) -> None:
    """Open the chat, and the first call in it."""
    open_tool_chat(window, api)
    page = window.pages.currentWidget()
    if isinstance(page, ChatScreen):
        transcript = page.conversation_view.transcript
        turn = transcript.document.turns[1]
        turn.lay_out_between(0, 1e6)
        spot = next(spot for spot in turn.spots_between(0, 1e6) if spot.verb is Verb.FOLD_CALL)
        transcript.perform_action(1, spot)


def open_tools(window: MainWindow, api: DemoApi) -> None:
    """Open the chat, and the card of its tools."""
    open_tool_chat(window, api)
    page = window.pages.currentWidget()
    if isinstance(page, ChatScreen):
        page.conversation_view.toggle_tools()
        api.flush()


def make_guide_chat() -> Chat:
    """Return a chat in which the Guide looked up which model fits."""
    question = long_chat.make_question(1, "Which model fits this computer?", None)
    call = msgspec.structs.replace(
        _DONE, at=0, server="roundhouse", tool="search", arguments='{"best": "chat"}', is_read_only=True,
        result='{"recommended": [{"name": "Qwen3 8B", "pull": "qwen3:8b", "is_recommended": true}]}',
    )  # fmt: skip
    text = (
        "**Qwen3 8B** suits this computer best: Q4_K_M, 6.2 GiB of memory, about 48 tok/s (39 to 57), 4.7 GiB to"
        " download.\n\nOthers that run well: Gemma 3 4B (Q4_K_M, 3.9 GiB of memory, about 71 tok/s (58 to 84))."
    )
    actions = [
        AnswerAction(kind=ActionKind.DOWNLOAD, target="qwen3:8b", title="Qwen3 8B", command="roundhouse pull qwen3:8b"),
        AnswerAction(kind=ActionKind.OPEN_PAGE, target="models", task="discover"),
    ]
    answer = long_chat.make_answer(1, text, calls=[call], actions=actions, reasoning="", timings=None)
    chapter = "# Finding models\n\n## Discover\n\nDiscover shows the catalogue, judged for this computer."
    source = AnswerSource(
        number=1, collection=MANUAL, file="guide/models.md", path="guide/models.md", text=chapter, start=0,
        end=len(chapter), heading="Finding models > Discover", tokens=30,
    )  # fmt: skip
    answer = msgspec.structs.replace(answer, model="guide", engine="", documents=AnswerDocuments(sources=[source]))
    return long_chat.make_chat([question, answer], title="Which model fits this computer?")
