"""Signing in to a server that asks for it (OAuth 2.1): the official flow, with the browser's return on this computer.

The person signs in at the server's own page. Its answer comes to a port of this computer that listens only while
somebody is signing in. What the server then trusts us with is handed to the gateway, which keeps it.
"""

import asyncio
import socket
from collections.abc import Callable
from contextlib import suppress
from urllib.parse import parse_qs, urlsplit

import msgspec
from mcp.client.auth.oauth2 import OAuthClientProvider
from mcp.shared.auth import (
    AuthorizationCodeResult,
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthToken,
)
from pydantic import AnyUrl, ValidationError

from app.core.mcp import HostSignIn, HostSignInState

_HOST, _PATH = "127.0.0.1", "/callback"
_LONGEST_LINE = 16 * 1024
_PAGE = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\nReferrer-Policy: no-referrer\r\n"
    b"Connection: close\r\n\r\n<!doctype html><meta charset=utf-8><title>Roundhouse</title>"
    b"<p>%s You can close this page.</p>"
)
_NOT_FOUND = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
Send = Callable[[HostSignIn | HostSignInState], None]


class SignInRefused(Exception):
    """The person, or the server, did not agree."""


class _KeptState(msgspec.Struct, frozen=True):
    """What is kept of a server that was signed in to: its tokens, who we are to it, and the port it answers to."""

    tokens: str = ""
    client: str = ""
    port: int = 0


class SignInStore:
    """Tokens and registration of one server, as JSON of the library's own; every change is sent to the gateway."""

    def __init__(self, kept_state: str, send: Send) -> None:
        self._send = send
        self._state = _read_state(kept_state)
        self.port = self._state.port

    async def get_tokens(self) -> OAuthToken | None:
        """Return the tokens, if there are some."""
        with suppress(ValidationError):
            return OAuthToken.model_validate_json(self._state.tokens) if self._state.tokens else None
        return None

    async def set_tokens(self, tokens: OAuthToken) -> None:
        """Keep tokens."""
        self._change(tokens=tokens.model_dump_json())

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        """Return who we are to the server, if it knows us, and by the port that we have now."""
        with suppress(ValidationError):
            if self._state.client and self._state.port == self.port:
                return OAuthClientInformationFull.model_validate_json(self._state.client)
        return None

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        """Keep who we are to the server."""
        self._change(client=client_info.model_dump_json())

    def _change(self, **fields: str) -> None:
        self._state = msgspec.structs.replace(self._state, port=self.port, **fields)
        self._send(HostSignInState(state=msgspec.json.encode(self._state).decode()))


def _read_state(kept_state: str) -> _KeptState:
    with suppress(msgspec.MsgspecError):
        return msgspec.json.decode(kept_state, type=_KeptState) if kept_state else _KeptState()
    return _KeptState()


class BrowserReturn:
    """The port that the browser comes back to. Bound from the beginning, since servers are told its number."""

    def __init__(self, port: int) -> None:
        self._socket = _bind(port)
        self.port: int = self._socket.getsockname()[1]
        self._answer: asyncio.Future[AuthorizationCodeResult] | None = None

    @property
    def address(self) -> str:
        """Where the server sends the browser."""
        return f"http://{_HOST}:{self.port}{_PATH}"

    async def wait(self) -> AuthorizationCodeResult:
        """Listen until the browser comes back. Raises SignInRefused."""
        self._answer = asyncio.get_running_loop().create_future()
        server = await asyncio.start_server(self._serve, sock=self._socket.dup(), limit=_LONGEST_LINE)
        async with server:
            return await self._answer

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        reply = _NOT_FOUND
        with suppress(ValueError, OSError, asyncio.IncompleteReadError):
            line = (await reader.readline()).decode("latin-1").split(" ")
            while (await reader.readline()).strip():
                pass
            where = urlsplit(line[1] if len(line) > 1 else "")
            if line[0] == "GET" and where.path == _PATH:
                reply = self._take(parse_qs(where.query))
        with suppress(OSError):
            writer.write(reply)
            await writer.drain()
            writer.close()

    def _take(self, query: dict[str, list[str]]) -> bytes:
        """Take what the server sent along; who knows no `state` is refused later, by the library."""
        values = {name: texts[0] for name, texts in query.items()}
        if self._answer is None or self._answer.done():
            return _NOT_FOUND
        if "code" not in values:
            reason = values.get("error_description") or values.get("error") or "no reason was given"
            self._answer.set_exception(SignInRefused(f"Signing in was refused: {reason[:200]}."))
            return _PAGE % b"You are not signed in."
        self._answer.set_result(
            AuthorizationCodeResult(code=values["code"], state=values.get("state"), iss=values.get("iss"))
        )
        return _PAGE % b"You are signed in."


def _bind(port: int) -> socket.socket:
    """Return a socket at the port that the server knows, or at a free one where somebody else has that."""
    try:
        return socket.create_server((_HOST, port))
    except OSError:
        return socket.create_server((_HOST, 0))


def make_sign_in(url: str, kept_state: str, send: Send) -> OAuthClientProvider:
    """Return what signs in to a server where it asks for that. `kept` is what was sent as a `HostSignInState`."""
    store = SignInStore(kept_state, send)
    browser = BrowserReturn(store.port)
    store.port = browser.port

    async def show_page(page: str) -> None:
        if urlsplit(page).scheme not in {"http", "https"}:
            raise SignInRefused("The server's page for signing in is not on the web.")
        send(HostSignIn(url=page))

    metadata = OAuthClientMetadata(
        client_name="Roundhouse",
        redirect_uris=[AnyUrl(browser.address)],
        token_endpoint_auth_method="none",  # noqa: S106 -- what a program without a secret is called
    )
    return OAuthClientProvider(url, metadata, store, show_page, browser.wait)
