"""An engine that tries what it must not: `python -c CODE PORT HOME [helpers]`, where HOME is somebody's.

It writes what came of each attempt to `attempts.json` in its own home, then serves so that it counts as ready. Only the
standard library; the test runs its text, since a confined engine cannot read this folder.
"""

import ctypes
import http.server
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys

assert sys.platform == "linux"

PORT, HOME = int(sys.argv[1]), pathlib.Path(sys.argv[2])
ELSEWHERE = 443
MPTCP, FAST_OPEN, VSOCK, IO_URING_SETUP, ADD_KEY = 262, 0x20000000, 40, 425, 248


def connect_tcp() -> object:
    return socket.create_connection(("127.0.0.1", int(os.environ["OPEN_PORT"])), timeout=5)


def connect_mptcp() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM, MPTCP) as link:
        link.connect(("127.0.0.1", int(os.environ["OPEN_PORT"])))


def connect_by_sending() -> object:
    with socket.socket() as link:
        return link.sendto(b"secret", FAST_OPEN, ("127.0.0.1", int(os.environ["OPEN_PORT"])))


def send_datagram() -> object:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as link:
        return link.sendto(b"secret", ("127.0.0.1", 53))


def ask_local_service() -> None:
    with socket.socket(socket.AF_UNIX) as link:
        link.connect(os.environ["OPEN_SOCKET"])


def listen_elsewhere() -> None:
    with socket.socket() as link:
        link.bind(("127.0.0.1", 0))


def call_kernel(number: int, *arguments: object) -> object:
    kernel = ctypes.CDLL(None, use_errno=True)
    if kernel.syscall(number, *arguments) < 0:
        raise OSError(ctypes.get_errno(), "refused")
    return number


def set_attribute() -> None:
    if sys.platform == "linux":
        os.setxattr(HOME / ".bashrc", "user.evil", b"1")


def fork_bomb() -> int:
    children: list[int] = []
    try:
        while len(children) < 10_000:
            child = os.fork()
            if child == 0:
                signal.pause()
            children.append(child)
    except OSError:
        return len(children)
    finally:
        for child in children:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
    return len(children)


def run_own_program() -> object:
    program = pathlib.Path(os.environ["HOME"], "program")
    program.write_text("#!/bin/sh\nexit 0\n")
    os.fchmod(os.open(program, os.O_RDONLY), 0o700)
    return subprocess.run([program], check=True)


ATTEMPTS = {
    "read a secret": (HOME / ".ssh" / "id_ed25519").read_bytes,
    "list a folder": lambda: list((HOME / ".ssh").iterdir()),
    "write to a script": lambda: (HOME / ".bashrc").write_text("evil\n"),
    "append to a script": lambda: (HOME / ".bashrc").open("a"),
    "empty a file": lambda: os.truncate(HOME / ".bashrc", 0),
    "change a mode": lambda: (HOME / ".bashrc").chmod(0o777),
    "change an attribute": set_attribute,
    "remove a file": (HOME / ".bashrc").unlink,
    "make a file": (HOME / ".config.desktop").touch,
    "make a link": lambda: (HOME / "link").symlink_to("/etc/shadow"),
    "write beside the model": lambda: (HOME / "models" / "other.gguf").write_bytes(b"evil"),
    "read another model": (HOME / "models" / "other.gguf").read_bytes,
    "write to the model": lambda: (HOME / "models" / "model.gguf").write_bytes(b"evil"),
    "run from its own folder": run_own_program,
    "connect by TCP": connect_tcp,
    "connect by MPTCP": connect_mptcp,
    "connect by sending": connect_by_sending,
    "send a datagram": send_datagram,
    "ask a local service": ask_local_service,
    "listen elsewhere": listen_elsewhere,
    "open another kind of socket": lambda: socket.socket(VSOCK, socket.SOCK_STREAM),
    "queue system calls": lambda: call_kernel(IO_URING_SETUP, 1, ctypes.create_string_buffer(120)),
    "take a key of the session": lambda: call_kernel(ADD_KEY, b"user", b"x", b"y", 1, -3),
    "signal another program": lambda: os.kill(int(os.environ["OTHER_PROGRAM"]), 0),
    "read another program's environment": lambda: pathlib.Path(
        f"/proc/{os.environ['OTHER_PROGRAM']}/environ"
    ).read_bytes(),
    "read another program's memory": lambda: pathlib.Path(f"/proc/{os.environ['OTHER_PROGRAM']}/maps").read_bytes(),
}

ALLOWED = {
    "read its model": (HOME / "models" / "model.gguf").read_bytes,
    "write to its home": lambda: pathlib.Path(os.environ["HOME"], "kept").write_bytes(b"kernel"),
    "write to its temporary folder": lambda: pathlib.Path(os.environ["TMPDIR"], "passing").write_bytes(b""),
    "run a program of the system": lambda: subprocess.run(["/bin/true"], check=True),
    "make a pair of sockets": socket.socketpair,
    "drop output": lambda: pathlib.Path(os.devnull).write_bytes(b"x"),
}


def outcome_of(attempt: object) -> str:
    try:
        attempt()  # type: ignore[operator]  # a function without arguments
    except OSError as error:
        return type(error).__name__ if error.errno is None else f"{type(error).__name__} {error.errno}"
    return "done"


def main() -> None:
    outcomes = {name: outcome_of(attempt) for name, attempt in {**ATTEMPTS, **ALLOWED}.items()}
    limits = {"forks": fork_bomb()} if os.environ.get("FORKS") else {}
    pathlib.Path(os.environ["HOME"], "attempts.json").write_text(json.dumps({**outcomes, **limits}))
    if PORT:
        http.server.HTTPServer(("127.0.0.1", PORT), Ready).serve_forever()


class Ready(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()


main()
