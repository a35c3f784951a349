"""The open chat against a gateway that is not there: asking, following, breaking off, versions."""

from collections.abc import Callable

import pytest
from pytestqt.qtbot import QtBot

from app.config.table import BY_NAME
from app.core.chats import (
    AnswerDelta,
    AnswerDone,
    AnswerProgress,
    ChatPatch,
    Message,
    MessageStatus,
    NewChat,
    NewTurn,
    Sampling,
    Turn,
)
from app.core.engines import EngineState, EngineStatus, FailureReport, RemedyOffer
from app.core.errors import ErrorBody
from app.core.models import LoadModel, LoadOptions
from app.gui.net.api import gateway_gone
from app.gui.screens.chat.conversation import Conversation
from app.gui.screens.chat.message_tree import estimate_thought_s
from app.gui.screens.chat.turns import TroubleRemedy
from app.gui.shell.contract import Shell
from tests.demo import long_chat
from tests.demo.api import DemoApi

FOLLOW = "/chats/c1/answers/a9?offset="
REFUSED = ErrorBody(code="storage", sentence="The disk is full.")
ASKED = long_chat.make_question(9, "And now?", "a2")
ANSWER = long_chat.make_answer(9, "", timings=None, status=MessageStatus.GENERATING)


def turn_for(body: object) -> Turn:
    assert isinstance(body, NewTurn)
    question = (
        None if body.content is None else long_chat.replace_fields(ASKED, content=body.content, parent=body.parent)
    )
    parent = question.id if question else body.parent
    return Turn(question=question, answer=long_chat.replace_fields(ANSWER, parent=parent))


@pytest.fixture
def gateway(api: DemoApi) -> DemoApi:
    api.replies |= long_chat.chat_replies()
    api.replies |= {
        "POST /chats": long_chat.make_chat([], title=""),
        "POST /chats/c1/turns": turn_for,
        "POST /chats/c1/answers/a9/stop": ANSWER,
    }
    return api


@pytest.fixture
def talk(qtbot: QtBot, gateway: DemoApi, shell: Shell) -> Conversation:
    return Conversation(gateway, shell, lambda _name: None)


@pytest.fixture
def conversation(talk: Conversation, gateway: DemoApi) -> Conversation:
    talk.open_chat("c1")
    gateway.flush()
    return talk


@pytest.fixture
def busy(conversation: Conversation, gateway: DemoApi) -> Conversation:
    conversation.send("And now?")
    gateway.flush()
    return conversation


def texts(talk: Conversation) -> list[str]:
    return [turn.message.content for turn in talk.list_turns()]


def live_text(talk: Conversation) -> str:
    live = talk.list_turns()[-1].live
    return "" if live is None else "".join(live.content)


def test_a_chat_is_read_and_shown_to_its_head(conversation: Conversation) -> None:
    assert [turn.message.id for turn in conversation.list_turns()] == ["q1", "a1", "q2", "a2"]
    assert [(turn.branch, turn.branches) for turn in conversation.list_turns()] == [(1, 1), (1, 1), (1, 1), (2, 2)]


def test_a_chat_that_cannot_be_read_says_why(talk: Conversation, gateway: DemoApi) -> None:
    gateway.replies["GET /chats/c1"] = REFUSED
    talk.open_chat("c1")
    gateway.flush()
    assert talk.error == REFUSED
    assert not talk.is_loading


def test_a_question_shows_at_once_and_then_as_stored(conversation: Conversation, gateway: DemoApi) -> None:
    conversation.send("And now?")
    assert texts(conversation)[-2:] == ["And now?", ""]
    assert conversation.is_busy
    gateway.flush()
    assert [turn.message.id for turn in conversation.list_turns()][-2:] == ["q9", "a9"]
    assert gateway.bodies_of("POST", "/chats/c1/turns") == [NewTurn(parent="a2", content="And now?")]


def test_the_first_question_makes_the_chat(talk: Conversation, gateway: DemoApi) -> None:
    new_chats: list[object] = []
    talk.chat_created.connect(new_chats.append)
    talk.start_chat("guide")
    talk.set_system_prompt("Be brief.")
    talk.set_sampling(Sampling(temperature=0.2))
    assert gateway.bodies_of("PATCH", "/chats/") == []
    talk.send("Hello")
    gateway.flush()
    body = NewChat(model="guide", system_prompt="Be brief.", sampling=Sampling(temperature=0.2))
    assert gateway.bodies_of("POST", "/chats") == [body]
    assert gateway.bodies_of("POST", "/chats/c1/turns") == [NewTurn(parent=None, content="Hello")]
    assert talk.id == "c1"
    assert len(new_chats) == 1


def test_text_arrives_and_the_stored_message_takes_its_place(busy: Conversation, gateway: DemoApi) -> None:
    gateway.send_event(f"{FOLLOW}0", AnswerProgress(stage="Reading weights", fraction=0.5))
    progress = busy.list_turns()[-1].live
    assert progress is not None
    assert progress.progress is not None
    assert progress.progress.words == "Reading weights 50 %"
    gateway.send_event(f"{FOLLOW}0", AnswerDelta(content="Hel", offset=0))
    gateway.send_event(f"{FOLLOW}0", AnswerDelta(content="lo", offset=3))
    assert live_text(busy) == "Hello"
    gateway.send_event(f"{FOLLOW}0", AnswerDone(message=long_chat.make_answer(9, "Hello")))
    assert texts(busy)[-1] == "Hello"
    assert not busy.is_busy


def test_a_broken_stream_is_taken_up_where_it_broke(qtbot: QtBot, busy: Conversation, gateway: DemoApi) -> None:
    gateway.send_event(f"{FOLLOW}0", AnswerDelta(content="Hello, wor", offset=0))
    gateway.streams[f"{FOLLOW}0"][1](gateway_gone())
    assert busy.is_busy
    qtbot.waitUntil(lambda: f"{FOLLOW}10" in gateway.streams)
    gateway.send_event(f"{FOLLOW}10", AnswerDelta(content="world", offset=7))
    assert live_text(busy) == "Hello, world"


def test_thoughts_are_told_again_to_who_lost_the_stream_before_the_first_word(
    qtbot: QtBot, busy: Conversation, gateway: DemoApi
) -> None:
    gateway.send_event(f"{FOLLOW}0", AnswerDelta(reasoning="Let me", offset=0))
    end, listen = gateway.streams[f"{FOLLOW}0"][1], gateway.streams[f"{FOLLOW}0"]
    end(None)
    qtbot.waitUntil(lambda: gateway.streams[f"{FOLLOW}0"] is not listen)
    gateway.send_event(f"{FOLLOW}0", AnswerDelta(reasoning="Let me think", offset=0))
    live = busy.list_turns()[-1].live
    assert live is not None
    assert "".join(live.reasoning) == "Let me think"


def test_an_answer_that_cannot_be_followed_says_why(busy: Conversation, gateway: DemoApi) -> None:
    gateway.streams[f"{FOLLOW}0"][1](ErrorBody(code="not_found", sentence="There is no such message."))
    trouble = busy.list_turns()[-1].trouble
    assert trouble is not None
    assert trouble.sentence == "There is no such message."
    assert not busy.is_busy


def test_how_long_it_thought_is_measured(gateway: DemoApi, busy: Conversation) -> None:
    now = [100.0]
    busy.answer_streams._clock = lambda: now[0]
    gateway.send_event(f"{FOLLOW}0", AnswerDelta(reasoning="Hm", offset=0))
    now[0] = 106.0
    gateway.send_event(f"{FOLLOW}0", AnswerDelta(content="Yes", offset=0))
    gateway.send_event(f"{FOLLOW}0", AnswerDone(message=long_chat.make_answer(9, "Yes", reasoning="Hm")))
    assert busy.list_turns()[-1].thought_s == 6.0


def test_thinking_nobody_watched_is_estimated_from_its_share_of_the_text() -> None:
    message = long_chat.make_answer(1, "x" * 100, reasoning="y" * 300, timings=long_chat.make_timings(400))
    assert estimate_thought_s(message) == pytest.approx(0.75 * 400 / 11.4)
    assert estimate_thought_s(long_chat.make_answer(1, "x")) is None


def test_a_refused_question_comes_back(conversation: Conversation, gateway: DemoApi) -> None:
    back: list[tuple[object, str]] = []
    conversation.question_refused.connect(lambda error, text: back.append((error, text)))
    gateway.replies["POST /chats/c1/turns"] = REFUSED
    conversation.send("And now?")
    gateway.flush()
    assert back == [(REFUSED, "And now?")]
    assert len(conversation.list_turns()) == 4
    assert not conversation.is_busy


def test_editing_asks_beside_the_question(conversation: Conversation, gateway: DemoApi) -> None:
    assert conversation.start_editing("q2") == long_chat.ARABIC
    conversation.send("In English?")
    assert texts(conversation)[2:] == ["In English?", ""]
    gateway.flush()
    assert gateway.bodies_of("POST", "/chats/c1/turns") == [NewTurn(parent="a1", content="In English?")]
    assert [(turn.branch, turn.branches) for turn in conversation.list_turns()][2] == (2, 2)
    assert conversation.editing is None


def test_answering_again_adds_a_version(conversation: Conversation, gateway: DemoApi) -> None:
    conversation.regenerate("a2")
    gateway.flush()
    assert gateway.bodies_of("POST", "/chats/c1/turns") == [NewTurn(parent="q2")]
    assert (conversation.list_turns()[-1].branch, conversation.list_turns()[-1].branches) == (3, 3)


def test_moving_to_another_version_is_kept(conversation: Conversation, gateway: DemoApi) -> None:
    conversation.show_version("a2", -1)
    assert conversation.list_turns()[-1].message.id == "a2b"
    gateway.flush()
    assert gateway.bodies_of("PATCH", "/chats/c1") == [ChatPatch(head="a2b")]


def test_nothing_moves_while_an_answer_is_written(busy: Conversation, gateway: DemoApi) -> None:
    busy.show_version("a2", -1)
    busy.regenerate("a2")
    gateway.flush()
    assert gateway.bodies_of("PATCH", "/chats/c1") == []
    assert len(gateway.bodies_of("POST", "/chats/c1/turns")) == 1


def test_stop_asks_the_gateway_and_waits_for_it(busy: Conversation, gateway: DemoApi) -> None:
    busy.stop_answers()
    gateway.flush()
    assert len(gateway.bodies_of("POST", "/chats/c1/answers/a9/stop")) == 1
    assert busy.is_busy
    stopped_answer = long_chat.make_answer(9, "Hel", status=MessageStatus.STOPPED)
    gateway.send_event(f"{FOLLOW}0", AnswerDone(message=stopped_answer))
    assert not busy.is_busy


def test_an_answer_goes_on_while_another_chat_is_open(busy: Conversation, gateway: DemoApi) -> None:
    half = long_chat.replace_fields(ANSWER, content="Half", parent="q9")
    gateway.replies["GET /chats/c1"] = long_chat.make_chat([*long_chat.make_sample_chat().messages, ASKED, half])
    busy.start_chat("")
    assert busy.list_turns() == []
    busy.open_chat("c1")
    gateway.flush()
    gateway.send_event(f"{FOLLOW}4", AnswerDelta(content=" way", offset=4))
    assert live_text(busy) == "Half way"


def test_a_failed_answer_offers_to_load_again_when_its_engine_failed(
    qtbot: QtBot, gateway: DemoApi, shell: Shell
) -> None:
    report = FailureReport(code="oom", sentence="No room.", hint="Use less context.", log_tail=["a", "b"])
    failed_engine = EngineStatus(model=long_chat.MODEL, engine="llama.cpp", state=EngineState.FAILED, failure=report)
    trouble = shown_trouble(gateway, shell, lambda _name: failed_engine)
    assert trouble == ("Use less context.", (TroubleRemedy.LOAD_AGAIN, TroubleRemedy.CHOOSE_MODEL))
    assert shown_trouble(gateway, shell, lambda _name: None)[1] == (TroubleRemedy.TRY_AGAIN, TroubleRemedy.CHOOSE_MODEL)


NEEDS_LESS = FailureReport(
    code="out_of_memory",
    sentence="No room.",
    remedies=[
        RemedyOffer(kind="less_context", label="Load with a context of 4,096 tokens", options={"context": 4096}),
        RemedyOffer(kind="fewer_slots", label="Load for one request at a time", options={"slots": 1}),
        RemedyOffer(kind="smaller_cache", label="Load with a KV cache in q8_0", options={"kv_type": "q8_0"}),
        RemedyOffer(kind="free_memory", label="Unload other models", command="roundhouse ps"),
    ],
)


@pytest.fixture
def failed_talk(qtbot: QtBot, gateway: DemoApi, shell: Shell) -> Conversation:
    failed_engine = EngineStatus(
        model=long_chat.MODEL, engine="llama.cpp", state=EngineState.FAILED, failure=NEEDS_LESS
    )
    gateway.replies |= {"POST /load": failed_engine, "PATCH /settings": [], "POST /chats/c2/turns": turn_for}
    talk = Conversation(gateway, shell, lambda _name: failed_engine)
    talk.open_chat("c2")
    gateway.flush()
    return talk


def test_what_would_mend_a_failure_is_one_press_away_and_the_question_is_asked_again(
    failed_talk: Conversation, gateway: DemoApi
) -> None:
    turn = failed_talk.list_turns()[-1]
    assert turn.trouble is not None
    assert [offer.kind for offer in turn.trouble.offers] == ["less_context", "fewer_slots"]
    failed_talk.load_with_remedy(turn.message.id, "nothing of the kind")
    assert not gateway.bodies_of("POST", "/load")
    failed_talk.load_with_remedy(turn.message.id, "less_context")
    gateway.flush()
    (load,) = gateway.bodies_of("POST", "/load")
    assert load == LoadModel(model=turn.message.model, options=LoadOptions(context=4096), wait=False)
    assert len(gateway.bodies_of("POST", "/chats/c2/turns")) == 1


def test_what_would_mend_it_can_be_done_without_asking_from_now_on(failed_talk: Conversation, gateway: DemoApi) -> None:
    failed_talk.allow_auto_remedies(failed_talk.list_turns()[-1].message.id)
    gateway.flush()
    (changed_settings,) = gateway.bodies_of("PATCH", "/settings")
    assert changed_settings == {"engine.mend_less_context": True, "engine.mend_fewer_slots": True}
    assert set(changed_settings) <= set(BY_NAME)
    assert len(gateway.bodies_of("POST", "/chats/c2/turns")) == 1


def test_without_a_failure_nothing_is_mended(talk: Conversation, gateway: DemoApi) -> None:
    talk.open_chat("c1")
    gateway.flush()
    talk.allow_auto_remedies(talk.list_turns()[-1].message.id)
    talk.load_with_remedy("no such answer", "less_context")
    assert not gateway.bodies_of("PATCH", "/settings")
    assert not gateway.bodies_of("POST", "/load")


def shown_trouble(
    gateway: DemoApi, shell: Shell, engine: Callable[[str], EngineStatus | None]
) -> tuple[str, tuple[TroubleRemedy, ...]]:
    talk = Conversation(gateway, shell, engine)
    talk.open_chat("c2")
    gateway.flush()
    trouble = talk.list_turns()[-1].trouble
    assert trouble is not None
    assert trouble.sentence == "The engine ended while it was reading the weights."
    assert "insufficient memory" in trouble.cause
    return trouble.hint, trouble.remedies


def test_an_answer_the_gateway_died_over_can_be_asked_for_again(talk: Conversation, gateway: DemoApi) -> None:
    cut: Message = long_chat.make_answer(1, "Half", status=MessageStatus.INTERRUPTED)
    gateway.replies["GET /chats/c1"] = long_chat.make_chat([long_chat.make_question(1, "?", None), cut])
    talk.open_chat("c1")
    gateway.flush()
    trouble = talk.list_turns()[-1].trouble
    assert trouble is not None
    assert trouble.remedies == (TroubleRemedy.TRY_AGAIN,)
