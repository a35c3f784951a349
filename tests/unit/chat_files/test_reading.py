"""Exports of other programs, read: the fixtures are written from their documented forms."""

import json
import zipfile
from pathlib import Path

import msgspec
import pytest

from app.chat_files.reading import ReadChat, ReadFolder, read_chats, read_export
from app.chat_files.source import FileContent, SourceChat, SourceMessage, build_chat
from app.chat_files.writing import encode_chats, visible_path, write_html, write_markdown
from app.core.attachments import Attachment, AttachmentKind
from app.core.chats import Chat, ChatFolder, Message, MessageStatus, Role, Sampling, Timings
from app.core.errors import BadRequest, EnvironmentFault, NotFound
from app.core.tool_calls import AnswerToolCall, ToolCallState

FIXTURES = Path(__file__).parents[2] / "fixtures" / "chats"


def only_chat(path: Path) -> Chat:
    chats = [item.chat for item in read_chats(path) if item.chat is not None]
    assert len(chats) == 1
    return chats[0]


def lines(chat: Chat) -> list[tuple[str, str]]:
    return [(message.role.value, message.content) for message in visible_path(chat)]


def test_chatgpt_keeps_its_branches_and_drops_what_tools_are_told() -> None:
    first, empty = read_chats(FIXTURES / "chatgpt.json")
    assert first.chat is not None
    assert lines(first.chat) == [
        ("user", "How high is the pressure in a locomotive's boiler?"),
        ("assistant", "Between 12 and 20 bar; the class 01 had 16."),
        ("user", "And in this one?"),
        ("assistant", "I cannot tell from the picture."),
    ]
    assert [message.content for message in first.chat.messages if message not in visible_path(first.chat)] == [
        "About 14 bar."
    ]
    answer = visible_path(first.chat)[1]
    assert (answer.reasoning, answer.model) == ("The German class 01 had 16 bar.", "o3")
    assert (first.chat.title, first.chat.created_at, first.left_out) == ("Steam pressure", 1735725600.25, 1)
    assert empty.chat is None


def test_claude_keeps_files_as_text_and_thoughts_apart() -> None:
    chat = only_chat(FIXTURES / "claude.json")
    assert [role for role, _ in lines(chat)] == ["user", "assistant", "user", "assistant"]
    (item,) = read_chats(FIXTURES / "claude.json")
    assert item.files == {chat.messages[0].id: [FileContent("shed.txt", b"23 m, 12 roads")]}
    assert item.left_out == 1
    assert (chat.messages[1].content, chat.messages[1].reasoning) == ("It is 23 m.", "The note says 23 m.")
    assert chat.messages[3].content == "Twelve."
    assert chat.updated_at - chat.created_at == 330.0


def test_open_webui_keeps_both_answers_and_unfolds_thoughts() -> None:
    chat = only_chat(FIXTURES / "open_webui.json")
    assert [message.content for message in chat.messages] == [
        "What does a yellow signal say?",
        "Stop.",
        "Expect the next signal at stop.",
    ]
    assert chat.messages[2].reasoning == "Yellow is a distant signal."
    assert chat.head == chat.messages[2].id
    assert (chat.system_prompt, chat.model) == ("Answer in one sentence.", "qwen3:8b")
    assert (chat.is_pinned, chat.is_archived) == (True, False)


def test_lm_studio_keeps_every_version() -> None:
    chat = only_chat(FIXTURES / "1742000000000.conversation.json")
    assert lines(chat) == [
        ("user", "Which coal is best?"),
        ("assistant", "Anthracite."),
        ("user", "Why?"),
        ("assistant", "It has the most carbon."),
    ]
    assert [message.content for message in chat.messages if message.parent is None] == [
        "Which coal burns hottest?",
        "Which coal is best?",
    ]
    assert (chat.model, chat.system_prompt, chat.created_at) == ("qwen3-8b", "Be brief.", 1742000000.0)
    assert visible_path(chat)[1].reasoning == "Anthracite, then."


def test_llama_cpp_keeps_its_tree_and_files_that_are_text() -> None:
    (item,) = read_chats(FIXTURES / "llama_cpp.json")
    assert item.chat is not None
    assert item.left_out == 0
    messages = visible_path(item.chat)
    assert [message.content for message in messages][1:] == ["Where a track divides.", "Thanks"]
    assert item.files == {messages[0].id: [FileContent("yard.txt", b"7 points"), FileContent("a.png", bytes(3))]}
    assert len(item.chat.messages) == 4


def test_jan_joins_the_two_files_of_a_thread_and_passes_over_a_line_that_was_cut_off() -> None:
    (item,) = read_chats(FIXTURES / "jan")
    assert item.chat is not None
    assert lines(item.chat) == [("user", "Why two tones?"), ("assistant", "So that it is told from a horn.")]
    assert (item.chat.title, item.chat.system_prompt, item.left_out) == ("Whistles", "Be kind.", 0)
    assert item.files == {item.chat.messages[0].id: [FileContent("picture", bytes(3))]}


def test_a_list_of_messages_is_a_chat() -> None:
    chat = only_chat(FIXTURES / "messages.json")
    assert (chat.system_prompt, lines(chat)) == ("Speak plainly.", [("user", "Hello"), ("assistant", "Good morning.")])


def test_a_folder_has_the_chats_of_all_its_files() -> None:
    programs = {item.program for item in read_chats(FIXTURES)}
    assert {"ChatGPT", "Claude", "Open WebUI", "LM Studio", "llama.cpp", "Jan"} <= programs


def test_an_archive_is_read_without_being_unpacked(tmp_path: Path) -> None:
    archive = tmp_path / "export.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as file:
        file.write(FIXTURES / "chatgpt.json", "../../conversations.json")
        file.writestr("user.json", '{"id": "user-1"}')
        file.writestr("chat.html", "<html>")
    assert [item.program for item in read_chats(archive)] == ["ChatGPT", "ChatGPT"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["export.zip"]


@pytest.mark.parametrize("name", ["chatgpt.json", "claude.json", "open_webui.json", "llama_cpp.json", "messages.json"])
def test_reading_again_gives_the_same_ids(name: str) -> None:
    assert list(read_chats(FIXTURES / name)) == list(read_chats(FIXTURES / name))


@pytest.mark.parametrize("name", sorted(path.name for path in FIXTURES.glob("*.json")))
def test_an_export_cut_off_anywhere_is_a_sentence(name: str, tmp_path: Path) -> None:
    whole = (FIXTURES / name).read_bytes().rstrip()
    for part in range(1, 20):
        file = tmp_path / f"{part}.json"
        file.write_bytes(whole[: len(whole) * part // 20])
        with pytest.raises(BadRequest):
            list(read_chats(file))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "null",
        "[]",
        "{}",
        "[1, 2]",
        '"text"',
        '{"mapping": 3}',
        "[" * 100_000,
        '{"a": ' * 50_000,
        '{"title": "A saved game", "messages": [{"level": 3}]}',
    ],
)
def test_what_is_no_export_is_refused(text: str, tmp_path: Path) -> None:
    file = tmp_path / "file.json"
    file.write_text(text)
    with pytest.raises(BadRequest):
        list(read_chats(file))


def test_a_file_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        list(read_chats(tmp_path / "none.json"))


def test_a_broken_archive_is_a_sentence(tmp_path: Path) -> None:
    archive = tmp_path / "export.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as file:
        file.write(FIXTURES / "chatgpt.json", "conversations.json")
    data = bytearray(archive.read_bytes())
    data[60:90] = bytes(30)
    archive.write_bytes(data)
    with pytest.raises((EnvironmentFault, BadRequest)):
        list(read_chats(archive))


def mutate(value: object, kinds: list[object], at: list[int]) -> object:
    """Return the value with one of its parts, the `at[0]`th, replaced by each kind in turn."""
    at[0] -= 1
    if at[0] == 0:
        return kinds[0]
    if isinstance(value, dict):
        return {key: mutate(item, kinds, at) for key, item in value.items()}
    if isinstance(value, list):
        return [mutate(item, kinds, at) for item in value]
    return value


@pytest.mark.slow(cases=1)
@pytest.mark.parametrize("name", sorted(path.name for path in FIXTURES.glob("*.json")))
def test_no_value_of_another_kind_breaks_a_reader(name: str, tmp_path: Path) -> None:
    value = json.loads((FIXTURES / name).read_text())
    file = tmp_path / name
    kinds: list[object] = [None, 7, "x", [], {}, [{}], True, -1e300]
    for kind in kinds:
        for place in range(2, 60):
            file.write_text(json.dumps(mutate(value, [kind], [place])))
            try:
                items = list(read_chats(file))
            except BadRequest:
                continue
            for item in items:
                assert_is_tree(item)


def assert_is_tree(item: ReadChat) -> None:
    if item.chat is None:
        return
    seen_roles: dict[str | None, Role] = {}
    for message in item.chat.messages:
        assert message.parent is None or message.parent in seen_roles
        assert seen_roles.get(message.parent) is not message.role
        seen_roles[message.id] = message.role
    assert item.chat.head in seen_roles
    msgspec.json.encode(item.chat)


def test_nodes_that_follow_each_other_in_a_circle_end() -> None:
    nodes = [
        SourceMessage(id="a", parent="b", role="user", content="1"),
        SourceMessage(id="b", parent="a", role="assistant", content="2"),
        SourceMessage(id="c", parent="c", role="user", content="3"),
        SourceMessage(id="c", parent="c", role="user", content="4"),
    ]
    chat, _ = build_chat(SourceChat(program="test", id="1", messages=nodes))
    assert chat is not None
    assert [message.content for message in chat.messages] == ["3"]


def test_what_one_side_says_in_a_row_is_one_message_also_where_it_branches() -> None:
    nodes = [
        SourceMessage(id="q", parent=None, role="user", content="Q"),
        SourceMessage(id="a", parent="q", role="assistant", content="A"),
        SourceMessage(id="t", parent="a", role="tool", content="secret"),
        SourceMessage(id="b", parent="t", role="assistant", content="B"),
        SourceMessage(id="c", parent="t", role="assistant", content="C"),
        SourceMessage(id="r", parent="a", role="user", content="R"),
    ]
    chat, _ = build_chat(SourceChat(program="test", id="1", messages=nodes, current="c"))
    assert chat is not None
    contents = {message.id: message.content for message in chat.messages}
    followed_pairs = {(contents.get(message.parent or ""), message.content) for message in chat.messages}
    assert followed_pairs == {(None, "Q"), ("Q", "A\n\nB"), ("Q", "A\n\nC"), ("Q", "A"), ("A", "R")}
    assert contents[chat.head or ""] == "A\n\nC"


@pytest.mark.slow
def test_a_tree_of_ten_thousand_turns_is_built() -> None:
    nodes = [
        SourceMessage(id=str(n), parent=str(n - 1), role="assistant" if n % 2 else "user", content=f"{n}")
        for n in range(20_000)
    ]
    chat, _ = build_chat(SourceChat(program="test", id="1", messages=nodes))
    assert chat is not None
    assert len(visible_path(chat)) == 20_000


CHAT = Chat(
    id="c1",
    title="A <b>title</b>",
    model="guide",
    system_prompt="Be brief.",
    sampling=Sampling(temperature=0.5),
    head="m2",
    created_at=1700000000.0,
    updated_at=1700000100.0,
    messages=[
        Message(id="m1", chat="c1", parent=None, role=Role.USER, content="<script>alert(1)</script> & **bold**"),
        Message(
            id="m2",
            chat="c1",
            parent="m1",
            role=Role.ASSISTANT,
            content="| a | b |\n|---|---|\n| 1 | 2 |\n\n![x](file:///etc/passwd)",
            reasoning="Hm.",
            model="guide",
            timings=Timings(total_s=1.5),
        ),
        Message(id="m3", chat="c1", parent="m1", role=Role.ASSISTANT, content="Another", error="It broke."),
        Message(id="m4", chat="c1", parent="m3", role=Role.USER, content="More"),
    ],
)


def test_json_has_everything_and_comes_back_the_same(tmp_path: Path) -> None:
    file = tmp_path / "chats.json"
    file.write_bytes(encode_chats([CHAT, msgspec.structs.replace(CHAT, id="c2")], {}))
    assert [item.chat for item in read_chats(file)] == [CHAT, msgspec.structs.replace(CHAT, id="c2")]


def test_files_come_back_with_their_messages(tmp_path: Path) -> None:
    photo = Attachment(
        id="a1", name="p.png", kind=AttachmentKind.PICTURE, media_type="image/png", hash="f0", size_bytes=3, tokens=9
    )
    lost_file = msgspec.structs.replace(photo, id="a2", hash="f1")
    question = msgspec.structs.replace(CHAT.messages[0], attachments=[photo, lost_file])
    chat = msgspec.structs.replace(CHAT, messages=[question, *CHAT.messages[1:]])
    file = tmp_path / "chats.json"
    file.write_bytes(encode_chats([chat], {"f0": b"png"}))
    (item,) = read_chats(file)
    assert (item.chat, item.files, item.left_out) == (chat, {"m1": [FileContent("p.png", b"png")]}, 1)
    assert "![p.png](<x files/p.png>)" in write_markdown(chat, {"a1": "x files/p.png"}).decode()
    assert 'src="data:image/png;base64,cG5n"' in write_html(chat, {"a1": ("image/png", b"png")}).decode()


def test_folders_come_before_the_chats_that_are_in_them(tmp_path: Path) -> None:
    rules = Attachment(
        id="a1", name="r.txt", kind=AttachmentKind.TEXT, media_type="text/plain", hash="f0", size_bytes=3, tokens=9
    )
    folder = ChatFolder(id="d1", name="Sheds", system_prompt="Be brief.", files=[rules])
    chat = msgspec.structs.replace(CHAT, folder="d1", tags=["work"], is_pinned=True, is_archived=True)
    file = tmp_path / "chats.json"
    file.write_bytes(encode_chats([chat], {"f0": b"txt"}, [folder]))
    first, second = read_export(file)
    assert first == ReadFolder(folder=folder, files=[FileContent("r.txt", b"txt")])
    assert isinstance(second, ReadChat)
    assert second.chat == chat
    file.write_bytes(encode_chats([chat], {}, [folder]))
    first, _ = read_export(file)
    assert first == ReadFolder(folder=folder, left_out=1, files=[])
    assert json.loads(file.read_bytes())["left_out"] == ["r.txt"]


def test_an_answer_that_is_being_written_is_exported_as_broken_off(tmp_path: Path) -> None:
    writing_message = msgspec.structs.replace(CHAT.messages[1], status=MessageStatus.GENERATING)
    file = tmp_path / "chats.json"
    file.write_bytes(encode_chats([msgspec.structs.replace(CHAT, messages=[CHAT.messages[0], writing_message])], {}))
    (item,) = read_chats(file)
    assert item.chat is not None
    assert item.chat.messages[1].status is MessageStatus.INTERRUPTED


def test_markdown_has_the_branch_that_is_shown_and_says_that_there_are_others() -> None:
    text = write_markdown(CHAT, {}).decode()
    assert "## You\n\n<script>" in text
    assert "<details><summary>Thinking</summary>" in text
    assert "Another" not in text
    assert "2 messages of other branches are not shown" in text


def test_an_answer_has_the_name_of_its_model_and_its_speed() -> None:
    timings = Timings(ttft_s=2.5, load_s=2.0, decode_tokens_per_s=38.26)
    answer = Message(id="a", chat="c", parent=None, role=Role.ASSISTANT, content="Yes.", model="guide", timings=timings)
    chat = msgspec.structs.replace(CHAT, messages=[answer], head="a")
    notes = "38.3 tokens per second · 0.50 s to the first token"
    assert f"## guide\n\n*{notes}*\n\nYes." in write_markdown(chat, {}).decode()
    assert notes in write_html(chat, {}).decode()
    edited_answer = msgspec.structs.replace(answer, timings=None, is_edited=True)
    assert (
        "## guide\n\n*edited*" in write_markdown(msgspec.structs.replace(chat, messages=[edited_answer]), {}).decode()
    )


def test_calls_of_tools_are_shown_with_their_results_and_run_nothing() -> None:
    result = "```\n<script>alert(1)</script>\n```"
    call = AnswerToolCall(id="1", round=1, at=0, server="time", tool="now", arguments="{}", result=result)
    call = msgspec.structs.replace(call, state=ToolCallState.ANSWERED)
    refused_call = msgspec.structs.replace(call, id="2", state=ToolCallState.REFUSED, result="")
    answer = Message(id="a", chat="c", parent=None, role=Role.ASSISTANT, content="Noon.", calls=[call, refused_call])
    chat = msgspec.structs.replace(CHAT, messages=[answer], head="a")
    text, page = write_markdown(chat, {}).decode(), write_html(chat, {}).decode()
    for rendered_text in (text, page):
        assert "<summary>Tool time: now</summary>" in rendered_text
        assert "<summary>Tool time: now (not allowed)</summary>" in rendered_text
    assert f"````\n{result}\n````" in text
    assert "<script" not in page
    assert "&lt;script&gt;" in page


def test_a_page_runs_nothing_and_loads_nothing() -> None:
    page = write_html(CHAT, {}).decode()
    assert "<script" not in page
    assert "&lt;script&gt;" in page
    assert "<table>" in page
    assert "default-src 'none'" in page
    assert "A &lt;b&gt;title" in page
    assert 'src="file:' not in page
