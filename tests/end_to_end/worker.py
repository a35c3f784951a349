"""Start a worker as the supervisor does, llama.cpp's unless told otherwise, keep all it says, and talk to it."""

import http.client
import json
import os
import shutil
import subprocess
import tempfile
import threading
import time
import urllib.error
import urllib.request
from contextlib import closing
from pathlib import Path
from typing import IO, Any, NamedTuple

from app.confinement.command import launcher_command
from app.confinement.confiner import Confiner, LaunchPlaces
from app.confinement.rules import LaunchOrder
from engines.api import (
    EngineAdapter,
    EngineInstallation,
    Exit,
    Failure,
    LaunchOptions,
    ListenOptions,
    LogEvent,
    ModelFormat,
    ModelSource,
    ProcessSpec,
    Suspicion,
)
from engines.llama_cpp.launch import ADAPTER
from tests.patience import PATIENCE_S
from tests.ports import free_port

KEY = "a-key-for-one-launch"
WITHIN_S = PATIENCE_S
PASSED_ON = ("PATH", "SYSTEMROOT", "TEMP", "TMP")


def installation() -> EngineInstallation:
    engine_installation = ADAPTER.probe()
    assert isinstance(engine_installation, EngineInstallation)
    return engine_installation


def environment(spec: ProcessSpec) -> dict[str, str]:
    return {**{name: os.environ[name] for name in PASSED_ON if name in os.environ}, **spec.env, **spec.secrets}


class Engine(NamedTuple):
    """What to start: an adapter, and where its engine is; llama.cpp's own place is looked up."""

    adapter: EngineAdapter = ADAPTER
    installed_engine: EngineInstallation | None = None
    form: ModelFormat | None = None
    """Which of its formats is loaded; None for its first."""

    @property
    def format(self) -> ModelFormat:
        return self.form or next(iter(self.adapter.descriptor.formats))


LLAMA_CPP = Engine()


class Worker:
    """One running worker."""

    def __init__(
        self,
        model: Path,
        options: LaunchOptions | None = None,
        *,
        port: int | None = None,
        engine: Engine = LLAMA_CPP,
        is_confined: bool = True,
    ) -> None:
        self.adapter, self._is_confined = engine.adapter, is_confined
        self.plan = self.adapter.plan(
            ModelSource(name="served", path=model, format=engine.format),
            options or LaunchOptions(context=512, slots=2),
            ListenOptions(host="127.0.0.1", port=free_port() if port is None else port, key=KEY),
            engine_installation := engine.installed_engine or installation(),
        )
        (spec,) = self.plan.processes
        self.folder = Path(tempfile.mkdtemp(prefix="worker-"))
        self.lines: list[str] = []
        self.has_spoken = threading.Event()
        with launcher_command(self._order(spec, model, options or LaunchOptions(), engine_installation)) as command:
            self.process = subprocess.Popen(
                command.argv,
                env=dict(command.env),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                errors="replace",
                pass_fds=command.descriptors,
            )
        pipes = [pipe for pipe in (self.process.stdout, self.process.stderr) if pipe is not None]
        self._readers = [threading.Thread(target=self._read, args=(pipe,), daemon=True) for pipe in pipes]
        for reader in self._readers:
            reader.start()

    def __repr__(self) -> str:
        """What an assertion shows that fails: how it ended, and its last words."""
        return f"<Worker, exit code {self.process.poll()}, {self.lines[-20:]}>"

    def _order(
        self, spec: ProcessSpec, model: Path, options: LaunchOptions, engine_installation: EngineInstallation
    ) -> LaunchOrder:
        """Return how it is started: confined as the supervisor has it, unless a program of the tests plays it."""
        confinement = Confiner(self.folder / "homes", lambda _engine: self._is_confined).confine(
            self.adapter.descriptor,
            ModelSource(name="served", path=model, format=ModelFormat.GGUF),
            options,
            engine_installation,
            plan=self.plan,
            places=LaunchPlaces(
                scratch=self.folder / "run", short=self.folder / "tmp", port=int(self.plan.base_url.rpartition(":")[2])
            ),
            inherited_environment={},
        )
        own = {} if confinement is None else dict(confinement.environment)
        return LaunchOrder(
            argv=spec.argv,
            env={**own, **environment(spec)},
            cwd=str(self.folder),
            confinement=None if confinement is None else confinement.rules,
        )

    def _read(self, pipe: IO[str]) -> None:
        for line in pipe:
            self.lines.append(line.rstrip("\n"))
            self.has_spoken.set()

    def is_ready(self, *, within_s: float = WITHIN_S) -> bool:
        """Wait for /health to say yes; False once the process has ended."""
        deadline = time.monotonic() + within_s
        while self.process.poll() is None:
            if self.status("/health") == 200:
                return True
            assert time.monotonic() < deadline, self.lines[-20:]
            time.sleep(0.02)
        return False

    def request(self, path: str, body: object = None, *, key: str = KEY) -> urllib.request.Request:
        content = None if body is None else json.dumps(body).encode()
        headers = {
            "Authorization": f"Bearer {key}",
            "Content-Type": "application/json",
            "Origin": "https://evil.example",
        }
        return urllib.request.Request(self.plan.base_url + path, data=content, headers=headers)  # noqa: S310 -- loopback

    def refusal(self, path: str, body: object) -> tuple[int, Any]:
        """Return the status and the document of what is refused."""
        try:
            with urllib.request.urlopen(self.request(path, body), timeout=WITHIN_S) as reply:  # noqa: S310 -- loopback
                return reply.status, json.load(reply)
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.load(error)

    def status(self, path: str, body: object = None, *, key: str = KEY) -> int:
        """Return the HTTP status; 0 when nobody answers."""
        try:
            with urllib.request.urlopen(self.request(path, body, key=key), timeout=WITHIN_S) as reply:  # noqa: S310 -- loopback
                return int(reply.status)
        except urllib.error.HTTPError as error:
            with error:
                return error.code
        except OSError:
            return 0

    def ask(self, path: str, body: object = None) -> Any:  # noqa: ANN401 -- whatever JSON it answers
        with urllib.request.urlopen(self.request(path, body), timeout=WITHIN_S) as reply:  # noqa: S310 -- loopback
            return json.load(reply)

    def drops_a_connection_after_a_stream(self, *, within_s: float) -> bool:
        """Tell whether it closes a connection over which it has streamed, having said that it would keep it."""
        address = self.plan.base_url.removeprefix("http://")
        messages = [{"role": "user", "content": "Hi"}]
        body = {"model": self.plan.served_name, "messages": messages, "max_tokens": 2, "stream": True}
        with closing(http.client.HTTPConnection(address, timeout=WITHIN_S)) as connection:
            headers = {"Authorization": f"Bearer {KEY}", "Content-Type": "application/json"}
            connection.request("POST", "/v1/chat/completions", json.dumps(body), headers)
            reply = connection.getresponse()
            assert b"data: [DONE]" in reply.read()
            if reply.will_close:
                return False
            connection.sock.settimeout(within_s)
            try:
                return not connection.sock.recv(1)
            except TimeoutError:
                return False

    def events(self) -> list[LogEvent]:
        return [event for line in self.lines for event in self.adapter.read_log(line)]

    def expect_end(self, *, within_s: float = WITHIN_S) -> Failure:
        """Wait for the end and return its cause, as the supervisor would name it."""
        code = self.process.wait(within_s)
        for reader in self._readers:
            reader.join(WITHIN_S)
        suspicions = [event for event in self.events() if isinstance(event, Suspicion)]
        return self.adapter.classify_exit(
            Exit(code=code, suspicions=suspicions, tail=self.lines[-10:], was_ready=False)
        )

    def close(self) -> None:
        self.process.kill()
        self.process.wait(WITHIN_S)
        for reader in self._readers:
            reader.join(WITHIN_S)
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            assert pipe is not None
            pipe.close()
        shutil.rmtree(self.folder)
