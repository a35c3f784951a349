"""Files from a paired machine, and from the hub where that one fails: whatever it sends, what arrives is right."""

import base64
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from app.core.errors import BadRequest
from app.hub.download import program, wire
from app.hub.download.chunk_map import ChunkMap, PartContent
from app.hub.download.job import (
    DownloadJob,
    DownloadMessage,
    DownloadNote,
    DownloadProgress,
    MachineSource,
    MachineSources,
)
from app.hub.download.machine_files import check_file_name, file_address
from app.hub.download.program import download_files
from app.hub.download.transfer import TransferDeps
from app.hub.download.wire import Throttle
from app.hub.repositories import ranges
from app.hub.repositories.repository import read_repository
from app.machines.identity import make_identity_pem
from app.network.pinned_tls import TlsIdentity, make_server_context
from tests.range_server import RANGE
from tests.unit.hub.download.conftest import CHUNK, FILE, NAME, Arena

Make = Callable[..., Arena]
SIZE = 3 * CHUNK + 1000


def make_identity(folder: Path, name: str) -> TlsIdentity:
    file = folder / f"{name}.pem"
    file.write_bytes(make_identity_pem("word"))
    return TlsIdentity(file, "word", x509.load_pem_x509_certificate(file.read_bytes()).public_bytes(Encoding.DER))


@dataclass
class Peer:
    """A machine that has files by their hashes; `answer` sends one otherwise than asked."""

    files: dict[str, bytes]
    answer: Callable[[BaseHTTPRequestHandler, bytes, range], None] | None = None
    requests: list[str] = field(default_factory=list)
    port: int = 0
    identity: TlsIdentity | None = None


def send_range(request: BaseHTTPRequestHandler, content: bytes, part: range, *, total: int = 0) -> None:
    request.send_response(206)
    request.send_header("Content-Range", f"bytes {part.start}-{part.stop - 1}/{total or len(content)}")
    request.send_header("Content-Length", str(len(part)))
    request.end_headers()
    request.wfile.write(content[part.start : part.stop])


@contextmanager
def serve_peer(peer: Peer, context: ssl.SSLContext) -> Iterator[Peer]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            peer.requests.append(self.path)
            content = peer.files.get(self.path)
            wanted_range = RANGE.match(self.headers.get("Range", ""))
            if content is None or wanted_range is None:
                self.send_error(404)
                return
            (peer.answer or send_range)(self, content, range(int(wanted_range[1]), int(wanted_range[2]) + 1))

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 -- the base class's name
            """Stay silent."""

        def handle_one_request(self) -> None:
            with_suppressed(super().handle_one_request)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    server.socket = context.wrap_socket(server.socket, server_side=True)
    server.handle_error = lambda *_about: None  # type: ignore[method-assign] # a client that leaves is what is tested
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    peer.port = server.server_port
    try:
        yield peer
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def with_suppressed(function: Callable[[], None]) -> None:
    try:
        function()
    except OSError:  # whoever fetches has had enough
        return


@dataclass
class Home:
    """A hub, a machine that has the same files, and what is fetched."""

    arena: Arena
    peer: Peer
    own: TlsIdentity
    messages: list[DownloadMessage] = field(default_factory=list)

    def fetch(self) -> bytes:
        """Fetch everything and return the file."""
        repository = read_repository(self.arena.hub.url, NAME)
        assert self.peer.identity is not None
        certificate = base64.b64encode(self.peer.identity.certificate).decode()
        machine = MachineSource(name="desk", address="127.0.0.1", port=self.peer.port, certificate=certificate)
        job = DownloadJob(
            endpoint=self.arena.hub.url,
            repository=NAME,
            revision="main",
            commit=repository.commit,
            files=repository.files,
            cache=str(self.arena.cache.root),
            sources=MachineSources(identity_file=str(self.own.file), passphrase="word", machines=[machine]),
        )
        result = download_files(job, Throttle(), self.messages.append)
        return (Path(result.folder) / FILE).read_bytes()

    @property
    def notes(self) -> list[str]:
        return [message.sentence for message in self.messages if isinstance(message, DownloadNote)]

    @property
    def hub_files(self) -> list[str]:
        """The files that the hub was asked for."""
        return [path.rpartition("/")[2] for _, path, *_ in self.arena.hub.requests if "/resolve/" in path]


@pytest.fixture
def home(arena: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Home]:
    monkeypatch.setattr(program, "TransferDeps", partial(TransferDeps, chunk_bytes=CHUNK))
    there = arena(SIZE)
    files = read_repository(there.hub.url, NAME).files
    contents = {FILE: there.content, "config.json": b"{}"}
    own, other = make_identity(tmp_path, "own"), make_identity(tmp_path, "other")
    peer = Peer({file_address(NAME, file.etag): contents[file.path] for file in files}, identity=other)
    with serve_peer(peer, make_server_context(other, [own.certificate])):
        yield Home(there, peer, own)


def test_what_a_machine_has_comes_from_there_and_the_hub_sends_nothing(home: Home) -> None:
    assert home.fetch() == home.arena.content
    assert home.hub_files == []
    assert home.notes == []
    progress = [message for message in home.messages if isinstance(message, DownloadProgress)]
    assert {message.machine for message in progress} == {"desk"}
    assert progress[-1].present_bytes == SIZE + 2


def test_what_it_does_not_have_comes_from_the_hub_and_it_is_asked_for_the_rest(home: Home) -> None:
    del home.peer.files[file_address(NAME, home.arena.file.etag)]
    assert home.fetch() == home.arena.content
    assert set(home.hub_files) == {FILE}
    assert (home.notes, len(home.peer.requests)) == ([], 2)


def send_other_bytes(request: BaseHTTPRequestHandler, content: bytes, part: range) -> None:
    send_range(request, bytes(len(content)), part)


def claim_other_length(request: BaseHTTPRequestHandler, content: bytes, part: range) -> None:
    send_range(request, content, part, total=len(content) + 1)


def send_other_range(request: BaseHTTPRequestHandler, content: bytes, part: range) -> None:
    send_range(request, content, range(part.start + 1, part.stop))


def refuse(request: BaseHTTPRequestHandler, _content: bytes, _part: range) -> None:
    request.send_error(403)


def redirect(request: BaseHTTPRequestHandler, _content: bytes, _part: range) -> None:
    request.send_response(302)
    request.send_header("Location", "http://127.0.0.1:1/secret")
    request.end_headers()


def send_endless_head(request: BaseHTTPRequestHandler, _content: bytes, _part: range) -> None:
    request.send_response(206)
    for number in range(100_000):
        request.send_header(f"X-{number}", "x" * 100)
    request.end_headers()


def hang(_request: BaseHTTPRequestHandler, _content: bytes, _part: range) -> None:
    time.sleep(3)  # longer than it is waited for, below


def drip(request: BaseHTTPRequestHandler, content: bytes, part: range) -> None:
    request.send_response(206)
    request.send_header("Content-Range", f"bytes {part.start}-{part.stop - 1}/{len(content)}")
    request.send_header("Content-Length", str(len(part)))
    request.end_headers()
    for at in part:
        request.wfile.write(content[at : at + 1])
        time.sleep(0.05)


def send_a_little(request: BaseHTTPRequestHandler, content: bytes, part: range) -> None:
    request.send_response(206)
    request.send_header("Content-Range", f"bytes {part.start}-{part.stop - 1}/{len(content)}")
    request.send_header("Content-Length", str(len(part)))
    request.end_headers()
    request.wfile.write(content[part.start : part.start + 1])
    request.close_connection = True


@pytest.mark.parametrize(
    "answer",
    [
        send_other_bytes,
        claim_other_length,
        send_other_range,
        refuse,
        redirect,
        send_endless_head,
        hang,
        drip,
        send_a_little,
    ],
)
def test_a_machine_that_fails_is_left_and_the_hub_goes_on(
    home: Home, answer: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ranges, "TIMEOUT_S", 1.0)
    monkeypatch.setattr(wire, "SLOW_AFTER_S", 1.0)
    home.peer.answer = answer
    assert home.fetch() == home.arena.content
    assert len(home.notes) == 1
    assert home.notes[0].startswith("The download goes on without desk: ")
    assert FILE in home.hub_files
    assert not home.arena.part.exists()


def test_one_that_breaks_off_loses_nothing_that_it_sent(home: Home) -> None:
    def break_off(request: BaseHTTPRequestHandler, content: bytes, part: range) -> None:
        if part.start >= 2 * CHUNK:
            request.connection.close()
            return
        (send_range if len(content) < CHUNK else send_half)(request, content, part)

    home.peer.answer = break_off
    before = home.arena.hub.sent_bytes
    assert home.fetch() == home.arena.content
    assert home.arena.hub.sent_bytes - before < SIZE - 2 * CHUNK + 10_000
    assert len(home.notes) == 1


def send_half(request: BaseHTTPRequestHandler, content: bytes, part: range) -> None:
    """Promise all and send two chunks."""
    request.send_response(206)
    request.send_header("Content-Range", f"bytes {part.start}-{part.stop - 1}/{len(content)}")
    request.send_header("Content-Length", str(len(part)))
    request.end_headers()
    request.wfile.write(content[part.start : 2 * CHUNK])
    request.close_connection = True


def test_wrong_bytes_take_nothing_with_them_that_was_there_before(home: Home) -> None:
    """Two chunks that the hub sent earlier stay, and are not asked for again."""
    file, part = home.arena.file, home.arena.part
    chunks = ChunkMap(part, PartContent(size=SIZE, chunk_bytes=CHUNK, etag=file.etag))
    with part.open("r+b") as out:
        out.write(home.arena.content[: 2 * CHUNK])
        for index in range(2):
            chunks.mark_chunk(index, out.fileno())
    chunks.close()
    home.peer.answer = send_other_bytes
    before = home.arena.hub.sent_bytes
    assert home.fetch() == home.arena.content
    assert SIZE - 2 * CHUNK <= home.arena.hub.sent_bytes - before < SIZE - 2 * CHUNK + 10_000
    assert len(home.notes) == 1


def test_another_certificate_is_sent_nothing(home: Home, tmp_path: Path) -> None:
    """A stranger in between, who has an address and a certificate of their own."""
    stranger = make_identity(tmp_path, "stranger")
    with serve_peer(
        Peer(home.peer.files, identity=stranger), make_server_context(stranger, [home.own.certificate])
    ) as false:
        home.peer.port = false.port
        assert home.fetch() == home.arena.content
    assert false.requests == []
    assert len(home.notes) == 1


@pytest.mark.parametrize(
    ("repository", "digest"),
    [
        ("../x", "a" * 64),
        ("a/..", "a" * 64),
        ("a/b/c", "a" * 64),
        ("a--b/c", "a" * 64),
        ("org/name", "../" + "a" * 61),
        ("org/name", "A" * 64),
        ("org/name", "a" * 63),
        ("org/name", ""),
        ("", "a" * 40),
    ],
)
def test_nothing_that_could_lead_elsewhere_names_a_file(repository: str, digest: str) -> None:
    with pytest.raises(BadRequest):
        check_file_name(repository, digest)
