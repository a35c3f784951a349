"""Nothing connects but through the door: whatever opens connections is used in the places named here, and nowhere else.

What is named beside `app/network` either calls only this computer or hands its connections to the door itself.
"""

import ast
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow  # `make check` runs them

ROOT = Path(__file__).resolve().parents[3]

OPENERS = {
    "urllib.request.urlopen",
    "urllib.request.build_opener",
    "urllib.request.URLopener",
    "http.client.HTTPConnection",
    "http.client.HTTPSConnection",
    "socket.create_connection",
    "socket.getaddrinfo",
    "socket.gethostbyname",
    "asyncio.open_connection",
    "aiohttp.TCPConnector",
    "aiohttp.request",
    "hf_xet.XetSession",
}
SESSION = "aiohttp.ClientSession"
"""Opens connections where it is made; elsewhere it is only named as a type."""
METHODS = {"connect_ex", "create_connection", "getaddrinfo", "sock_connect"}
"""Of sockets and event loops, whoever they are called on."""
MAY = {
    "app/network/urls.py": "notes its connections",
    "app/network/connector.py": "notes its connections",
    "app/network/relay.py": "notes its connections",
    "app/network/reach.py": "connects for the two, which note it",
    "app/supervisor/dialing.py": "asks the door before it looks a name up",
    "app/gateway/exchange/connections.py": "engines on this computer; the others are dialled",
    "app/gateway/across/lending.py": "a worker of llama.cpp on this computer",
    "app/gateway/across/tunnel.py": "notes its connections to machines it has certificates of",
    "app/hub/download/xet.py": "notes whom its library is about to call",
    "app/gateway/exchange/resolving.py": "a session over the door's connector",
    "app/client/http.py": "the gateway, on this computer",
    "app/client/endpoint.py": "the gateway, on this computer",
}


def dotted_name(node: ast.AST, names: dict[str, str]) -> str:
    """Return what an expression names, imports followed; empty for what is no name."""
    if isinstance(node, ast.Name):
        return names.get(node.id, node.id)
    if isinstance(node, ast.Attribute):
        base = dotted_name(node.value, names)
        return f"{base}.{node.attr}" if base else ""
    return ""


def list_imports(nodes: list[ast.AST]) -> dict[str, str]:
    """Return what each imported name stands for."""
    names: dict[str, str] = {}
    for node in nodes:
        if isinstance(node, ast.Import):
            names |= {alias.asname: alias.name for alias in node.names if alias.asname}
        elif isinstance(node, ast.ImportFrom):
            names |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
    return names


def openings(source: str) -> list[str]:
    """Return what opens a connection in a file, by name."""
    nodes = list(ast.walk(ast.parse(source)))
    names = list_imports(nodes)
    uses = [node for node in nodes if isinstance(node, (ast.Name, ast.Attribute))]
    calls = [name for node in uses if (name := dotted_name(node, names)) in OPENERS]
    calls += [node.attr for node in uses if isinstance(node, ast.Attribute) and node.attr in METHODS]
    calls += [SESSION for node in nodes if isinstance(node, ast.Call) and dotted_name(node.func, names) == SESSION]
    return sorted(set(calls))


def test_only_these_places_open_connections() -> None:
    wrong = {
        name: calls
        for path in sorted((ROOT / "app").rglob("*.py"))
        if not (name := path.relative_to(ROOT).as_posix()).startswith(tuple(MAY))
        and (calls := openings(path.read_text(encoding="utf-8")))
    }
    assert not wrong, "let it pass the door: see CONTRIBUTING, A connection to another computer"


def test_each_place_that_is_named_still_does() -> None:
    for name in MAY:
        path = ROOT / name
        files = sorted(path.rglob("*.py")) if path.is_dir() else [path]
        assert any(openings(file.read_text(encoding="utf-8")) for file in files), f"{name} need not be named any more"


def test_ways_round_are_seen() -> None:
    assert openings("import urllib.request\nurllib.request.urlopen('x')") == ["urllib.request.urlopen"]
    assert openings("from urllib.request import urlopen as go\ngo('x')") == ["urllib.request.urlopen"]
    assert openings("import aiohttp as a\na.ClientSession()") == ["aiohttp.ClientSession"]
    assert openings("async def f(loop):\n    await loop.create_connection(P, 'h', 1)") == ["create_connection"]
    assert openings("import aiohttp\ndef f(session: aiohttp.ClientSession): ...") == []
