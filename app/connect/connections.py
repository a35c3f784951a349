"""The tools of one person: list, preview, connect, undo. The one place where another program's file is written.

Order of a change: the copy is kept first, then the record, then the file is replaced; a fault in between leaves either
the old file with a record that undoes nothing, or the new file with a record that does.
"""

import threading
from dataclasses import dataclass
from pathlib import Path

from app.config.home import Home
from app.connect.catalogue import TOOLS, tool_named
from app.connect.differences import difference
from app.connect.documents import Format, edited
from app.connect.files import Present, look, make_folders, remove, remove_folders, write
from app.connect.places import Unreadable, strings
from app.connect.records import Record, Records
from app.connect.tool import Tool, Wiring
from app.core.errors import Conflict, RoundhouseError
from app.core.tools import ToolChange, ToolInfo

_ONE_AT_A_TIME = threading.Lock()


@dataclass(frozen=True, slots=True)
class _Plan:
    """A tool's file, its text to be, and the record by which it is as we left it, if it is."""

    present: Present
    text: str
    record: Record | None

    @property
    def is_needed(self) -> bool:
        return self.text != self.present.text


class Connections:
    """Reads and writes below `home`; keeps copies and records in `folder`. Safe to call from several threads."""

    def __init__(self, home: Home, folder: Path) -> None:
        self._home, self._records = home, Records(folder)

    def listed(self, base: str) -> list[ToolInfo]:
        """Return every tool, those found first, with how it stands towards the endpoint at `base`."""
        infos = [self._info(tool, base) for tool in TOOLS]
        return sorted(infos, key=lambda info: not info.found)

    def wired_to(self, name: str) -> str:
        """Return the model a tool is wired to as far as its file is as we left it, else nothing. Raises NotFound."""
        tool = tool_named(name)
        record = self._records.of(tool.id)
        is_as_left = (
            tool.file is not None and record is not None and self._is_as_left(record, look(tool.file(self._home)))
        )
        return record.model if record is not None and is_as_left else ""

    def preview(self, name: str, wiring: Wiring) -> ToolChange:
        """Return what `connect` would do. Raises NotFound or Unreadable."""
        tool = tool_named(name)
        if tool.file is None:
            return _by_hand(tool, wiring)
        return _change(tool, self._plan(tool, wiring), wiring.model, is_written=False)

    def connect(self, name: str, wiring: Wiring) -> ToolChange:
        """Wire a tool. Doing it twice changes nothing. Raises NotFound, Unreadable, Conflict or EnvironmentFault."""
        tool = tool_named(name)
        if tool.file is None:
            return _by_hand(tool, wiring)
        with _ONE_AT_A_TIME:
            plan = self._plan(tool, wiring)
            if plan.is_needed:
                self._write(tool, plan, wiring.model)
        return _change(tool, plan, wiring.model, is_written=plan.is_needed)

    def undo(self, name: str) -> ToolChange:
        """Put a tool's file back as it was, byte for byte. Raises Conflict if it is not as it was left."""
        tool = tool_named(name)
        with _ONE_AT_A_TIME:
            record = self._records.of(tool.id)
            if record is None:
                raise Conflict(f"{tool.name} was not connected by Roundhouse.", code="tool_not_wired")
            present = look(Path(record.file))
            before, after = self._kept(tool, record)
            diff = difference(record.file, _text(present.data), _text(before))
            if present.data != before:
                _expect_untouched(tool, record, present, after)
                _put_back(present, before, record)
            self._records.forget(tool.id)
        return ToolChange(
            id=tool.id, name=tool.name, file=record.file, diff=diff, is_written=bool(diff), afterwards=tool.afterwards
        )

    def _info(self, tool: Tool, base: str) -> ToolInfo:
        file, record = tool.file(self._home) if tool.file else None, self._records.of(tool.id)
        model, wired, problem = "", False, ""
        if file is not None and tool.form is not None:
            try:
                present = look(file)
                wired = _names(base, tool.form, present.text)
                model = record.model if record and self._is_as_left(record, present) else ""
                problem = tool.refusal(self._home)
            except RoundhouseError as error:
                problem = str(error)
        return ToolInfo(
            id=tool.id,
            name=tool.name,
            found=tool.is_here(self._home),
            wired=wired,
            model=model,
            file=str(file or ""),
            can_undo=record is not None,
            problem=problem,
        )

    def _plan(self, tool: Tool, wiring: Wiring) -> _Plan:
        if tool.file is None or tool.form is None:
            raise Unreadable("it has no file.")
        refusal = tool.refusal(self._home)
        if refusal:
            raise Unreadable(refusal)
        present, record = look(tool.file(self._home)), self._records.of(tool.id)
        if record is None or not self._is_as_left(record, present):
            return _Plan(present, edited(tool.form, present.text, tool.changes(wiring)), None)
        # From what was there before us, so that a change of models leaves none of the old ones behind.
        start = _text(self._kept(tool, record)[0])
        return _Plan(present, edited(tool.form, start, tool.changes(wiring)), record)

    def _write(self, tool: Tool, plan: _Plan, model: str) -> None:
        present, data, old = plan.present, plan.text.encode(), plan.record
        made = [] if old else make_folders(present.path.parent)
        record = Record(
            file=str(present.path),
            before=old.before if old else self._records.keep(tool.id, present.data),
            after=self._records.keep(tool.id, data),
            model=model,
            made=old.made if old else [str(folder) for folder in made],
        )
        before = self._records.of(tool.id)
        try:
            self._records.note(tool.id, record)
            write(present, data)
        except RoundhouseError:
            remove_folders(made)
            self._records.restore(tool.id, before)
            raise

    def _is_as_left(self, record: Record, present: Present) -> bool:
        try:
            return str(present.path) == record.file and present.data == self._records.kept(record.after)
        except OSError:
            return False

    def _kept(self, tool: Tool, record: Record) -> tuple[bytes | None, bytes | None]:
        try:
            return self._records.kept(record.before), self._records.kept(record.after)
        except OSError:
            raise Conflict(
                f"The kept copy of {tool.name}'s settings is gone, so they were left unchanged.", code="tool_copy_gone"
            ) from None


def _by_hand(tool: Tool, wiring: Wiring) -> ToolChange:
    return ToolChange(
        id=tool.id,
        name=tool.name,
        model=wiring.model,
        afterwards=tool.afterwards,
        steps=tool.steps(wiring),
        values=tool.values(wiring),
    )


def _change(tool: Tool, plan: _Plan, model: str, *, is_written: bool) -> ToolChange:
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


def _expect_untouched(tool: Tool, record: Record, present: Present, after: bytes | None) -> None:
    if present.data != after:
        raise Conflict(
            f"{tool.name}'s settings were changed since, so they were left unchanged.",
            hint="Remove what you no longer want by hand; the changes since then are shown below.",
            code="tool_file_changed",
            detail=difference(record.file, _text(after), _text(present.data)),
        )


def _put_back(present: Present, before: bytes | None, record: Record) -> None:
    if before is not None:
        write(present, before)
        return
    remove(present)
    remove_folders([Path(folder) for folder in record.made])


def _names(base: str, form: Format, text: str) -> bool:
    """Return whether a file names the endpoint, by its number or as localhost."""
    bases = {base, base.replace("127.0.0.1", "localhost")}
    return any(value.startswith(each) for value in strings(form.parsed(text)) for each in bases if each)


def _text(data: bytes | None) -> str:
    return "" if data is None else data.decode(errors="replace")
