"""Single messages over the API and the command line, against a gateway of its own with fake engines."""

import json
from collections.abc import AsyncIterator

import pytest
from click.testing import CliRunner, Result

from app.cli import main
from app.core.chats import AnswerProgress, Chat, ChatSummary, MessageStatus, NewChat, NewTurn, Sampling, Turn
from app.core.documents import Collection, NewCollection
from app.core.engines import MemoryState, WaitingLoad
from tests.gateway.admin.conftest import LAST, Api, Pen, chunk, reasoning, text_until
from tests.gateway.admin.real_gateway import RealGateway
from tests.patience import wait_until


@pytest.fixture
def chat(service: RealGateway) -> Chat:
    return service.client.post("/chats", NewChat(title="Rails", model="quick"), Chat)


@pytest.fixture
def run(service: RealGateway, chat: Chat, monkeypatch: pytest.MonkeyPatch) -> "Run":
    monkeypatch.setenv("ROUNDHOUSE_HOME", str(service.paths.data.parent))
    return Run(chat.id)


class Run:
    """`roundhouse chats COMMAND CHAT ...`."""

    def __init__(self, chat: str) -> None:
        self.chat = chat

    def __call__(self, command: str, *arguments: str, text: str | None = None) -> Result:
        return CliRunner().invoke(main.roundhouse, ["chats", command, self.chat, *arguments], input=text)

    def json(self, command: str, *arguments: str) -> object:
        result = self(command, *arguments, "--json")
        assert result.exit_code == 0, result.output
        return json.loads(result.stdout)

    def words(self) -> list[str]:
        reply = self.json("messages")
        assert isinstance(reply, dict)
        return [message["content"] for message in reply["messages"]]


def test_a_question_is_asked_answered_again_and_listed(run: Run) -> None:
    assert run("ask", "How", "long?").exit_code == 0
    prompt = run.words()
    assert prompt[0] == "How long?"
    again = run.json("regenerate", "--model", "quick")
    assert isinstance(again, dict)
    assert [answer["model"] for answer in again["answers"]] == ["quick"]
    all_messages = run.json("messages", "--all")
    assert isinstance(all_messages, dict)
    assert [message["role"] for message in all_messages["messages"]] == ["user", "assistant", "assistant"]


def test_a_chat_is_begun_and_gone_on_with_in_collections(
    service: RealGateway, run: Run, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("elsewhere")
    (folder / "trains.md").write_text("The locomotive stood in the roundhouse.")
    new = NewCollection(name="Trains", folders=[str(folder)])
    collection = service.client.post("/collections", new, Collection)

    def is_read() -> bool:
        return service.client.get(f"/collections/{collection.id}", Collection).passages == 1

    wait_until(is_read)
    begin = ["chats", "new", "Where", "stood", "the", "locomotive?", "--model", "quick"]
    result = CliRunner().invoke(main.roundhouse, [*begin, "--title", "Engines", "--collection", "trains"])
    assert result.exit_code == 0, result.output
    assert "The new chat is " in result.stderr
    assert "[1] " in result.stderr
    assert "trains.md" in result.stderr
    summaries = service.client.get("/chats", list[ChatSummary])
    chat = next(each for each in summaries if each.title == "Engines")
    assert service.client.get(f"/chats/{chat.id}", Chat).collections == [collection.id]
    assert run("ask", "And the locomotive?", "--collection", "Trains").exit_code == 0
    whole = service.client.get(f"/chats/{run.chat}", Chat)
    assert (whole.collections, len(whole.messages[-1].documents.sources)) == ([collection.id], 1)
    refusal = run("ask", "Why?", "--collection", "nobody")
    assert (refusal.exit_code, "There is no collection 'nobody'" in refusal.stderr) == (2, True)
    assert len(service.client.get(f"/chats/{run.chat}", Chat).messages) == 2, "nothing was asked"


def test_several_models_answer_one_question_each_below_its_name(run: Run) -> None:
    result = run("ask", "Who?", "--model", "quick", "--model", "heavy")
    assert result.exit_code == 0, result.output
    assert result.stdout.index("quick:") < result.stdout.index("heavy:")
    assert "to the first token" in result.stderr
    all_messages = run.json("messages", "--all")
    assert isinstance(all_messages, dict)
    first, *answers = all_messages["messages"]
    assert {answer["parent"] for answer in answers} == {first["id"]}
    assert [answer["model"] for answer in answers] == ["quick", "heavy"]


def test_an_answer_is_edited_deleted_and_brought_back(run: Run) -> None:
    run("ask", "One?")
    run("ask", "Two?")
    original = run.words()
    assert run("edit", "2", text="Mine.\n").exit_code == 0
    assert run.words() == ["One?", "Mine."]
    assert run("delete-message", "last").exit_code == 0
    assert run.words() == original
    deleted_message = run.json("delete-message", "2")
    assert isinstance(deleted_message, dict)
    assert run.words() == [original[0], *original[2:]]
    assert run("restore-message", deleted_message["deleted"]["id"]).exit_code == 0
    assert run.words() == original


def test_an_edited_question_is_answered_when_that_is_asked(run: Run) -> None:
    run("ask", "One?")
    result = run("edit", "1", "Two?", "--ask")
    assert result.exit_code == 0, result.output
    assert run.words()[0] == "Two?"
    assert len(run.words()) == 2


def test_what_a_full_context_does_is_chosen_for_a_chat(run: Run) -> None:
    assert run("overflow").stdout == "default\n"
    assert run("overflow", "summarise").stdout == "summarise\n"
    assert run("overflow").stdout == "summarise\n"
    assert run("overflow", "burn").exit_code == 2


def test_a_fork_is_a_chat_of_its_own(run: Run, service: RealGateway) -> None:
    run("ask", "One?")
    run("ask", "Two?")
    new_chat = run.json("fork", "2", "--title", "Points")
    assert isinstance(new_chat, dict)
    branch = service.client.get(f"/chats/{new_chat['chat']['id']}", Chat)
    assert (branch.title, len(branch.messages)) == ("Points", 2)
    assert len(run.words()) == 4


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("messages",), "No messages."),
        (("regenerate",), "There is no message"),
        (("delete-message", "7"), "There is no message"),
        (("delete-message", "deadbeef"), "There is no message"),
        (("restore-message", "deadbeef"), "There is no such message"),
        (("fork", "0"), "There is no message"),
        (("ask", "x", "--model", "nobody"), "nobody"),
        (("ask", " "), "nothing to answer"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_what_cannot_be_done_is_a_sentence(run: Run, arguments: tuple[str, ...], words: str) -> None:
    result = run(*arguments)
    assert words in result.output
    assert "Traceback" not in result.output
    assert result.exit_code == (0 if arguments == ("messages",) else 2)


def test_an_engine_that_never_starts_is_told_and_keeps_the_question(run: Run) -> None:
    result = run("ask", "Who?", "--model", "broken")
    assert result.exit_code == 1
    assert "Traceback" not in result.output
    assert run.words()[0] == "Who?"


def test_what_is_being_answered_is_not_changed(run: Run, service: RealGateway, chat: Chat) -> None:
    turn = service.client.post(f"/chats/{chat.id}/turns", NewTurn(content="Go on", model="slow"), Turn)
    for arguments in (("delete-message", "1"), ("delete-message", "2"), ("fork", "2"), ("edit", "2", "Mine")):
        result = run(*arguments)
        assert (result.exit_code, "still being written" in result.output) == (2, True), result.output
    service.client.post(f"/chats/{chat.id}/answers/{turn.answer.id}/stop", None, object)
    assert run("delete-message", "2").exit_code == 0
    assert run.words() == ["Go on"]


async def _until_named(stages: AsyncIterator[str], name: str) -> AsyncIterator[str]:
    async for stage in stages:
        yield stage
        if name in stage:
            return


async def test_an_answer_says_which_model_holds_the_memory_it_waits_for(api: Api, pen: Pen) -> None:
    supervisor = api.gateway.supervisor
    supervisor.memory = MemoryState(
        pools=[], waiting=[WaitingLoad(model="guide", seconds=1, needs=None, waits_for=["heavy"])]
    )
    supervisor.may_load.clear()
    turn = await api.ask((await api.chat()).id)
    async with api.follow(turn.answer) as events:
        stages = (event.stage async for event in events if isinstance(event, AnswerProgress))
        assert "Waiting until heavy is done: both do not fit into memory" in [
            stage async for stage in _until_named(stages, "heavy")
        ]
    pen.write(chunk("Now."), LAST)
    pen.end()
    supervisor.may_load.set()
    assert (await api.read_to_end(turn.answer)).content == "Now."


async def test_a_cut_answer_goes_on_where_it_ended(api: Api, pen: Pen) -> None:
    chat = await api.chat(sampling=Sampling(json_schema="{}"))
    turn = await api.ask(chat.id)
    assert turn.question is not None
    pen.write(chunk("One, two"))
    async with api.follow(turn.answer) as events:
        await text_until(events, "One, two")
    cut = await api.stop(turn.answer)
    longer = await api.call("POST", f"/chats/{chat.id}/turns", Turn, {"continues": cut.id})
    assert (longer.question, longer.answer.content, longer.answer.parent) == (None, "One, two", turn.question.id)
    pen.write(chunk(", three."), LAST)
    pen.end()
    text, message = await api.follow_answer(longer.answer)
    assert (text, message.content, message.status) == (message.content, "One, two, three.", MessageStatus.COMPLETE)
    body = json.loads(api.gateway.upstream.bodies[-1])
    assert body["messages"] == [{"role": "user", "content": "Why?"}, {"role": "assistant", "content": "One, two"}]
    assert body["chat_template_kwargs"]["enable_thinking"] is False
    assert "response_format" not in body
    assert (await api.read(chat.id)).head == message.id
    assert [stored_message.content for stored_message in (await api.read(chat.id)).messages] == [
        "Why?",
        "One, two",
        message.content,
    ]


async def test_an_engine_that_dies_while_it_goes_on_loses_nothing(api: Api, pen: Pen) -> None:
    chat = await api.chat()
    turn = await api.ask(chat.id)
    pen.write(chunk("One"), LAST)
    pen.end()
    whole = await api.read_to_end(turn.answer)
    longer = await api.call("POST", f"/chats/{chat.id}/turns", Turn, {"continues": whole.id})
    pen.write(chunk(", two"))
    pen.drop()
    message = await api.read_to_end(longer.answer)
    assert (message.status, message.content) == (MessageStatus.FAILED, "One, two")
    assert [stored_message.content for stored_message in (await api.read(chat.id)).messages][1] == "One"


async def test_what_cannot_be_continued_is_refused_before_anything_is_stored(api: Api, pen: Pen) -> None:
    chat = await api.chat()
    turn = await api.ask(chat.id)
    assert turn.question is not None
    place = f"/chats/{chat.id}/turns"
    assert await api.expect_refusal("POST", place, {"continues": turn.answer.id}) == (409, "answer_in_progress")
    pen.write(reasoning("Hm."), LAST)
    pen.end()
    thought = await api.read_to_end(turn.answer)
    assert await api.expect_refusal("POST", place, {"continues": thought.id}) == (400, "nothing_to_continue")
    assert await api.expect_refusal("POST", place, {"continues": turn.question.id}) == (404, "message_not_found")
    assert await api.expect_refusal("POST", place, {"continues": "nobody"}) == (404, "message_not_found")
    assert await api.expect_refusal("POST", place, {"continues": thought.id, "content": "x"}) == (400, "invalid_value")
    assert len((await api.read(chat.id)).messages) == 2


def test_an_engine_that_cannot_continue_says_so(run: Run) -> None:
    run("ask", "One?")
    result = run("continue")
    assert (result.exit_code, "does not support continuing an answer" in result.output) == (2, True), result.output
    assert len(run.words()) == 2


async def test_over_the_api_a_change_is_told_and_misuse_refused(api: Api, pen: Pen) -> None:
    chat = await api.chat()
    turn = await api.ask(chat.id)
    assert turn.question is not None
    pen.write(chunk("Because."), LAST)
    pen.end()
    answer = await api.read_to_end(turn.answer)
    place = f"/chats/{chat.id}/messages"
    assert await api.expect_refusal("POST", f"{place}/{answer.id}/versions", {"content": " "}) == (400, "empty_message")
    assert await api.expect_refusal("POST", f"{place}/{answer.id}/versions", {"text": "x"}) == (400, "invalid_value")
    assert await api.expect_refusal("POST", f"{place}/nobody/versions", {"content": "x"}) == (404, "message_not_found")
    assert await api.expect_refusal("DELETE", f"{place}/nobody") == (404, "message_not_found")
    assert await api.expect_refusal("DELETE", f"/chats/nowhere/messages/{answer.id}") == (404, "chat_not_found")
    assert await api.expect_refusal("POST", f"/chats/{chat.id}/fork", {"message": "nobody"}) == (
        404,
        "message_not_found",
    )
    assert (await api.raw("DELETE", f"{place}/{answer.id}"))[0] == 204
    assert [message.id for message in (await api.read(chat.id)).messages] == [turn.question.id]
    back = await api.call("POST", f"{place}/{answer.id}/restore", Chat)
    assert (back.messages[-1].status, back.head) == (MessageStatus.COMPLETE, answer.id)
