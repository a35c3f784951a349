"""Send a request's body in the turn of the event loop in which it was asked for, as aiohttp does from Python 3.12 on.

Before, its body is written by a task, and that begins only when everybody who is ready has had a turn: of requests that
come together none reaches the engine before all of them have been understood.
"""

import types
from collections.abc import Coroutine, Generator
from typing import TYPE_CHECKING, Any

import aiohttp

if TYPE_CHECKING:
    from aiohttp.abc import AbstractStreamWriter
    from aiohttp.connector import Connection

_Steps = Coroutine[Any, Any, None]


class PromptRequest(aiohttp.ClientRequest):
    """A request whose body goes out at once as far as the socket takes it, and the rest as usual."""

    # Not `async`: what awaits it is a task, and calling it comes before that.
    def write_bytes(
        self, writer: "AbstractStreamWriter", conn: "Connection", content_length: int | None = None
    ) -> _Steps:
        """Write what can be written now; return what writes the rest."""
        writing = super().write_bytes(writer, conn, content_length)
        try:
            awaited = writing.send(None)
        except StopIteration:
            return _nothing()
        return _rest(writing, awaited)


async def _nothing() -> None:
    """Be done."""


async def _rest(writing: _Steps, awaited: object) -> None:
    await _going_on(writing, awaited)


@types.coroutine
def _going_on(writing: _Steps, awaited: object) -> Generator[object, object, None]:
    """Go on with a coroutine that waits for something, as `await` would have from its beginning."""
    while True:
        try:
            try:
                came = yield awaited
            except BaseException as error:  # noqa: BLE001 -- it is for the coroutine to take, as a cancellation
                awaited = writing.throw(error)
            else:
                awaited = writing.send(came)
        except StopIteration:
            return
