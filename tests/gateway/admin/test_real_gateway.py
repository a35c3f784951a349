"""What only a gateway of its own can show: that it can be killed, and that it ends well when asked to."""

import time
from pathlib import Path

import pytest

from app.client.http import GatewayClient
from app.core.chats import AnswerDelta, AnswerDone, AnswerEvent, Chat, Message, MessageStatus, NewChat, NewTurn, Turn
from app.core.engines import EngineState, EngineStatus
from app.core.errors import EngineFailed, GatewayGone, NotFound
from app.core.events import EngineChanged, Event, LogLine
from app.core.models import LoadModel, LoadOptions, UnloadModel
from app.store.database import ChatStore
from app.store.listing import ListRequest
from tests.gateway.admin.real_gateway import RealGateway, run_gateway
from tests.patience import PATIENCE_S


def ask(client: GatewayClient, model: str) -> Turn:
    chat = client.post("/chats", NewChat(model=model), Chat)
    return client.post(f"/chats/{chat.id}/turns", NewTurn(content="Go on"), Turn)


def read_for(client: GatewayClient, answer: Message, seconds: float) -> list[tuple[float, int]]:
    """Follow an answer for so long after its first text; return when there were how many characters."""
    seen_lengths: list[tuple[float, int]] = []
    for event in client.stream_events(f"/chats/{answer.chat}/answers/{answer.id}", AnswerEvent, timeout_s=PATIENCE_S):
        if isinstance(event, AnswerDelta):
            seen_lengths.append((time.monotonic(), event.offset + len(event.content)))
        if seen_lengths and time.monotonic() - seen_lengths[0][0] > seconds:
            break
    return seen_lengths


@pytest.mark.slow
async def test_a_killed_gateway_loses_at_most_the_last_second(tmp_path: Path, unused_port: int) -> None:
    with run_gateway(tmp_path, unused_port) as gateway:
        answer = ask(gateway.client, "slow").answer
        seen_lengths = read_for(gateway.client, answer, 2.3)
        gateway.kill()
        killed_at = time.monotonic()
    store = await ChatStore.open(gateway.paths.database)
    kept_message = await store.read_message(answer.chat, answer.id)
    assert [summary.id for summary in await store.list_summaries(ListRequest("word"))] == [answer.chat]
    await store.close()
    assert kept_message.status is MessageStatus.INTERRUPTED
    assert kept_message.content == "word " * (len(kept_message.content) // 5)
    # A second between saves, and what saving and a busy machine may take.
    sure = max((length for at, length in seen_lengths if at < killed_at - 1.3), default=0)
    assert sure > 0
    assert len(kept_message.content) >= sure


@pytest.mark.slow
def test_logs_of_one_engine_of_all_and_of_none(tmp_path: Path, unused_port: int) -> None:
    with run_gateway(tmp_path, unused_port) as gateway:
        for model in ("quick", "slow"):
            gateway.client.post("/load", LoadModel(model=model), EngineStatus)
        of_one = gateway.client.get("/logs?model=QUICK:latest", list[LogLine])
        assert {line.model for line in of_one} == {"quick"}
        of_all = gateway.client.get("/logs", list[LogLine])
        assert {line.model for line in of_all} == {"quick", "slow"}
        assert [line.at for line in of_all] == sorted(line.at for line in of_all)
        assert gateway.client.get("/logs?tail=0", list[LogLine]) == []
        assert gateway.client.get("/logs?tail=1", list[LogLine]) == of_all[-1:]
        with pytest.raises(NotFound, match="nosuch"):
            gateway.client.get("/logs?model=nosuch", list[LogLine])


@pytest.mark.slow
def test_a_load_that_names_no_options_takes_the_model_as_it_runs(lent_gateway: RealGateway) -> None:
    client = lent_gateway.client
    first = client.post("/load", LoadModel(model="quick", options=LoadOptions(context=64)), EngineStatus)
    again = client.post("/load", LoadModel(model="quick"), EngineStatus)
    assert (again.pid, again.context) == (first.pid, first.context) == (first.pid, 64)
    other = client.post("/load", LoadModel(model="quick", options=LoadOptions(context=128)), EngineStatus)
    assert (other.context, other.pid == first.pid) == (128, False)


def test_a_chat_through_a_real_supervisor_and_a_gentle_end(tmp_path: Path, unused_port: int) -> None:
    with run_gateway(tmp_path, unused_port) as gateway:
        client = gateway.client
        quick = ask(client, "quick").answer
        events = [*client.stream_events(f"/chats/{quick.chat}/answers/{quick.id}", AnswerEvent, timeout_s=PATIENCE_S)][
            -1
        ]
        assert isinstance(events, AnswerDone)
        assert (events.message.status, events.message.content) == ("complete", "word " * 5)
        assert events.message.timings is not None
        assert (events.message.timings.load_s or 0) > 0
        load_and_unload(client)
        load_that_outlives_its_client(gateway)
        broken_model(client)
        slow = ask(client, "slow").answer
        read_for(client, slow, 0.1)
        ended_answer = end_while_following(gateway, slow)
    assert ended_answer.status is MessageStatus.INTERRUPTED
    assert ended_answer.content.startswith("word ")
    assert gateway.process.returncode == 0


def load_and_unload(client: GatewayClient) -> None:
    with pytest.raises(NotFound):
        client.post("/load", LoadModel(model="nothing"), EngineStatus)
    assert client.post("/load", LoadModel(model="slow"), EngineStatus).state is EngineState.READY
    assert {status.model for status in client.get("/running", list[EngineStatus])} == {"quick", "slow"}
    assert client.post("/unload", UnloadModel(model="SLOW:latest"), EngineStatus).state is EngineState.STOPPED
    status = client.post("/load", LoadModel(model="slow", wait=False), EngineStatus)
    assert status.state in (EngineState.STARTING, EngineState.LOADING)


def load_that_outlives_its_client(gateway: RealGateway) -> None:
    with pytest.raises(GatewayGone):
        gateway.client.post("/load", LoadModel(model="heavy"), EngineStatus, timeout_s=0.2)
    for event in gateway.client.stream_events("/events", Event, timeout_s=PATIENCE_S):
        if isinstance(event, EngineChanged) and event.status.model == "heavy":
            assert event.status.state is not EngineState.STOPPING
            if event.status.state is EngineState.READY:
                return


def broken_model(client: GatewayClient) -> None:
    with pytest.raises(EngineFailed, match="damaged"):
        client.post("/load", LoadModel(model="broken"), EngineStatus)
    broken_answer = ask(client, "broken").answer
    *_, last_event = client.stream_events(
        f"/chats/{broken_answer.chat}/answers/{broken_answer.id}", AnswerEvent, timeout_s=PATIENCE_S
    )
    assert last_event.message.status is MessageStatus.FAILED
    assert "damaged" in last_event.message.error


def end_while_following(gateway: RealGateway, answer: Message) -> Message:
    """Ask the gateway to end while somebody reads along; return what the reader is told last."""
    for event in gateway.client.stream_events(
        f"/chats/{answer.chat}/answers/{answer.id}", AnswerEvent, timeout_s=PATIENCE_S
    ):
        if isinstance(event, AnswerDelta) and event.offset == 0:
            gateway.client.post("/shutdown", None, object)
        if isinstance(event, AnswerDone):
            return event.message
    raise AssertionError("the stream ended without saying how the answer did")
