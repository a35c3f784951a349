"""Pictures in a chat: its model calls the tool, an attached endpoint draws, the answer has the picture."""

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web

from app.chat_files.writing import write_html, write_markdown
from app.core.attachments import AttachmentKind, AttachmentPart
from app.core.capabilities import Capability
from app.core.chats import AnswerCallChanged, Chat, ForkChat, Message, NewVersion, Turn
from app.core.mcp import BuiltinServer, McpPermission, McpServer, McpServerSettings, McpTool, SetMcpPermission
from app.core.models import AttachEndpoint
from app.core.tool_calls import AnswerToolCall, ChatTools, ToolCallState
from app.gateway.chats import pictures
from app.gateway.library.attached_endpoints import attach
from tests.gateway.admin.conftest import LAST, Api, chunk
from tests.gateway.admin.test_attachments import png
from tests.gateway.admin.test_chat_tools import CALLED, next_call, wish
from tests.gateway.admin.test_mcp import add, call, start
from tests.gateway.far import Far, begin_stream
from tests.gateway.played import Gateway
from tests.patience import PATIENCE_S

PICTURE = png(64, 48)
ARGUMENTS = {"prompt": "A red engine / at dawn", "size": "512x512"}
CAN = [Capability.CHAT, Capability.IMAGES]


def drawing(content: bytes) -> dict[str, Any]:
    return {"created": 1, "data": [{"b64_json": base64.b64encode(content).decode()}]}


class Painter:
    """An endpoint whose model calls the tool once in each chat, and that draws what `reply` says."""

    def __init__(self, far: Far) -> None:
        self.far, self.reply, self.arguments = far, drawing(PICTURE), dict[str, Any](ARGUMENTS)
        self.status, self.is_slow, self.refuses_form = 200, False, False
        self.is_drawing = asyncio.Event()
        far.play = self.play

    async def play(self, request: web.Request) -> web.StreamResponse:
        if request.path == "/v1/images/generations":
            return await self.draw()
        response = await begin_stream(request)
        fields = self.far.posts[-1][1]
        if fields.get("tools") and fields["messages"][-1]["role"] == "user":
            await response.write(wish("pictures__draw_picture", self.arguments) + CALLED)
        else:
            await response.write(chunk("Here it is.") + LAST)
        return response

    async def draw(self) -> web.StreamResponse:
        self.is_drawing.set()
        if self.is_slow:
            await asyncio.Event().wait()
        if self.refuses_form and "response_format" in self.requests[-1]:
            error = {"error": {"message": "Unknown parameter: 'response_format'.", "type": "invalid_request_error"}}
            return web.json_response(error, status=400)
        return web.json_response(self.reply, status=self.status)

    @property
    def requests(self) -> list[dict[str, Any]]:
        """What was to be drawn."""
        return [fields for path, fields in self.far.posts if path == "/v1/images/generations"]

    def conversation(self) -> list[dict[str, Any]]:
        """The messages that the model was last sent."""
        messages: list[dict[str, Any]] = [
            fields["messages"] for path, fields in self.far.posts if path == "/v1/chat/completions"
        ][-1]
        return messages


@pytest.fixture
def painter(far: Far) -> Painter:
    return Painter(far)


@pytest.fixture
async def picture_api(near: Gateway, painter: Painter) -> Api:
    """The gateway whose model may draw without asking."""
    near.services.settings.change_values({"chats.titles": False})
    await attach(near.services, AttachEndpoint(url=painter.far.url, name="distant", can=CAN))
    api = Api(near)
    await add_server(api)
    body = SetMcpPermission(permission=McpPermission.ALLOW)
    await api.call("POST", "/mcp/servers/pictures/tools/draw_picture/permission", McpTool, body)
    return api


async def add_server(api: Api) -> McpServer:
    await add(api, "pictures", McpServerSettings(builtin=BuiltinServer.PICTURES))
    return await start(api, "pictures")


async def ask(api: Api) -> Turn:
    chat = await api.chat(tools=ChatTools(servers=["pictures"]), model="distant")
    return await api.ask(chat.id, "Draw an engine.")


async def answer_of(api: Api) -> Message:
    return await api.read_to_end((await ask(api)).answer)


@asynccontextmanager
async def answer_drawing(api: Api, painter: Painter) -> AsyncIterator[Turn]:
    """An answer whose picture is being drawn, and takes its time."""
    painter.is_slow = True
    turn = await ask(api)
    await asyncio.wait_for(painter.is_drawing.wait(), PATIENCE_S)
    yield turn


@pytest.mark.slow
async def test_a_picture_is_drawn_and_kept_with_the_answer(picture_api: Api, painter: Painter) -> None:
    turn = await ask(picture_api)
    events = [event async for event in _events_of(picture_api, turn.answer)]
    final_message = (await picture_api.read(turn.answer.chat)).messages[-1]
    assert painter.requests == [
        {"model": "big", "prompt": ARGUMENTS["prompt"], "size": "512x512", "n": 1, "response_format": "b64_json"}
    ]
    (picture,), (drawing_call,) = final_message.attachments, final_message.calls
    assert (picture.name, picture.kind, picture.width) == ("A red engine at dawn.png", AttachmentKind.PICTURE, 64)
    assert (drawing_call.state, drawing_call.files, final_message.content) == (
        ToolCallState.ANSWERED,
        [picture.hash],
        "Here it is.",
    )
    assert "drew the picture (64 x 48 pixels). The person sees it" in drawing_call.result
    assert [event.attachments for event in events if event.call.state is ToolCallState.ANSWERED] == [[picture]]
    status, content = await picture_api.raw("GET", f"/attachments/{picture.id}/content?part={AttachmentPart.ORIGINAL}")
    assert (status, content) == (200, PICTURE)
    assert painter.conversation()[-1]["content"] == drawing_call.result, "the model is told in words"
    await the_next_question_brings_no_picture_to_the_model(picture_api, painter, final_message)
    await copies_and_exports_have_it(picture_api, final_message)


async def _events_of(api: Api, answer: Message) -> AsyncIterator[AnswerCallChanged]:
    async with api.follow(answer) as events:
        async for event in events:
            if isinstance(event, AnswerCallChanged):
                yield event


async def the_next_question_brings_no_picture_to_the_model(api: Api, painter: Painter, final_message: Message) -> None:
    turn = await api.ask(final_message.chat, "And now?", parent=final_message.id)
    again = await api.read_to_end(turn.answer)
    assert again.status == "complete"
    assert all(isinstance(message["content"], str | None) for message in painter.conversation())


async def copies_and_exports_have_it(api: Api, final_message: Message) -> None:
    fork = await api.call("POST", f"/chats/{final_message.chat}/fork", Chat, ForkChat(message=final_message.id))
    (copied_file,) = fork.messages[-1].attachments
    assert (copied_file.hash, copied_file.id != final_message.attachments[0].id) == (
        final_message.attachments[0].hash,
        True,
    )
    edited_message = await api.call(
        "POST", f"/chats/{fork.id}/messages/{fork.messages[-1].id}/versions", Message, NewVersion(content="A picture.")
    )
    assert [file.hash for file in edited_message.attachments] == final_message.calls[0].files
    text = write_markdown(fork, {copied_file.id: "files/engine.png"}).decode()
    assert f"![{copied_file.name}](<files/engine.png>)" in text
    assert text.index("Tool pictures: draw_picture") < text.index("![")
    assert copied_file.name in write_html(fork, {copied_file.id: ("image/png", PICTURE)}).decode()
    assert f"Attached: {copied_file.name}" in write_markdown(fork).decode()


@pytest.mark.slow(cases=1)
@pytest.mark.parametrize(
    ("reply", "status", "words"),
    [
        (drawing(b"%PDF-1.4 not a picture"), 200, "damaged"),
        (drawing(b"Only words."), 200, "The endpoint answered, and not with a picture."),
        (drawing(PICTURE[:60]), 200, "damaged"),
        ({"data": [{"b64_json": "no base64!"}]}, 200, "not with a picture"),
        ({"data": []}, 200, "not with a picture"),
        ({"data": 5}, 200, "could not be understood"),
        ({"data": [{"url": "http://192.168.0.1/admin"}]}, 200, "an address instead of the picture"),
        ({"error": {"message": "The prompt is not allowed here."}}, 400, "not allowed here"),
    ],
)
async def test_what_is_no_picture_is_told_and_nothing_is_kept(
    picture_api: Api, painter: Painter, reply: dict[str, Any], status: int, words: str
) -> None:
    painter.reply, painter.status = reply, status
    final_message = await answer_of(picture_api)
    failed_call = the_failed_call(final_message)
    assert words in failed_call.result, failed_call.result
    assert painter.conversation()[-1]["content"] == f"Error: {failed_call.result}"
    assert len(painter.requests) == 1


def the_failed_call(final_message: Message) -> AnswerToolCall:
    (drawing_call,) = final_message.calls
    assert (drawing_call.state, drawing_call.files, final_message.attachments) == (ToolCallState.FAILED, [], [])
    assert (final_message.status, final_message.content) == ("complete", "Here it is.")
    return drawing_call


async def test_arguments_that_are_not_as_described_reach_nobody(picture_api: Api, painter: Painter) -> None:
    painter.arguments = {"prompt": "An engine", "size": "9x9"}
    assert "size" in the_failed_call(await answer_of(picture_api)).result
    assert painter.requests == []


async def test_a_picture_has_a_largest_size(
    picture_api: Api, painter: Painter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pictures, "LARGEST_PICTURE", 20)
    assert "more than 0 MiB" in the_failed_call(await answer_of(picture_api)).result


async def test_an_endpoint_that_knows_no_form_is_asked_without(picture_api: Api, painter: Painter) -> None:
    painter.refuses_form = True
    assert len((await answer_of(picture_api)).attachments) == 1
    assert ["response_format" in request for request in painter.requests] == [True, False]


async def test_drawing_has_a_limit_of_time(picture_api: Api, painter: Painter, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pictures, "LIMIT_S", 0.05)
    painter.is_slow = True
    assert "No picture came within" in the_failed_call(await answer_of(picture_api)).result
    await asyncio.wait_for(painter.far.disconnect.wait(), PATIENCE_S)


async def test_an_answer_that_is_stopped_ends_the_drawing(picture_api: Api, painter: Painter) -> None:
    async with answer_drawing(picture_api, painter) as turn:
        stopped_message = await picture_api.stop(turn.answer)
    assert [each.state for each in stopped_message.calls] == [ToolCallState.CANCELLED]
    assert (stopped_message.status, stopped_message.attachments) == ("stopped", [])
    await asyncio.wait_for(painter.far.disconnect.wait(), PATIENCE_S)


async def test_without_an_endpoint_that_draws_tool_and_page_say_so(near: Gateway, painter: Painter) -> None:
    near.services.settings.change_values({"chats.titles": False})
    api, words = Api(near), "No model here makes pictures. An attached endpoint with an image model does"
    server = await add_server(api)
    assert server.lack.startswith(words)
    (tool,) = server.tools
    assert (tool.about.name, tool.about.is_read_only, tool.permission) == ("draw_picture", False, McpPermission.ASK)
    assert (await api.call("GET", "/mcp/servers", list[McpServer]))[0].lack.startswith(words)
    turn = await ask(api)
    async with api.follow(turn.answer) as events:
        waiting_call = await next_call(events, ToolCallState.WAITING)
        assert json.loads(waiting_call.arguments) == ARGUMENTS, "a person sees what would be drawn"
        path = f"/chats/{turn.answer.chat}/answers/{turn.answer.id}/calls/{waiting_call.id}"
        await api.call("POST", path, Message, {"decision": "once"})
        assert (await next_call(events, ToolCallState.FAILED)).result.startswith(words)
    await api.read_to_end(turn.answer)
    await attach(near.services, AttachEndpoint(url=painter.far.url, name="distant", can=CAN))
    assert (await api.call("GET", "/mcp/servers/pictures", McpServer)).lack == ""


async def test_outside_of_chats_nothing_is_drawn(picture_api: Api, painter: Painter) -> None:
    result = await call(picture_api, "pictures", "draw_picture", **ARGUMENTS)
    assert (result.is_error, "in chats of Roundhouse only" in result.text) == (True, True)
    assert painter.requests == []
