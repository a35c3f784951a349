"""Web search for models: by a SearXNG of a person's own, or by Brave with a key."""

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from urllib.parse import parse_qs, urlsplit

import pytest

from app.mcp_tools.toolbox import ToolMistake
from app.mcp_tools.web_search import SearchWeb, read_hits, search_request, search_web

HITS = [{"title": "Big <b>fish</b>", "url": "https://a.example", "content": "Fish &amp; <em>chips</em>"}] * 9


class Searxng(BaseHTTPRequestHandler):
    """Answers as SearXNG does; queries that name a status are answered with it."""

    def do_GET(self) -> None:
        query = parse_qs(urlsplit(self.path).query)
        status = int(query["q"][0]) if query["q"][0].isdigit() else 200
        self.send_response(status)
        self.end_headers()
        results = HITS if query["format"] == ["json"] else []
        body = "<html>" if query["q"] == ["page"] else json.dumps({"results": results})
        self.wfile.write(body.encode())

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def searxng(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Searxng)
    Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}"
    monkeypatch.setenv("SEARXNG_URL", f"{url}/")
    yield url
    server.shutdown()
    server.server_close()


@pytest.mark.usefixtures("searxng")
def test_a_searxng_answers() -> None:
    results = search_web(SearchWeb("big fish", 2)).split("\n\n")
    assert results == ["Big fish\nhttps://a.example\nFish & chips"] * 2


@pytest.mark.usefixtures("searxng")
@pytest.mark.parametrize(
    ("query", "sentence"),
    [("403", "JSON has to be among its formats"), ("500", "status 500"), ("page", "did not answer with results")],
)
def test_what_goes_wrong_is_said(query: str, sentence: str) -> None:
    with pytest.raises(ToolMistake, match=sentence):
        search_web(SearchWeb(query))


def test_an_address_that_nobody_answers_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEARXNG_URL", "http://127.0.0.1:9")
    with pytest.raises(ToolMistake, match="could not be reached"):
        search_web(SearchWeb("x"))


def test_brave_gets_the_key_in_a_header() -> None:
    url, headers = search_request(SearchWeb("a b", 3), "", "secret")
    assert "secret" not in url
    assert (urlsplit(url).hostname, headers["X-Subscription-Token"]) == ("api.search.brave.com", "secret")
    reply = json.dumps({"web": {"results": [{"title": "t", "url": "u", "description": "d"}]}}).encode()
    assert [(hit.title, hit.url, hit.description) for hit in read_hits(reply)] == [("t", "u", "d")]
    with pytest.raises(ToolMistake, match="Nobody said where"):
        search_request(SearchWeb("x"), "", "")
