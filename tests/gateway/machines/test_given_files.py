"""Two paired gateways and a hub: what one has, the other fetches from it if that is wanted, and nothing else."""

import http.client
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from typing import NamedTuple
from urllib.parse import quote

import msgspec
import pytest

from app.core.downloads import Download, DownloadState, Pull
from app.core.machines import PairedMachine
from app.gateway.machines.file_giving import AT_ONCE
from app.hub.download.machine_files import file_address
from app.hub.download.transfer import CHUNK_BYTES
from app.hub.repositories.repository import read_repository
from app.machines.identity import load_identity
from app.network.pinned_tls import make_client_context
from tests.fake_hub.hub import FakeHub
from tests.fake_hub.server import serve_hub
from tests.gateway.admin.real_gateway import RealGateway
from tests.gateway.machines.test_paired_gateways import Pair, list_machines, pair_up, start
from tests.gguf_files import TinyLlama
from tests.patience import PATIENCE_S, wait_until

pytestmark = pytest.mark.slow

NAME, FILE = "org/Model-GGUF", "Model-Q4_K_M.gguf"
OTHER = "org/Large-GGUF"


class Home(NamedTuple):
    """Both gateways, and the hub that both know."""

    hub: FakeHub
    pair: Pair

    def pull(self, gateway: RealGateway, model: str = f"{NAME}:Q4_K_M") -> Download:
        return gateway.client.post("/downloads", Pull(model=model, anyway=True), Download)

    def await_end(self, gateway: RealGateway, first_download: Download) -> Download:
        def find() -> Download:
            return next(
                entry for entry in gateway.client.get("/downloads", list[Download]) if entry.id == first_download.id
            )

        wait_until(lambda: find().state not in {DownloadState.QUEUED, DownloadState.RUNNING})
        return find()

    def sent_for(self, work: Callable[[], object]) -> int:
        before = self.hub.sent_bytes
        work()
        return self.hub.sent_bytes - before


def large_model() -> bytes:
    content = TinyLlama(name="Large").content()
    return content + bytes(range(256)) * (6 * CHUNK_BYTES // 256)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    with ExitStack() as stack:
        hub = stack.enter_context(serve_hub(FakeHub()))
        hub.add(NAME, {FILE: TinyLlama(name="Four").content(), "README.md": b"#"})
        hub.add(OTHER, {"Large-Q4_K_M.gguf": large_model()})
        gateways = [
            stack.enter_context(start(tmp_path_factory.mktemp(name), name, hub=hub.url)) for name in ("desk", "lap")
        ]
        there = Home(hub, Pair(*gateways))
        pair_up(there.pair)
        for model in (f"{NAME}:Q4_K_M", OTHER):
            assert there.await_end(there.pair.desk, there.pull(there.pair.desk, model)).state is DownloadState.DONE
        yield there


def share(home: Home, *, is_on: bool) -> None:
    home.pair.desk.client.patch("/settings", {"machines.share_files": is_on}, object)
    wait_until(lambda: list_machines(home.pair.lap).machines[0].shares_files is is_on)


def forget(home: Home) -> None:
    """Have the lap without what it fetched."""
    for download in home.pair.lap.client.get("/downloads", list[Download]):
        home.pair.lap.client.delete(f"/downloads/{download.id}")
    for file in home.pair.lap.paths.hub_cache.rglob("*"):
        if not file.is_dir():
            file.unlink()


def connect_as_lap(home: Home) -> http.client.HTTPSConnection:
    lap = home.pair.lap
    machines = msgspec.json.decode(lap.paths.machines_file.read_bytes(), type=list[PairedMachine])
    context = make_client_context(load_identity(lap.paths.machine_identity_file), machines[0].certificate_der)
    port = list_machines(home.pair.desk).port
    return http.client.HTTPSConnection("127.0.0.1", port, timeout=PATIENCE_S, context=context)


def ask_as_lap(home: Home, path: str, headers: dict[str, str] | None = None) -> tuple[int, bytes, dict[str, str]]:
    with closing(connect_as_lap(home)) as client:
        client.request("GET", path, headers=headers or {})
        reply = client.getresponse()
        return reply.status, reply.read(), dict(reply.getheaders())


def address_in(home: Home, repository: str = NAME, path: str = FILE) -> str:
    file = read_repository(home.hub.url, repository).find_file(path)
    assert file is not None
    return file_address(repository, file.etag)


def test_a_file_comes_from_the_other_computer_if_that_gives_it(home: Home) -> None:
    """The hub sends no more than the header, by which the model is judged beforehand."""
    lap, content = home.pair.lap, large_model()
    share(home, is_on=False)
    assert home.sent_for(lambda: home.await_end(lap, home.pull(lap, OTHER))) >= len(content)
    forget(home)
    share(home, is_on=True)
    assert home.sent_for(lambda: home.await_end(lap, home.pull(lap, OTHER))) < CHUNK_BYTES
    (ended_download,) = home.pair.lap.client.get("/downloads", list[Download])
    assert (ended_download.state, ended_download.machine, ended_download.note) == (DownloadState.DONE, "desk", "")
    (file,) = home.pair.lap.paths.hub_cache.glob("models--org--Large-GGUF/snapshots/*/*.gguf")
    assert file.read_bytes() == content
    forget(home)


def test_only_hashes_of_the_cache_are_answered(home: Home) -> None:
    share(home, is_on=True)
    content = home.hub.repositories[NAME].branches["main"][FILE]
    status, body, headers = ask_as_lap(home, address_in(home), {"Range": "bytes=10-19"})
    assert (status, body) == (206, content[10:20])
    assert headers["Content-Range"] == f"bytes 10-19/{len(content)}"
    assert ask_as_lap(home, address_in(home))[:2] == (200, content)
    digest = address_in(home).partition("?")[0].rpartition("/")[2]
    for path in (
        f"/machine/files/{'0' * 64}?repository={NAME}",
        f"/machine/files/{digest}?repository=org/Another",
        f"/machine/files/{digest}",
        f"/machine/files/{digest}?repository={quote('../models--org--Model-GGUF')}",
        f"/machine/files/{quote('../../refs/main', safe='')}?repository={NAME}",
        f"/machine/files/..%2f..%2frefs%2fmain?repository={NAME}",
        f"/machine/files/{digest}.part?repository={NAME}",
        "/machine/files/",
        "/machine/files",
    ):
        status, body, _ = ask_as_lap(home, path)
        assert status in {400, 404}, path
        assert str(home.pair.desk.paths.data) not in body.decode()
    for byte_range in ("bytes=9-3", "bytes=99999999-", "bytes=x", "lines=1-2"):
        assert ask_as_lap(home, address_in(home), {"Range": byte_range})[0] == 400, byte_range


def test_a_link_out_of_the_cache_is_not_followed(home: Home) -> None:
    share(home, is_on=True)
    blobs = home.pair.desk.paths.hub_cache / "models--org--Model-GGUF" / "blobs"
    link = blobs / ("b" * 64)
    link.symlink_to(home.pair.desk.paths.settings_file)
    try:
        assert ask_as_lap(home, file_address(NAME, link.name))[0] == 404
    finally:
        link.unlink()


def test_a_computer_is_sent_four_files_at_once(home: Home) -> None:
    """The fifth is refused, and let in once one of the others has ended."""
    share(home, is_on=True)
    address = address_in(home, OTHER, "Large-Q4_K_M.gguf")
    with ExitStack() as stack:
        clients = [stack.enter_context(closing(connect_as_lap(home))) for _ in range(AT_ONCE)]
        for client in clients:
            client.request("GET", address)
            assert client.getresponse().status == 200  # and more of it is not read
        assert ask_as_lap(home, address)[0] == 429
        clients[0].close()
        wait_until(lambda: ask_as_lap(home, address, {"Range": "bytes=0-9"})[0] == 206)


def test_nothing_is_given_while_that_is_off(home: Home) -> None:
    share(home, is_on=False)
    status, body, _ = ask_as_lap(home, address_in(home))
    assert (status, b"files_not_shared" in body) == (403, True)


@pytest.mark.parametrize("side", ["desk", "lap"])
def test_revoked_in_the_middle_the_hub_brings_the_rest(home: Home, side: str) -> None:
    """At 1 MB/s from the other computer; either side revokes once bytes have come."""
    share(home, is_on=True)
    home.pair.desk.client.patch("/settings", {"machines.share_limit_mb_s": 1}, object)
    lap = home.pair.lap
    first_download = home.pull(lap, OTHER)

    def has_moved() -> bool:
        (entry,) = [entry for entry in lap.client.get("/downloads", list[Download]) if entry.id == first_download.id]
        return entry.machine == "desk" and entry.present_bytes > 0

    try:
        wait_until(has_moved)
        revoker, name = (home.pair.desk, "lap") if side == "desk" else (lap, "desk")
        revoker.client.delete(f"/machines/{name}")
        ended_download = home.await_end(lap, first_download)
        assert (ended_download.state, ended_download.error, ended_download.machine) == (DownloadState.DONE, None, "")
        (file,) = lap.paths.hub_cache.glob("models--org--Large-GGUF/snapshots/*/*.gguf")
        assert file.read_bytes() == large_model()
        if side == "desk":
            assert ask_as_lap(home, address_in(home))[0] == 401
    finally:
        home.pair.desk.client.patch("/settings", {"machines.share_limit_mb_s": 0}, object)
        for gateway in home.pair:
            for machine in list_machines(gateway).machines:
                gateway.client.delete(f"/machines/{machine.name}")
        pair_up(home.pair)
        forget(home)
