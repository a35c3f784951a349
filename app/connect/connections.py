"""The tools of one person: list, preview, connect, undo. The one place where another program's file is written.

Order of a change: the copy is kept first, then the record, then the file is replaced; a fault in between leaves either
the old file with a record that undoes nothing, or the new file with a record that does.

The change to a file as people read it: a unified diff in which keys of other services are masked.

What was changed, so that it can be taken back: per tool a record, and beside it the file's bytes before and after.

Kept in our own data folder, private to the person: a settings file can hold keys.

Every tool there is an answer for, in the order they are listed. Adding one is a file in `tools` and a line here.
"""

import difflib
import hashlib
import re
import threading
from dataclasses import dataclass
from pathlib import Path

import msgspec

from app.config.paths import Home
from app.config.private_files import save_private
from app.connect.document_paths import UnreadableSettings, collect_strings
from app.connect.documents import DocumentFormat, edit_document
from app.connect.files import FileState, make_folders, read_file_state, remove_file, remove_folders, write_file
from app.connect.tool import KEY, ClientTool, WiringTarget
from app.connect.tools.agents import (
    CLINE,
    COPILOT_CLI,
    CRUSH,
    DROID,
    GEMINI_CLI,
    GOOSE,
    GPTME,
    HERMES,
    KIMI_CODE,
    MISTRAL_VIBE,
    OPENCLAW,
    PI,
    QWEN_CODE,
)
from app.connect.tools.aider import AIDER
from app.connect.tools.by_hand import (
    ANDROID_STUDIO,
    ANYTHING_LLM,
    HOME_ASSISTANT,
    JETBRAINS,
    N8N,
    OBSIDIAN,
    OPEN_WEBUI,
    ROO_CODE,
)
from app.connect.tools.claude_code import CLAUDE_CODE
from app.connect.tools.codex import CODEX
from app.connect.tools.completion import LLAMA_VIM, LLAMA_VSCODE, TABBY, TWINNY
from app.connect.tools.continue_dev import CONTINUE
from app.connect.tools.frameworks import DSPY, HAYSTACK, LANGCHAIN, LLAMA_INDEX, OPENAI_AGENTS, PYDANTIC_AI
from app.connect.tools.llm import LLM
from app.connect.tools.opencode import OPENCODE
from app.connect.tools.vscode import VSCODE
from app.connect.tools.zed import ZED
from app.core.errors import Conflict, NotFound, RoundhouseError
from app.core.tools import ToolChange, ToolInfo


class WiringRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One change of a tool's file. `before` and `after` are names of kept copies; no `before`: there was no file."""

    file: str
    before: str
    after: str
    model: str
    made: list[str] = []
    """Folders that were made for it, the deepest last."""


class WiringRecords:
    """The records below one folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def read_record(self, tool: str) -> WiringRecord | None:
        """Return what was changed for a tool; None if nothing was, or the record cannot be read."""
        try:
            return msgspec.json.decode((self._folder / f"{tool}.json").read_bytes(), type=WiringRecord)
        except (OSError, msgspec.MsgspecError):
            return None

    def keep_copy(self, tool: str, data: bytes | None) -> str:
        """Keep a copy of a file's bytes and return its name; "" for no file."""
        if data is None:
            return ""
        name = f"{tool}-{hashlib.sha256(data).hexdigest()[:32]}.kept"
        if not (self._folder / name).exists():
            self._write(name, data)
        return name

    def read_copy(self, name: str) -> bytes | None:
        """Return a kept copy; None for no name. Raises FileNotFoundError when it was taken away."""
        return (self._folder / name).read_bytes() if name else None

    def write_record(self, tool: str, record: WiringRecord) -> None:
        """Write down what was changed."""
        self._write(f"{tool}.json", msgspec.json.encode(record))

    def forget(self, tool: str) -> None:
        """Forget a change that was taken back; the copies stay."""
        (self._folder / f"{tool}.json").unlink(missing_ok=True)

    def restore(self, tool: str, record: WiringRecord | None) -> None:
        """Take back a note: `record` is what stood there before."""
        if record is None:
            self.forget(tool)
        else:
            self.write_record(tool, record)

    def _write(self, name: str, data: bytes) -> None:
        save_private(self._folder / name, data, "what undoes the change")


_ONE_AT_A_TIME = threading.Lock()


@dataclass(frozen=True, slots=True)
class _WiringPlan:
    """A tool's file, its text to be, and the record by which it is as we left it, if it is."""

    present: FileState
    text: str
    record: WiringRecord | None

    @property
    def is_needed(self) -> bool:
        return self.text != self.present.text


class ToolConnections:
    """Reads and writes below `home`; keeps copies and records in `folder`. Safe to call from several threads."""

    def __init__(self, home: Home, folder: Path) -> None:
        self._home, self._records = home, WiringRecords(folder)

    def list_tools(self, base: str) -> list[ToolInfo]:
        """Return every tool, those found first, with how it stands towards the endpoint at `base`."""
        infos = [self._tool_info(tool, base) for tool in TOOLS]
        return sorted(infos, key=lambda info: not info.found)

    def current_model(self, name: str) -> str:
        """Return the model a tool is wired to as far as its file is as we left it, else nothing. Raises NotFound."""
        tool = find_tool(name)
        record = self._records.read_record(tool.id)
        is_as_left = (
            tool.file is not None
            and record is not None
            and self._is_as_left(record, read_file_state(tool.file(self._home)))
        )
        return record.model if record is not None and is_as_left else ""

    def preview(self, name: str, target: WiringTarget) -> ToolChange:
        """Return what `connect` would do. Raises NotFound or UnreadableSettings."""
        tool = find_tool(name)
        if tool.file is None:
            return _manual_change(tool, target)
        return _describe_change(tool, self._make_plan(tool, target), target.model, is_written=False)

    def connect(self, name: str, target: WiringTarget) -> ToolChange:
        """Wire a tool; twice is as once. Raises NotFound, UnreadableSettings, Conflict or EnvironmentFault."""
        tool = find_tool(name)
        if tool.file is None:
            return _manual_change(tool, target)
        with _ONE_AT_A_TIME:
            plan = self._make_plan(tool, target)
            if plan.is_needed:
                self._write_plan(tool, plan, target.model)
        return _describe_change(tool, plan, target.model, is_written=plan.is_needed)

    def undo(self, name: str) -> ToolChange:
        """Put a tool's file back as it was, byte for byte. Raises Conflict if it is not as it was left."""
        tool = find_tool(name)
        with _ONE_AT_A_TIME:
            record = self._records.read_record(tool.id)
            if record is None:
                raise Conflict(f"{tool.name} was not connected by Roundhouse.", code="tool_not_wired")
            present = read_file_state(Path(record.file))
            before, after = self._read_copies(tool, record)
            diff = difference(record.file, _decode_text(present.data), _decode_text(before))
            if present.data != before:
                _expect_untouched(tool, record, present, after)
                _put_back(present, before, record)
            self._records.forget(tool.id)
        return ToolChange(
            id=tool.id, name=tool.name, file=record.file, diff=diff, is_written=bool(diff), afterwards=tool.afterwards
        )

    def _tool_info(self, tool: ClientTool, base: str) -> ToolInfo:
        file, record = tool.file(self._home) if tool.file else None, self._records.read_record(tool.id)
        model, wired_model, problem = "", False, ""
        if file is not None and tool.form is not None:
            try:
                present = read_file_state(file)
                wired_model = _has_endpoint(base, tool.form, present.text)
                model = record.model if record and self._is_as_left(record, present) else ""
                problem = tool.refusal(self._home)
            except RoundhouseError as error:
                problem = str(error)
        return ToolInfo(
            id=tool.id,
            name=tool.name,
            found=tool.is_here(self._home),
            wired=wired_model,
            model=model,
            file=str(file or ""),
            can_undo=record is not None,
            problem=problem,
            tried=tool.tried,
            launch=f"roundhouse launch {tool.id}" if tool.run is not None else "",
        )

    def _make_plan(self, tool: ClientTool, target: WiringTarget) -> _WiringPlan:
        if tool.file is None or tool.form is None:
            raise UnreadableSettings("it has no file.")
        refusal = tool.refusal(self._home)
        if refusal:
            raise UnreadableSettings(refusal)
        present, record = read_file_state(tool.file(self._home)), self._records.read_record(tool.id)
        if record is None or not self._is_as_left(record, present):
            return _WiringPlan(present, edit_document(tool.form, present.text, tool.changes(target)), None)
        # From what was there before us, so that a change of models leaves none of the old ones behind.
        start = _decode_text(self._read_copies(tool, record)[0])
        return _WiringPlan(present, edit_document(tool.form, start, tool.changes(target)), record)

    def _write_plan(self, tool: ClientTool, plan: _WiringPlan, model: str) -> None:
        present, data, old = plan.present, plan.text.encode(), plan.record
        made_folders = [] if old else make_folders(present.path.parent)
        record = WiringRecord(
            file=str(present.path),
            before=old.before if old else self._records.keep_copy(tool.id, present.data),
            after=self._records.keep_copy(tool.id, data),
            model=model,
            made=old.made if old else [str(folder) for folder in made_folders],
        )
        before = self._records.read_record(tool.id)
        try:
            self._records.write_record(tool.id, record)
            write_file(present, data)
        except RoundhouseError:
            remove_folders(made_folders)
            self._records.restore(tool.id, before)
            raise

    def _is_as_left(self, record: WiringRecord, present: FileState) -> bool:
        try:
            return str(present.path) == record.file and present.data == self._records.read_copy(record.after)
        except OSError:
            return False

    def _read_copies(self, tool: ClientTool, record: WiringRecord) -> tuple[bytes | None, bytes | None]:
        try:
            return self._records.read_copy(record.before), self._records.read_copy(record.after)
        except OSError:
            raise Conflict(
                f"The kept copy of {tool.name}'s settings is gone, so they were left unchanged.", code="tool_copy_gone"
            ) from None


def _manual_change(tool: ClientTool, target: WiringTarget) -> ToolChange:
    return ToolChange(
        id=tool.id,
        name=tool.name,
        model=target.model,
        afterwards=tool.afterwards,
        steps=tool.steps(target),
        values=tool.values(target),
    )


def _describe_change(tool: ClientTool, plan: _WiringPlan, model: str, *, is_written: bool) -> ToolChange:
    path = str(plan.present.path)
    return ToolChange(
        id=tool.id,
        name=tool.name,
        file=path,
        diff=difference(path, plan.present.text, plan.text),
        is_written=is_written,
        model=model,
        afterwards=tool.afterwards,
    )


def _expect_untouched(tool: ClientTool, record: WiringRecord, present: FileState, after: bytes | None) -> None:
    if present.data != after:
        raise Conflict(
            f"{tool.name}'s settings were changed since, so they were left unchanged.",
            hint="Remove what you no longer want by hand; the changes since then are shown below.",
            code="tool_file_changed",
            detail=difference(record.file, _decode_text(after), _decode_text(present.data)),
        )


def _put_back(present: FileState, before: bytes | None, record: WiringRecord) -> None:
    if before is not None:
        write_file(present, before)
        return
    remove_file(present)
    remove_folders([Path(folder) for folder in record.made])


def _has_endpoint(base: str, form: DocumentFormat, text: str) -> bool:
    """Return whether a file names the endpoint, by its number or as localhost."""
    bases = {base, base.replace("127.0.0.1", "localhost")}
    return any(value.startswith(prefix) for value in collect_strings(form.parsed(text)) for prefix in bases if prefix)


def _decode_text(data: bytes | None) -> str:
    return "" if data is None else data.decode(errors="replace")


_SECRET = re.compile(
    r"(?i)((?<![\w-])(?=[\w-]*?(?:key|token|secret|password|credential))[\w-]++[\"']?\s*+[:=]\s*+)([\"']?)"
    r"(?!(?:true|false|null|\d+)\s*[,}\]]|[{\[])([^\"'\s,#]+(?:[^\"'\r\n,#]*[^\"'\s,#])?)"
)
"""A name of a secret, and its value; not what opens a table or list, nor what is no text in a document on one line."""
_SIGN = re.compile(r"\b(?:sk|ghp|gho|xox[a-z]|AIza|hf)[-_][\w-]{8,}")
_NOT_SECRET = {KEY, "true", "false", "null", "manual", "ROUNDHOUSE_API_KEY"}
_MASK = "••••"


def difference(path: str, before: str, after: str) -> str:
    """Return the unified diff from `before` to `after`; empty when they are the same."""
    old, new = before.splitlines(), after.splitlines()
    if old == new:
        return ""
    lines = difflib.unified_diff(old, new, fromfile=path, tofile=path, lineterm="")
    return "\n".join(map(_mask_line, lines))


def _mask_line(line: str) -> str:
    if line.startswith(("---", "+++", "@@")):
        return line
    return _SIGN.sub(_MASK, _SECRET.sub(_mask_match, line))


def _mask_match(match: re.Match[str]) -> str:
    if match[3] in _NOT_SECRET or match[3].isdigit():
        return match[0]
    return match[1] + match[2] + _MASK


TOOLS: tuple[ClientTool, ...] = (
    CONTINUE,
    CLINE,
    ROO_CODE,
    VSCODE,
    ZED,
    JETBRAINS,
    ANDROID_STUDIO,
    LLAMA_VSCODE,
    LLAMA_VIM,
    TWINNY,
    TABBY,
    CLAUDE_CODE,
    CODEX,
    OPENCODE,
    GEMINI_CLI,
    QWEN_CODE,
    COPILOT_CLI,
    AIDER,
    GOOSE,
    CRUSH,
    PI,
    KIMI_CODE,
    MISTRAL_VIBE,
    DROID,
    HERMES,
    OPENCLAW,
    GPTME,
    LLM,
    OPEN_WEBUI,
    ANYTHING_LLM,
    OBSIDIAN,
    N8N,
    HOME_ASSISTANT,
    LANGCHAIN,
    LLAMA_INDEX,
    PYDANTIC_AI,
    OPENAI_AGENTS,
    HAYSTACK,
    DSPY,
)


def find_tool(name: str) -> ClientTool:
    """Return the tool of an id or a name, whatever its case; what only one begins with is enough. Raises NotFound."""
    folded_name = name.casefold()
    for tool in TOOLS:
        if folded_name in (tool.id, tool.name.casefold()):
            return tool
    matches = [
        tool
        for tool in TOOLS
        if folded_name and (tool.id.startswith(folded_name) or tool.name.casefold().startswith(folded_name))
    ]
    if len(matches) == 1:
        return matches[0]
    raise NotFound(
        f"No tool is called {name!r}.",
        hint="There are " + ", ".join(tool.id for tool in TOOLS) + ".",
        code="tool_unknown",
    )
