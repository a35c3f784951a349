import asyncio

from app.core.engines import EngineState, EngineStatus
from app.core.events import ChatChanged, EngineChanged, Event, LogLine, ModelsChanged, Notice
from app.gateway.events import EventHub, Subscription
from tests.patience import PATIENCE_S


def engine(progress: float, model: str = "guide") -> EngineChanged:
    return EngineChanged(
        status=EngineStatus(model=model, engine="llama.cpp", state=EngineState.LOADING, progress=progress)
    )


def line(number: int) -> LogLine:
    return LogLine(model="guide", stream="err", text=str(number), at=0.0)


def notice(number: int) -> Notice:
    return Notice(level="info", code=str(number), sentence="")


async def drain_events(subscription: Subscription) -> list[Event]:
    subscription.close()
    return [event async for event in subscription]


async def test_every_subscriber_gets_every_event_in_order() -> None:
    hub = EventHub()
    first, second = hub.subscribe(), hub.subscribe()
    for number in range(3):
        hub.publish(notice(number))
    assert await drain_events(first) == await drain_events(second) == [notice(0), notice(1), notice(2)]


async def test_a_newer_event_about_the_same_thing_takes_the_place_of_the_older() -> None:
    hub = EventHub()
    subscription = hub.subscribe()
    for event in (engine(0.1), ModelsChanged(), ChatChanged(chat="a"), engine(0.2, "b"), engine(0.9), ModelsChanged()):
        hub.publish(event)
    assert await drain_events(subscription) == [ChatChanged(chat="a"), engine(0.2, "b"), engine(0.9), ModelsChanged()]


async def test_log_lines_come_only_when_asked_for() -> None:
    hub = EventHub()
    plain, logs = hub.subscribe(), hub.subscribe(logs=True)
    hub.publish(line(1))
    assert await drain_events(plain) == []
    assert await drain_events(logs) == [line(1)]


async def test_the_gateways_own_work_hears_its_kinds_only_and_is_no_listener() -> None:
    hub = EventHub(limit=3)
    work = hub.watch(ModelsChanged, ChatChanged)
    for number in range(10):  # more than a listener may be behind
        hub.publish(notice(number))
        hub.publish(line(number))
    hub.publish(ModelsChanged())
    hub.publish(ChatChanged(chat="a"))
    assert not hub.has_listeners
    listener = hub.subscribe()
    assert hub.has_listeners
    listener.close()
    assert not hub.has_listeners
    assert await drain_events(work) == [ModelsChanged(), ChatChanged(chat="a")]


async def test_a_flood_of_log_lines_costs_the_oldest_lines_and_nothing_else() -> None:
    hub = EventHub(limit=3)
    subscription = hub.subscribe(logs=True)
    hub.publish(engine(0.5))
    for number in range(10):
        hub.publish(line(number))
    assert await drain_events(subscription) == [engine(0.5), line(8), line(9)]


async def test_a_subscriber_that_never_reads_is_dropped_and_holds_nobody_up() -> None:
    hub = EventHub(limit=3)
    slow, quick = hub.subscribe(), hub.subscribe()
    received_events: list[Event] = []
    for number in range(5):
        hub.publish(notice(number))
        received_events.append(await anext(aiter(quick)))
    assert received_events == [notice(number) for number in range(5)]
    assert slow.is_closed
    assert [event async for event in slow] == []
    assert not quick.is_closed


async def test_a_waiting_reader_wakes_and_ends_with_the_hub() -> None:
    hub = EventHub()
    with hub.subscribe() as subscription:
        read_task = asyncio.ensure_future(anext(aiter(subscription)))
        await asyncio.sleep(0)
        hub.publish(notice(1))
        assert await asyncio.wait_for(read_task, PATIENCE_S) == notice(1)
    rest = hub.subscribe()
    hub.close()
    assert [event async for event in rest] == []
