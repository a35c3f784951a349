"""How long a conversation is, roughly, and how large a picture."""

import base64
import struct

import msgspec
import pytest

from app.gateway.canonical.request import (
    ConversationMessage,
    ConversationRequest,
    Image,
    MessageRole,
    Part,
    Text,
    Thinking,
    ToolCall,
    ToolDefinition,
    ToolResult,
    size_of,
)
from app.gateway.exchange.token_count import estimate_tokens

TURN, ANSWER = 4, 3


def make_message(*parts: Part, role: MessageRole = MessageRole.USER) -> ConversationMessage:
    return ConversationMessage(role, parts)


def png(width: int, height: int) -> str:
    return base64.b64encode(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + struct.pack(">II", width, height) + b"rest").decode()


def jpeg(width: int, height: int, before: bytes = b"") -> str:
    frame = b"\xff\xc2" + struct.pack(">HBHH", 17, 8, height, width)
    return base64.b64encode(b"\xff\xd8" + before + frame + b"rest").decode()


EXIF = b"\xff\xe1" + struct.pack(">H", 65_000) + b"x" * 64_998 + b"\xff\xc4" + struct.pack(">H", 4) + b"hu"


@pytest.mark.parametrize(
    ("data", "size"),
    [
        (png(640, 480), (640, 480)),
        (jpeg(640, 480), (640, 480)),
        (jpeg(800, 1, EXIF), (800, 1)),
        (png(1, 1)[:20], None),
        (base64.b64encode(b"\xff\xd8\xff").decode(), None),
        (base64.b64encode(b"\xff\xd8nothing at all").decode(), None),
        (base64.b64encode(b"GIF89a").decode(), None),
        ("AAA", None),
        ("", None),
        ("\u00e9", None),
    ],
)
def test_a_pictures_size_is_read_from_its_head(data: str, size: tuple[int, int] | None) -> None:
    assert size_of(data) == size


@pytest.mark.parametrize(
    ("data", "tokens"), [(png(300, 250), 100), (png(1568, 1), 3), (png(8000, 8000), 1600), ("", 1600), (png(0, 0), 0)]
)
def test_a_picture_is_as_many_tokens_as_it_has_room(data: str, tokens: int) -> None:
    picture = Image(media_type="image/png", data=data)
    assert estimate_tokens(ConversationRequest(messages=(make_message(picture),))) == tokens + TURN + ANSWER


@pytest.mark.parametrize(
    ("messages", "size_bytes", "turns"),
    [
        ((make_message(Text("a" * 400)),), 400, 1),
        ((make_message(Text("\u4e2d" * 100)),), 300, 1),
        ((make_message(),), 0, 1),
        (
            (
                make_message(Text("a" * 40), role=MessageRole.SYSTEM),
                make_message(Text("b" * 40)),
                make_message(role=MessageRole.ASSISTANT),
            ),
            80,
            3,
        ),
        (
            (
                make_message(
                    ToolResult(call_id="1", text="a" * 8), ToolResult(call_id="2", text="b" * 8), role=MessageRole.TOOL
                ),
            ),
            16,
            2,
        ),
        ((make_message(ToolResult(call_id="1", text="a" * 8), Text("and?" * 2)),), 16, 2),
        ((make_message(ToolCall(id="1", name="look", arguments='{"at":1}'), role=MessageRole.ASSISTANT),), 39, 1),
    ],
)
def test_text_counts_by_its_bytes_and_turns_by_their_marks(
    messages: tuple[ConversationMessage, ...], size_bytes: int, turns: int
) -> None:
    assert estimate_tokens(ConversationRequest(messages=messages)) == -(-size_bytes // 4) + TURN * turns + ANSWER


def test_what_was_reasoned_before_the_last_question_is_not_read_again() -> None:
    thought = make_message(Thinking("h" * 400), Text("a"), role=MessageRole.ASSISTANT)
    before = ConversationRequest(messages=(make_message(Text("q")), thought, make_message(Text("q"))))
    after = ConversationRequest(messages=(make_message(Text("q")), make_message(Text("q")), thought))
    assert estimate_tokens(after) - estimate_tokens(before) == 100


def test_tools_are_read_too() -> None:
    schema = msgspec.Raw(b'{"type": "object"}')
    plain = ConversationRequest(messages=(make_message(Text("q")),))
    offered_request = msgspec.structs.replace(
        plain, tools=(ToolDefinition(name="look", description="d" * 400, parameters=schema),)
    )
    assert estimate_tokens(offered_request) - estimate_tokens(plain) > 120
