"""What routers count themselves stands on our page, and nothing that they write makes that page unreadable."""

import asyncio

from aiohttp import web

from app.gateway.watching.router_metrics import LARGEST_PAGE, RouterPage, merge_pages
from app.supervisor.facts import RunFacts
from app.supervisor.lease import ReadyEndpoint
from engines.api import MetricsOpened
from engines.registry import ADAPTERS
from tests.gateway.played import Gateway

PAGE = """# HELP smg_requests_total Requests.
# TYPE smg_requests_total counter
smg_requests_total{worker="http://a:1",router="http"} 3
# TYPE smg_seconds histogram
smg_seconds_bucket{le="+Inf"} 2
smg_seconds_sum 0.5
smg_seconds_count 2 1700000000000
"""


def page_of(text: str, fleet: str = "team") -> RouterPage:
    return RouterPage(fleet=fleet, router="smg", text=text)


def test_a_router_keeps_its_names_and_gets_its_fleet_as_a_label() -> None:
    lines = merge_pages([page_of(PAGE)]).splitlines()
    assert 'smg_requests_total{fleet="team",router="smg",worker="http://a:1",exported_router="http"} 3' in lines
    assert 'smg_seconds_sum{fleet="team",router="smg"} 0.5' in lines
    assert lines.index("# TYPE smg_seconds histogram") < lines.index('smg_seconds_sum{fleet="team",router="smg"} 0.5')


def test_a_metric_of_two_fleets_is_described_once_with_all_its_lines_together() -> None:
    lines = merge_pages([page_of(PAGE, "a"), page_of(PAGE, 'b"')]).splitlines()
    assert lines.count("# TYPE smg_requests_total counter") == 1
    places = [number for number, line in enumerate(lines) if line.startswith("smg_requests_total{")]
    assert places == [2, 3]
    assert 'fleet="b\\""' in lines[3]


def test_what_is_no_metric_is_left_out() -> None:
    bad_lines = [
        "<html>",
        "a{",
        "a{b=1} 2",
        'a{b="1"} two',
        "a 1_0",
        "# TYPE a nonsense",
        "roundhouse_engine_up 0",
        'a{b="x" 1',
    ]
    assert not merge_pages([page_of("\n".join(bad_lines))])
    assert merge_pages([page_of("\n".join([*bad_lines, "a 1"]))]) == 'a{fleet="team",router="smg"} 1\n'
    assert not merge_pages([page_of("a 1\n" * LARGEST_PAGE)])


def test_a_router_says_where_its_metrics_are() -> None:
    facts = RunFacts(base_url="http://127.0.0.1:50001/v1")
    for router in ("smg", "vllm-router"):
        (event,) = ADAPTERS[router].read_log('{"event": "metrics", "port": 50002}')
        assert event == MetricsOpened(port=50_002)
        facts.apply_event(event)
    assert facts.metrics_url == "http://127.0.0.1:50002"
    assert not ADAPTERS["smg"].read_log('{"event": "metrics", "port": 99999}')


async def read_page(gateway: Gateway) -> str:
    async with gateway.http.get(f"{gateway.url}/metrics") as reply:
        assert reply.status == 200
        return await reply.text()


async def test_it_is_on_the_page_while_it_answers_and_the_page_never_waits_for_it(gateway: Gateway) -> None:
    may_answer = asyncio.Event()

    async def answer_metrics(request: web.Request) -> web.Response:
        assert "Authorization" not in request.headers
        if is_slow:
            await may_answer.wait()
        return web.Response(text=PAGE)

    router = ReadyEndpoint(model="team", engine="smg", base_url=gateway.url, key="k", metrics_url=gateway.upstream.url)
    gateway.services.supervisor.list_ready = lambda: [router]  # type: ignore[method-assign]
    gateway.upstream.play = answer_metrics
    is_slow = False
    assert 'smg_seconds_count{fleet="team",router="smg"} 2\n' in await read_page(gateway)
    is_slow = True
    page = await read_page(gateway)
    may_answer.set()
    assert "smg_" not in page
    assert "roundhouse_requests_in_flight" in page
