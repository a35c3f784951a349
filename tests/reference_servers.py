"""The reference servers of the Model Context Protocol that are used in a chat: of which version, and what is called.

`make clients` installs them. What came of the calls is recorded in the docs by the test itself, with
`RECORD_SESSIONS=1` (`tests/end_to_end/test_reference_servers.py`); otherwise it compares.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.engine_docs import DOCS
from tests.scripted_endpoint import ScriptedEndpoint

FOLDER = "REFERENCE_SERVERS"
"""The variable that names the folder in which they are installed."""
PAGE = DOCS / "internals" / "mcp-sessions.md"
ANSWER = "That is what the tools said."
_PLACE = "/home/you/project"
"""Stands in the recording for the folder that a server was given."""
_VARYING = (
    (re.compile(r"\d{4}-\d\d-\d\d(?=T)"), "2026-11-26"),
    (re.compile(r"\b(Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day\b"), "Thursday"),
)
"""What differs from day to day."""


class ReferenceServer(msgspec.Struct, frozen=True, kw_only=True):
    """One of them; `{folder}` in arguments and calls is the folder that it is given."""

    name: str
    package: str
    version: str
    question: str
    calls: tuple[tuple[str, Mapping[str, Any]], ...]
    arguments: tuple[str, ...] = ()
    script: str = ""
    """Of a package from npm: what Node runs. The others have a program of their name."""

    @property
    def requirement(self) -> str:
        """What its package index is asked for."""
        return f"{self.package}{'@' if self.script else '=='}{self.version}"

    def command(self, servers: Path, folder: Path) -> list[str]:
        """Return what starts it."""
        arguments = [argument.format(folder=folder) for argument in self.arguments]
        if self.script:
            script = servers / "node_modules" / self.package / self.script
            return [shutil.which("node") or "node", str(script), *arguments]
        return [str(servers / "python" / "bin" / self.package), *arguments]


SERVERS = (
    ReferenceServer(
        name="everything",
        package="@modelcontextprotocol/server-everything",
        version="2026.8.31",
        script="dist/index.js",
        question="Say hello through the tool, and add 2 and 3.",
        calls=(("echo", {"message": "Hello"}), ("get-sum", {"a": 2, "b": 3}), ("get-sum", {"a": "two"})),
    ),
    ReferenceServer(
        name="filesystem",
        package="@modelcontextprotocol/server-filesystem",
        version="2026.8.31",
        script="dist/index.js",
        arguments=("{folder}",),
        question="Keep a note, read it, and look at the passwords of this computer.",
        calls=(
            ("write_file", {"path": "{folder}/note.txt", "content": "Steam at nine."}),
            ("read_text_file", {"path": "{folder}/note.txt"}),
            ("read_text_file", {"path": "/etc/passwd"}),
        ),
    ),
    ReferenceServer(
        name="git",
        package="mcp-server-git",
        version="2026.10.19",
        question="What was committed last, and is anything changed?",
        calls=(("git_log", {"repo_path": "{folder}", "max_count": 1}), ("git_status", {"repo_path": "{folder}"})),
    ),
    ReferenceServer(
        name="time",
        package="mcp-server-time",
        version="2026.10.19",
        question="What time is it in Lima when it is noon in UTC?",
        arguments=("--local-timezone", "UTC"),
        calls=(
            ("convert_time", {"source_timezone": "UTC", "time": "12:00", "target_timezone": "America/Lima"}),
            ("get_current_time", {"timezone": "Nowhere/Never"}),
        ),
    ),
)


class CallingEndpoint(ScriptedEndpoint):
    """An endpoint whose model makes these calls, one in each answer, and then says a sentence."""

    def __init__(self, server: ReferenceServer, folder: Path) -> None:
        super().__init__(str(folder))
        self._calls = [(f"{server.name}__{tool}", place_in(arguments, folder)) for tool, arguments in server.calls]

    def chunks_for(self, body: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
        """Yield the deltas of an answer: the next call, or the last words."""
        results = sum(message.get("role") == "tool" for message in body.get("messages", []))
        if results == len(self._calls):
            yield {"content": ANSWER}
            return
        name, arguments = self._calls[results]
        function = {"name": name, "arguments": msgspec.json.encode(arguments).decode()}
        yield {"tool_calls": [{"index": 0, "id": f"call_{results}", "type": "function", "function": function}]}


def place_in(arguments: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Return the arguments of a call with the folder in them."""
    return {name: value.format(folder=folder) if isinstance(value, str) else value for name, value in arguments.items()}


def server_folder() -> Path:
    """Return where the servers are; skip the test if nobody installed them."""
    folder = os.environ.get(FOLDER, "")
    if not folder:
        pytest.skip(f"{FOLDER} names no folder with reference servers")
    return Path(folder)


def without_varying(text: str, folder: Path) -> str:
    """Return a text of a session without what differs between two of them."""
    text = text.replace(str(folder), _PLACE)
    for pattern, stand_in in _VARYING:
        text = pattern.sub(stand_in, text)
    return text


def write_session(server: ReferenceServer, lines: Sequence[str]) -> None:
    """Put a session into the page, in the place of the one that is there."""
    PAGE.write_text(with_session(PAGE.read_text(encoding="utf-8"), server, lines), encoding="utf-8")


def with_session(page: str, server: ReferenceServer, lines: Sequence[str]) -> str:
    """Return the page with this session of a server."""
    span = re.compile(rf"(?P<begin><!-- {server.name} -->\n).*?(?P<end><!-- end -->)", re.DOTALL)
    return span.sub(lambda match: "\n".join((match["begin"], *lines, "", match["end"])), page)


def install_servers(folder: Path, uv: str) -> None:
    """Install all of them below `folder`, at their versions."""
    npm = [each.requirement for each in SERVERS if each.script]
    quiet = ("--silent", "--no-audit", "--no-fund", "--cache", str(folder / "cache"))
    subprocess.run([shutil.which("npm") or "npm", "install", *quiet, "--prefix", str(folder), *npm], check=True)
    subprocess.run([uv, "venv", "--quiet", "--clear", str(folder / "python")], check=True)
    python = str(folder / "python" / "bin" / "python")
    packages = [each.requirement for each in SERVERS if not each.script]
    subprocess.run([uv, "pip", "install", "--quiet", "--python", python, *packages], check=True)


if __name__ == "__main__":
    install_servers(Path(sys.argv[1]), sys.argv[2])
