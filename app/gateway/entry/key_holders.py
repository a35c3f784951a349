"""Requests that a key let in and that still run: when the key is revoked or expires, they end too.

A key opens a request at its beginning; a stream may go on for minutes, and the stream of events for days.
"""

import asyncio
import math

from aiohttp import web

from app.core.keys import KeyInfo
from app.gateway.entry.keys import KeyStore
from app.gateway.exchange.observer import OBSERVATION

GRACE_S = 0.5
"""An answer has so long to end in its dialect's words; then its connection ends."""
_LONGEST_TIMER_S = 1.0
"""Clocks are set: an end that is far away is looked at again, for as long as a request runs with such a key."""


class KeyHolders:
    """The requests that run with a key, and when to look at them again. Belongs to the event loop."""

    def __init__(self, keys: KeyStore) -> None:
        self._keys = keys
        self._requests: dict[int, tuple[web.Request, str]] = {}
        self._ended_requests: dict[int, web.Request] = {}
        self._timer: asyncio.TimerHandle | None = None
        keys.on_revoke = self.end_requests

    def add_request(self, request: web.Request, key: KeyInfo) -> None:
        """Note that a request runs with a key."""
        self._requests[id(request)] = request, key.id
        self._look_again()

    def remove_request(self, request: web.Request) -> None:
        """Forget a request that has ended."""
        self._requests.pop(id(request), None)
        self._ended_requests.pop(id(request), None)

    def end_requests(self) -> None:
        """End every request whose key opens nothing any more."""
        for number, (request, key_id) in list(self._requests.items()):
            if self._keys.seconds_left(key_id) <= 0:
                del self._requests[number]
                self._end_request(number, request)
        self._look_again()

    def _end_request(self, number: int, request: web.Request) -> None:
        self._ended_requests[number] = request
        observation = request.get(OBSERVATION)
        if observation is not None:
            observation.stop()
        grace_s = 0.0 if observation is None else GRACE_S
        asyncio.get_running_loop().call_later(grace_s, self._break_off, number)

    def _break_off(self, number: int) -> None:
        request = self._ended_requests.pop(number, None)
        if request is not None and request.transport is not None:
            request.transport.abort()

    def _look_again(self) -> None:
        """Set the timer for the first key to expire of those that requests run with."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        left_s = min((self._keys.seconds_left(key_id) for _, key_id in self._requests.values()), default=math.inf)
        if left_s < math.inf:
            delay_s = min(max(left_s, 0.0), _LONGEST_TIMER_S)
            self._timer = asyncio.get_running_loop().call_later(delay_s, self.end_requests)
