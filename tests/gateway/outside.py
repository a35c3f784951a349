"""A real gateway under watch: every name looked up and every address connected to, by it and all it starts.

Two watches: an audit hook in every Python (`tests/watched`), and strace, where it is, which sees programs that are not
Python too. The outside is played on this computer by servers with names of their own, each at its own port.
"""

import json
import re
import shutil
import ssl
import subprocess
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.fake_hub.hub import FakeHub
from tests.fake_hub.server import serve_hub

ROOT = Path(__file__).resolve().parents[2]
WATCH = ROOT / "tests" / "watched"
OUTSIDE = ".outside.test"
_CALL = re.compile(r'sin6?_port=htons\((\d+)\).*?(?:inet_addr\("([^"]+)"\)|inet_pton\(AF_INET6, "([^"]+)")')
_ANY_KEY = "A" * 43 + "="
_HERE = frozenset({"127.0.0.1", "::1"})


class _Answers(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        replies: dict[str, Any] = self.server.replies  # type: ignore[attr-defined]
        body = json.dumps(replies.get(self.path, {})).encode()
        self.send_response(200 if self.path in replies else 404)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_POST = do_GET  # noqa: N815 -- the base class calls it so

    def log_message(self, *_args: object) -> None:
        pass


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def handle_error(self, request: object, client_address: object) -> None:
        """Clients leave in the middle."""


@contextmanager
def _answer_paths(replies: dict[str, Any], tls: ssl.SSLContext | None = None) -> Iterator[int]:
    """Answer these paths with JSON and all others with 404; yield the port."""
    server = _Server(("127.0.0.1", 0), _Answers)
    server.replies = replies  # type: ignore[attr-defined]
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@dataclass
class Outside:
    """Everything a gateway might call, and what was called."""

    home: Path
    hub: FakeHub
    ports: dict[str, int] = field(default_factory=dict)
    """By host name."""
    environment: dict[str, str] = field(default_factory=dict)

    @property
    def log(self) -> Path:
        return self.home / "watched.jsonl"

    @property
    def trace(self) -> Path:
        return self.home / "watched.strace"

    def url(self, name: str) -> str:
        return f"http://{name}{OUTSIDE}:{self.ports[name + OUTSIDE]}"

    def watch_command(self, argv: list[str]) -> list[str]:
        """Return what starts a program under watch."""
        tracer = shutil.which("strace")
        if tracer is None or not _may_trace(tracer):
            return argv
        what = ["-e", "trace=connect,sendto,sendmsg,sendmmsg", "-e", "signal=none"]
        return [tracer, "-f", "-q", "--seccomp-bpf", *what, "-o", str(self.trace), *argv]

    def looked_up(self) -> set[str]:
        """Return the names that Python looked up, but those of this computer."""
        places = {where for what, where in self._read_events() if what == "lookup" and isinstance(where, str)}
        return {name for name in places if name not in {*_HERE, "localhost"}}

    def count_calls(self) -> Counter[int]:
        """Return how often each port of the outside was connected to. Raises AssertionError for any other place."""
        counter = Counter(
            where[1] for what, where in self._read_events() if what == "connect" and self._is_outside(where)
        )
        if self.trace.exists():
            traced_ports = Counter(port for port, host in self._read_trace() if self._is_outside([host, port]))
            assert traced_ports == counter, "what the system saw is what Python's own watch saw"
        return counter

    def _is_outside(self, where: Any) -> bool:  # noqa: ANN401 -- JSON
        if not isinstance(where, list):
            return False  # a socket of this computer's own, with a path
        assert where[0] in _HERE, f"{where} was called"
        return where[1] in self.ports.values()

    def _read_events(self) -> Iterator[tuple[str, Any]]:
        for line in self.log.read_text().splitlines():
            what, where = json.loads(line)
            yield what, where

    def _read_trace(self) -> Iterator[tuple[int, str]]:
        for line in self.trace.read_text(errors="replace").splitlines():
            if "sa_family=AF_INET" in line and (match := _CALL.search(line)):
                yield int(match[1]), match[2] or match[3]


def _may_trace(tracer: str) -> bool:
    """Tell whether this system lets one program watch another."""
    return (
        subprocess.run([tracer, "-q", "--seccomp-bpf", "-f", "true"], capture_output=True, check=False).returncode == 0
    )


@contextmanager
def outside(home: Path) -> Iterator[Outside]:
    """Play the outside: a hub, release servers, a catalogue, a package index, and somebody's endpoint."""
    certificate = _certificate(home, [name + OUTSIDE for name in ("releases", "catalogue", "updates")])
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(certificate)
    choice = {"index": 0, "message": {"role": "assistant", "content": "From far."}, "finish_reason": "stop"}
    far = {"/v1/models": {"data": [{"id": "big"}]}, "/v1/chat/completions": {"choices": [choice]}}
    with ExitStack() as open_:
        outside_world = Outside(home, open_.enter_context(serve_hub(FakeHub())))
        outside_world.ports["hub" + OUTSIDE] = int(outside_world.hub.url.rpartition(":")[2])
        outside_world.ports["far" + OUTSIDE] = open_.enter_context(_answer_paths(far))
        outside_world.ports["index" + OUTSIDE] = open_.enter_context(_answer_paths({}))
        outside_world.ports["releases" + OUTSIDE] = open_.enter_context(_answer_paths({}, tls))
        outside_world.ports["catalogue" + OUTSIDE] = open_.enter_context(_answer_paths({}, tls))
        outside_world.ports["updates" + OUTSIDE] = open_.enter_context(_answer_paths({}, tls))
        outside_world.hub.url = outside_world.url("hub")
        outside_world.environment = _environment(outside_world, certificate)
        (home / "config").mkdir()
        (home / "config" / "update-keys.txt").write_text(_ANY_KEY)
        yield outside_world


def _environment(world: Outside, certificate: Path) -> dict[str, str]:
    return {
        "PYTHONPATH": f"{WATCH}",
        "WATCHED_CONNECTIONS": str(world.log),
        "SSL_CERT_FILE": str(certificate),
        "HF_ENDPOINT": world.hub.url,
        "ROUNDHOUSE_CATALOGUE_URL": world.url("catalogue").replace("http:", "https:") + "/list.json",
        "ROUNDHOUSE_CATALOGUE_KEY": _ANY_KEY,
        "ROUNDHOUSE_UPDATES_URL": world.url("updates").replace("http:", "https:"),
        "ROUNDHOUSE_ENGINES_RELEASES_URL": world.url("releases").replace("http:", "https:"),
        "UV_DEFAULT_INDEX": world.url("index") + "/simple",
        "UV_CACHE_DIR": str(world.home / "uv-cache"),
        "UV_HTTP_RETRIES": "0",
        "PIP_FIND_LINKS": "",
        **dict.fromkeys(("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"), ""),
    }


def _certificate(folder: Path, names: list[str]) -> Path:
    """Write a key and a certificate that vouches for itself into one file."""
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, names[0])])
    command = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name) for name in names]), critical=False)
        .sign(key, hashes.SHA256())
    )
    file = folder / "outside.pem"
    plain = serialization.NoEncryption()
    private = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain)
    file.write_bytes(private + command.public_bytes(serialization.Encoding.PEM))
    return file
