"""The tunnel between paired machines: who is let in, what travels, and a machine that goes away."""

import asyncio
import base64
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from msgspec.structs import replace

from app.config.paths import Paths
from app.core.across import AcrossPlan, LayerShare
from app.core.errors import Conflict, Unavailable
from app.core.machines import PairedMachine
from app.gateway.across import links, tunnel
from app.gateway.across.links import MachineLink
from app.gateway.across.spreads import Spreads
from app.gateway.across.tunnel import NOT_PAIRED, Pipe, TunnelReply, TunnelRequest, call_machine
from app.gateway.machines.trust import TrustedMachines
from app.machines import identity as machine_identity
from engines.api import Failure, FailureKind, LaunchOptions
from tests.patience import PATIENCE_S
from tests.ports import free_port

Answer = Callable[[TunnelRequest, Pipe], Awaitable[None]]
PLAIN_TEXT_CERTIFICATE = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"


async def open_in(folder: Path) -> TrustedMachines:
    paths = Paths(config=folder, data=folder, state=folder, logs=folder)
    trusted_machines = TrustedMachines(paths, lambda: True)
    await trusted_machines.open_list()
    await trusted_machines.server_context()
    return trusted_machines


async def introduce(
    trusted_machines: TrustedMachines, other: TrustedMachines, address: str = "10.0.0.2:1"
) -> PairedMachine:
    host, _, port = address.rpartition(":")
    certificate = base64.b64encode(other.own.certificate).decode()
    return await trusted_machines.trust_machine(
        PairedMachine(name="desk", certificate=certificate, host=host, port=int(port))
    )


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """No machine that is merely slow counts as gone."""
    monkeypatch.setattr(links, "LOST_S", PATIENCE_S)


@pytest.fixture(autouse=True)
def no_keyring(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is written to the keyring of whoever runs the tests."""
    monkeypatch.setattr(machine_identity, "store_secret", lambda _name, _secret: False)


@pytest.fixture
async def here(tmp_path: Path) -> TrustedMachines:
    return await open_in(tmp_path / "here")


@pytest.fixture
async def there(tmp_path: Path) -> TrustedMachines:
    return await open_in(tmp_path / "there")


@asynccontextmanager
async def machine(trusted_machines: TrustedMachines, answer: Answer) -> AsyncIterator[str]:
    """Play a machine that lends memory; yields its address."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await answer(await tunnel.read_line(reader, TunnelRequest), (reader, writer))
        except (OSError, ValueError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=await trusted_machines.server_context())
    async with server:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"


async def hold_and_echo(request: TunnelRequest, pipe: Pipe) -> None:
    await tunnel.send_line(pipe[1], TunnelReply(version=request.ask))
    while piece := await pipe[0].read(4096):
        pipe[1].write(piece.upper())
        await pipe[1].drain()


async def test_the_certificate_stays_and_its_key_is_private(here: TrustedMachines, tmp_path: Path) -> None:
    assert here.own.certificate == (await open_in(tmp_path / "here")).own.certificate
    assert (tmp_path / "here" / "machine-identity.pem").stat().st_mode & 0o077 == 0


async def test_nothing_is_made_or_read_while_other_machines_are_not_let_in(tmp_path: Path) -> None:
    paths = Paths(config=tmp_path, data=tmp_path, state=tmp_path, logs=tmp_path)
    with pytest.raises(Conflict, match=r"machines\.enabled"):
        await TrustedMachines(paths, lambda: False).open_list()
    assert not (tmp_path / "machine-identity.pem").exists()


async def test_an_older_list_is_moved_and_gives_no_more_than_it_gave(there: TrustedMachines, tmp_path: Path) -> None:
    folder = tmp_path / "here"
    own = await open_in(folder)
    certificates = {
        "desk": ssl.DER_cert_to_PEM_cert(there.own.certificate),
        "me": ssl.DER_cert_to_PEM_cert(own.own.certificate),
        "odd": PLAIN_TEXT_CERTIFICATE,
    }
    tables = [
        f'[[member]]\nname = "{name}"\naddress = "10.0.0.2:7437"\ncertificate = """\n{certificate}"""\n'
        for name, certificate in certificates.items()
    ]
    (folder / "tunnel.toml").write_text("\n".join(tables))
    (moved_machine,) = (await open_in(folder)).list_machines()
    assert (moved_machine.name, moved_machine.host, moved_machine.port) == ("desk", "10.0.0.2", 11643)
    assert (moved_machine.is_memory_only, moved_machine.lends_memory) == (True, False)
    assert not (folder / "tunnel.toml").exists()
    assert (folder / "tunnel.toml.moved").exists()
    again = await open_in(folder)
    assert again.list_machines() == [moved_machine]
    assert not (await introduce(again, there)).is_memory_only, "paired by a code it may ask models too"


async def test_an_older_list_that_makes_no_sense_stays(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "tunnel.toml").write_text("member = 3", encoding="utf-8")
    assert (await open_in(tmp_path)).list_machines() == []
    assert "tunnel.toml" in caplog.text
    caplog.clear()
    assert (tmp_path / "tunnel.toml").exists()


async def test_a_machine_that_is_paired_again_keeps_what_it_was_allowed(
    here: TrustedMachines, there: TrustedMachines
) -> None:
    known_machine = await introduce(here, there)
    await here.change_machine(replace(known_machine, lends_memory=True))
    assert (await introduce(here, there, "10.0.0.3:2")).lends_memory


async def test_machines_that_know_each_other_talk(here: TrustedMachines, there: TrustedMachines) -> None:
    await introduce(there, here)
    async with machine(there, hold_and_echo) as address:
        reply, (reader, writer) = await call_machine(
            here, await introduce(here, there, address), TunnelRequest(ask="state")
        )
        assert reply.version == "state"
        writer.write(b"a")
        assert await reader.readexactly(1) == b"A"
        writer.close()


async def test_a_stranger_is_let_in_nowhere(here: TrustedMachines, there: TrustedMachines, tmp_path: Path) -> None:
    await introduce(there, await open_in(tmp_path / "third"))
    async with machine(there, hold_and_echo) as address:
        with pytest.raises(Unavailable, match="does not trust"):
            await call_machine(here, await introduce(here, there, address), TunnelRequest(ask="state"))


async def test_another_machine_at_the_address_is_not_believed(
    here: TrustedMachines, there: TrustedMachines, tmp_path: Path
) -> None:
    await introduce(there, here)
    async with machine(there, hold_and_echo) as address:
        member = await introduce(here, await open_in(tmp_path / "third"), address)
        with pytest.raises(Unavailable, match="is not desk"):
            await call_machine(here, member, TunnelRequest(ask="state"))


async def test_what_the_engine_sends_reaches_the_machine_and_back(
    here: TrustedMachines, there: TrustedMachines
) -> None:
    await introduce(there, here)
    async with machine(there, hold_and_echo) as address:
        link = MachineLink(here, await introduce(here, there, address))
        await link.open_link(1)
        host, _, port = link.address.rpartition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        payload = b"layers " * 100_000
        writer.write(payload)
        assert await reader.readexactly(len(payload)) == payload.upper()
        writer.close()
        link.close_link()


async def test_a_machine_that_goes_silent_is_given_up_and_the_engine_cut_off(
    here: TrustedMachines, there: TrustedMachines, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(links, "BEAT_S", 0.01)
    monkeypatch.setattr(links, "LOST_S", 0.2)

    async def answer(_request: TunnelRequest, pipe: Pipe) -> None:
        await tunnel.send_line(pipe[1], TunnelReply())
        while await pipe[0].read(4096):
            pass  # nothing comes back

    await introduce(there, here)
    async with machine(there, answer) as address:
        link = MachineLink(here, await introduce(here, there, address))
        await link.open_link(1)
        host, _, port = link.address.rpartition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(b"a")
        async with asyncio.timeout(PATIENCE_S):
            assert await reader.read() == b""
        writer.close()
        assert "desk" in link.loss
        assert address in link.loss


class PlayedEngines:
    """Notes which engine was failed, and why."""

    def __init__(self) -> None:
        self.failures: list[tuple[str, Failure]] = []
        self._has_failed = asyncio.Event()

    def fail_model(self, model: str, failure: Failure) -> None:
        self.failures.append((model, failure))
        self._has_failed.set()

    async def await_failure(self) -> None:
        async with asyncio.timeout(PATIENCE_S):
            await self._has_failed.wait()


def spread_plan() -> AcrossPlan:
    shares = [
        LayerShare(name=name, first_layer=first, layers=layers, needed_bytes=layers, free_bytes=100)
        for name, first, layers in (("here", 0, 5), ("desk", 5, 3))
    ]
    return AcrossPlan(model="m", context=512, shares=shares, fits=True, sentence="It fits.")


async def test_a_spread_models_options_say_where_its_layers_lie(here: TrustedMachines, there: TrustedMachines) -> None:
    await introduce(there, here)
    spreads = Spreads(here, PlayedEngines().fail_model)
    async with machine(there, hold_and_echo) as address:
        await introduce(here, there, address)
        await spreads.connect_machines("m", spread_plan())
        options = spreads.options_for("m", LaunchOptions(context=4096, slots=4))
        assert (options.gpu_layers, options.split_ratio, options.context, options.slots) == (4, (4.0,), 512, 1)
        assert options.rpc_servers[0].startswith("127.0.0.1:")
        assert spreads.placement_of("m") == "Layers 1 to 5 on this computer, 6 to 8 on desk."
        assert spreads.is_over("m", ["desk"], 512)
        assert not spreads.is_over("m", ["desk"], 1024)
        spreads.forget_model("m")
        assert "m" not in spreads


async def test_a_machine_that_refuses_says_why_and_one_that_is_gone_is_named(
    here: TrustedMachines, there: TrustedMachines
) -> None:
    async def refuse(_request: TunnelRequest, pipe: Pipe) -> None:
        await tunnel.send_line(pipe[1], TunnelReply(problem="It holds layers for lap already."))

    await introduce(there, here)
    spreads = Spreads(here, PlayedEngines().fail_model)
    async with machine(there, refuse) as address:
        await introduce(here, there, address)
        with pytest.raises(Unavailable, match="holds layers for lap"):
            await spreads.connect_machines("m", spread_plan())
    with pytest.raises(Unavailable, match="desk"):
        await spreads.connect_machines("m", spread_plan())
    assert "m" not in spreads


async def test_a_machine_that_is_revoked_is_cut_off_at_once_and_its_models_say_so(
    here: TrustedMachines, there: TrustedMachines
) -> None:
    await introduce(there, here)
    engines = PlayedEngines()
    spreads = Spreads(here, engines.fail_model)
    async with machine(there, hold_and_echo) as address:
        desk = await introduce(here, there, address)
        await spreads.connect_machines("m", spread_plan())
        await here.distrust_machine(desk)
        await engines.await_failure()
        with pytest.raises(Unavailable, match="not paired"):
            await call_machine(here, desk, TunnelRequest(ask="state"))
        with pytest.raises(Unavailable, match=r"not paired with this computer any more\. No machine called .desk."):
            await spreads.revive_machines("m")
    ((model, failure),) = engines.failures
    assert (model, failure.kind) == ("m", FailureKind.UNREACHABLE)
    assert failure.sentence == "desk is not paired with this computer any more."


async def test_a_machine_that_takes_its_memory_back_says_why(here: TrustedMachines, there: TrustedMachines) -> None:
    async def hold_and_part(_request: TunnelRequest, pipe: Pipe) -> None:
        await tunnel.send_line(pipe[1], TunnelReply())
        await pipe[0].read(1)
        pipe[1].write(tunnel.FAREWELL)
        await tunnel.send_line(pipe[1], TunnelReply(problem="its memory is lent no longer."))

    await introduce(there, here)
    engines = PlayedEngines()
    spreads = Spreads(here, engines.fail_model)
    async with machine(there, hold_and_part) as address:
        await introduce(here, there, address)
        await spreads.connect_machines("m", spread_plan())
        await engines.await_failure()
    assert engines.failures[0][1].sentence == "desk holds no layers any more: its memory is lent no longer."


async def test_a_machine_that_has_no_tunnel_is_an_older_one(here: TrustedMachines, there: TrustedMachines) -> None:
    await introduce(there, here)
    context = await there.server_context()
    context.set_alpn_protocols(["http/1.1"])
    server = await asyncio.start_server(lambda _reader, writer: writer.close(), "127.0.0.1", 0, ssl=context)
    async with server:
        desk = await introduce(here, there, f"127.0.0.1:{server.sockets[0].getsockname()[1]}")
        with pytest.raises(Unavailable, match="older Roundhouse"):
            await call_machine(here, desk, TunnelRequest(ask="state"))


async def test_nothing_at_the_address_is_said(here: TrustedMachines, there: TrustedMachines) -> None:
    desk = await introduce(here, there, f"127.0.0.1:{free_port()}")
    with pytest.raises(Unavailable, match="cannot be reached") as error:
        await call_machine(here, desk, TunnelRequest(ask="state"))
    assert error.value.code != NOT_PAIRED
