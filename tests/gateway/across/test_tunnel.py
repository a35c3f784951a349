"""The tunnel between machines: who is let in, what travels, and a machine that goes away."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from app.core.across import AcrossPlan, LayerShare, TunnelMember
from app.core.errors import BadRequest, NotFound, Unavailable
from app.gateway.across import links, tunnel
from app.gateway.across.links import MemberLink, Spreads
from app.gateway.across.tunnel import Pipe, TunnelIdentity, TunnelReply, TunnelRequest, call_member
from app.machines import identity as machine_identity
from engines.api import LaunchOptions
from tests.patience import PATIENCE_S

Answer = Callable[[TunnelRequest, Pipe], Awaitable[None]]


def identity_in(folder: Path) -> TunnelIdentity:
    return TunnelIdentity(folder / "own.pem", folder / "tunnel.toml")


def introduce(identity: TunnelIdentity, other: TunnelIdentity, address: str = "") -> TunnelMember:
    member = TunnelMember(name="desk", address=address, certificate=other.certificate())
    identity.add_member(member)
    return member


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """No machine that is merely slow counts as gone."""
    monkeypatch.setattr(links, "LOST_S", PATIENCE_S)


@pytest.fixture(autouse=True)
def no_keyring(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is written to the keyring of whoever runs the tests."""
    monkeypatch.setattr(machine_identity, "store_secret", lambda _name, _secret: False)


@pytest.fixture
def here(tmp_path: Path) -> TunnelIdentity:
    return identity_in(tmp_path / "here")


@pytest.fixture
def there(tmp_path: Path) -> TunnelIdentity:
    return identity_in(tmp_path / "there")


@asynccontextmanager
async def machine(identity: TunnelIdentity, answer: Answer) -> AsyncIterator[str]:
    """Play a machine that lends memory; yields its address."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await answer(await tunnel.read_line(reader, TunnelRequest), (reader, writer))
        except (OSError, ValueError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=identity.server_context())
    async with server:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"


async def hold_and_echo(request: TunnelRequest, pipe: Pipe) -> None:
    await tunnel.send_line(pipe[1], TunnelReply(version=request.ask))
    while piece := await pipe[0].read(4096):
        pipe[1].write(piece.upper())
        await pipe[1].drain()


def test_the_certificate_stays_and_its_key_is_private(here: TunnelIdentity, tmp_path: Path) -> None:
    assert here.certificate() == identity_in(tmp_path / "here").certificate()
    assert "PRIVATE" not in here.certificate()
    assert (tmp_path / "here" / "own.pem").stat().st_mode & 0o077 == 0


@pytest.mark.parametrize(
    ("name", "address", "certificate"),
    [
        ("here", "10.0.0.2:7437", ""),
        ("a,b", "10.0.0.2:7437", ""),
        (" ", "10.0.0.2:7437", ""),
        ("desk", "10.0.0.2", ""),
        ("desk", "10.0.0.2:0", ""),
        ("desk", "10.0.0.2:7437", "no certificate"),
        ("desk", "10.0.0.2:7437", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"),
    ],
)
def test_what_is_no_machine_is_refused(here: TunnelIdentity, name: str, address: str, certificate: str) -> None:
    with pytest.raises(BadRequest):
        here.add_member(TunnelMember(name=name, address=address, certificate=certificate or here.certificate()))
    assert here.list_members() == []


def test_machines_are_kept_and_forgotten(here: TunnelIdentity, there: TunnelIdentity) -> None:
    member = introduce(here, there, "10.0.0.2:7437")
    assert here.list_members() == [member]
    assert here.find_member("desk") == member
    here.remove_member("desk")
    with pytest.raises(NotFound, match="desk"):
        here.find_member("desk")


def test_a_file_that_makes_no_sense_is_named(here: TunnelIdentity, tmp_path: Path) -> None:
    here.certificate()
    (tmp_path / "here" / "tunnel.toml").write_text("member = 3", encoding="utf-8")
    with pytest.raises(BadRequest, match=r"tunnel\.toml"):
        here.list_members()


async def test_machines_that_know_each_other_talk(here: TunnelIdentity, there: TunnelIdentity) -> None:
    introduce(there, here)
    async with machine(there, hold_and_echo) as address:
        reply, (reader, writer) = await call_member(here, introduce(here, there, address), TunnelRequest(ask="state"))
        assert reply.version == "state"
        writer.write(b"a")
        assert await reader.readexactly(1) == b"A"
        writer.close()


async def test_a_stranger_is_let_in_nowhere(here: TunnelIdentity, there: TunnelIdentity, tmp_path: Path) -> None:
    introduce(there, identity_in(tmp_path / "third"))
    async with machine(there, hold_and_echo) as address:
        with pytest.raises(Unavailable, match="does not answer"):
            await call_member(here, introduce(here, there, address), TunnelRequest(ask="state"))


async def test_another_machine_at_the_address_is_not_believed(
    here: TunnelIdentity, there: TunnelIdentity, tmp_path: Path
) -> None:
    introduce(there, here)
    async with machine(there, hold_and_echo) as address:
        member = introduce(here, identity_in(tmp_path / "third"), address)
        with pytest.raises(Unavailable, match="certificate is another"):
            await call_member(here, member, TunnelRequest(ask="state"))


async def test_what_the_engine_sends_reaches_the_machine_and_back(here: TunnelIdentity, there: TunnelIdentity) -> None:
    introduce(there, here)
    async with machine(there, hold_and_echo) as address:
        link = MemberLink(here, introduce(here, there, address))
        await link.open_link(1)
        host, _, port = link.address.rpartition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        payload = b"layers " * 100_000
        writer.write(payload)
        assert await reader.readexactly(len(payload)) == payload.upper()
        writer.close()
        link.close_link()


async def test_a_machine_that_goes_silent_is_given_up_and_the_engine_cut_off(
    here: TunnelIdentity, there: TunnelIdentity, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(links, "BEAT_S", 0.01)
    monkeypatch.setattr(links, "LOST_S", 0.2)

    async def answer(_request: TunnelRequest, pipe: Pipe) -> None:
        await tunnel.send_line(pipe[1], TunnelReply())
        while await pipe[0].read(4096):
            pass  # nothing comes back

    introduce(there, here)
    async with machine(there, answer) as address:
        link = MemberLink(here, introduce(here, there, address))
        await link.open_link(1)
        host, _, port = link.address.rpartition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(b"a")
        async with asyncio.timeout(PATIENCE_S):
            assert await reader.read() == b""
        writer.close()
        assert "desk" in link.loss
        assert address in link.loss


async def unload(_model: str) -> None:
    """Stop an engine that is not there."""


def spread_plan() -> AcrossPlan:
    shares = [
        LayerShare(name=name, layers=layers, needed_bytes=layers, free_bytes=100)
        for name, layers in (("here", 5), ("desk", 3))
    ]
    return AcrossPlan(model="m", context=512, shares=shares, fits=True, sentence="It fits.")


async def test_a_spread_models_options_say_where_its_layers_lie(here: TunnelIdentity, there: TunnelIdentity) -> None:
    introduce(there, here)
    spreads = Spreads(here, unload)
    async with machine(there, hold_and_echo) as address:
        introduce(here, there, address)
        await spreads.connect_machines("m", spread_plan())
        options = spreads.options_for("m", LaunchOptions(context=4096, slots=4))
        assert (options.gpu_layers, options.split_ratio, options.context, options.slots) == (4, (4.0,), 512, 1)
        assert options.rpc_servers[0].startswith("127.0.0.1:")
        assert spreads.is_over("m", ["desk"], 512)
        assert not spreads.is_over("m", ["desk"], 1024)
        spreads.forget_model("m")
        assert "m" not in spreads


async def test_a_machine_that_refuses_says_why_and_one_that_is_gone_is_named(
    here: TunnelIdentity, there: TunnelIdentity
) -> None:
    async def refuse(_request: TunnelRequest, pipe: Pipe) -> None:
        await tunnel.send_line(pipe[1], TunnelReply(problem="It holds layers for lap already."))

    introduce(there, here)
    spreads = Spreads(here, unload)
    async with machine(there, refuse) as address:
        introduce(here, there, address)
        with pytest.raises(Unavailable, match="holds layers for lap"):
            await spreads.connect_machines("m", spread_plan())
    with pytest.raises(Unavailable, match="desk"):
        await spreads.connect_machines("m", spread_plan())
    assert "m" not in spreads
