"""Search the web by an endpoint that a person chose: a SearXNG of theirs, or Brave's with a key of theirs."""

import html
import re
from http import HTTPStatus
from typing import Annotated
from urllib.parse import urlencode, urlsplit

import httpx2
import msgspec

from app.config.environment import search_endpoint
from app.core.mcp import BRAVE_API_KEY, SEARXNG_URL
from app.mcp_tools.toolbox import BuiltinTool, ToolMistake

BRAVE = "https://api.search.brave.com/res/v1/web/search"
_LIMIT_S = 20.0
_MOST = 10
_LONGEST_SNIPPET = 500
_LARGEST_REPLY = 4 * 1024 * 1024
_TAGS = re.compile(r"<[^<>]{0,200}>")


class SearchWeb(msgspec.Struct, frozen=True):
    """Words to look for, and how many results are wanted."""

    query: Annotated[str, msgspec.Meta(min_length=1, max_length=400)]
    count: Annotated[int, msgspec.Meta(ge=1, le=_MOST)] = 5


class Hit(msgspec.Struct, frozen=True):
    """One result: `content` is SearXNG's word for the excerpt, `description` Brave's."""

    title: str = ""
    url: str = ""
    content: str = ""
    description: str = ""


class _Web(msgspec.Struct, frozen=True):
    results: list[Hit] = []


class _Reply(msgspec.Struct, frozen=True):
    results: list[Hit] = []
    web: _Web = _Web()


def search_web(request: SearchWeb) -> str:
    """Return titles, addresses and what is said of them. Raises ToolMistake."""
    url, headers = search_request(request, *search_endpoint())
    where = urlsplit(url).hostname
    try:
        with httpx2.Client(timeout=_LIMIT_S) as client:
            reply = client.get(url, headers=headers)
    except httpx2.HTTPError as error:
        raise ToolMistake(f"{where} could not be reached: {error}.") from None
    if reply.status_code != HTTPStatus.OK:
        hint = " JSON has to be among its formats." if reply.status_code == HTTPStatus.FORBIDDEN else ""
        raise ToolMistake(f"{where} answered with status {reply.status_code}.{hint}")
    try:
        hits = read_hits(reply.content[:_LARGEST_REPLY])
    except msgspec.MsgspecError:
        raise ToolMistake(f"{where} did not answer with results.") from None
    return "\n\n".join(map(_describe_hit, hits[: request.count])) or "Nothing was found."


def search_request(request: SearchWeb, searxng: str, key: str) -> tuple[str, dict[str, str]]:
    """Return the address to ask and the headers. Raises ToolMistake where nobody said whom."""
    if searxng:
        return f"{searxng.rstrip('/')}/search?{urlencode({'q': request.query, 'format': 'json'})}", {}
    if key:
        query = urlencode({"q": request.query, "count": request.count})
        return f"{BRAVE}?{query}", {"X-Subscription-Token": key, "Accept": "application/json"}
    raise ToolMistake(f"Nobody said where to search: set {SEARXNG_URL} or {BRAVE_API_KEY}.")


def read_hits(reply: bytes) -> list[Hit]:
    """Return the results of a reply of SearXNG or of Brave. Raises msgspec.MsgspecError."""
    document = msgspec.json.decode(reply, type=_Reply)
    return document.results or document.web.results


def _describe_hit(hit: Hit) -> str:
    snippet = _TAGS.sub("", hit.content or hit.description)[:_LONGEST_SNIPPET]
    return f"{_TAGS.sub('', hit.title)}\n{hit.url}\n{html.unescape(snippet)}".strip()


TOOLS = (
    BuiltinTool(
        name="search_web",
        description="Search the web and return titles, addresses and short excerpts, which may be wrong or outdated.",
        arguments=SearchWeb,
        run=search_web,
    ),
)
