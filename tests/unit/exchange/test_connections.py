"""A connection to an engine, before and after there is one."""

import pytest

from app.gateway.exchange.connections import EngineConnection, EngineDisconnected, address_of


async def test_a_connection_that_is_not_there_takes_no_request() -> None:
    connection = EngineConnection(address_of("http://127.0.0.1:1"), lambda _: None, set())
    with pytest.raises(EngineDisconnected, match="closed"):
        await connection.send_request(b"GET / HTTP/1.1\r\n\r\n", b"")
