"""One small file per live launch, so that a gateway that was killed leaves nothing running for ever.

A record is written before the first process exists and completed after each. At the next start `reap_orphans` kills
what is still there, and only what is really ours: a process whose id *and* creation time were recorded, or one that
carries the launch's token in its environment. Never by name. A record holds no key.
"""

import contextlib
import shutil
from collections.abc import Iterable
from pathlib import Path

import msgspec
import psutil

from app.config.private_files import write_private
from app.confinement.confiner import remove_short_folder
from app.supervisor.child import kill_leader_group
from app.supervisor.states import remove_state_folder

TOKEN_VARIABLE = "ROUNDHOUSE_LAUNCH"  # noqa: S105 -- the name of a variable; a launch's token opens nothing
SAME_MOMENT_S = 2.0
"""Creation times come from the boot time, which moves when the clock is set."""
DEATH_S = 5.0


class RecordedProcess(msgspec.Struct, frozen=True, kw_only=True):
    """One process of a launch. `created_at` is Unix seconds as psutil gives it."""

    pid: int
    created_at: float
    executable: str


class LaunchRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One launch."""

    token: str
    model: str
    engine: str
    processes: tuple[RecordedProcess, ...] = ()

    def with_process(self, pid: int, executable: str) -> "LaunchRecord":
        """Return the record with a process that was just started; without it, if it has already gone."""
        try:
            created_at = psutil.Process(pid).create_time()
        except psutil.Error:
            return self
        new_process = RecordedProcess(pid=pid, created_at=created_at, executable=executable)
        return msgspec.structs.replace(self, processes=(*self.processes, new_process))


class LaunchRecords:
    """The folder of records. Methods touch the disk; files are small and local. `scratch` has each launch's folder."""

    def __init__(self, folder: Path, scratch: Path | None = None) -> None:
        self._folder, self._scratch = folder, scratch
        self._own: set[str] = set()

    def write_record(self, record: LaunchRecord) -> None:
        """Write or replace a launch's record: whole or not at all, readable by its owner only."""
        self._own.add(record.token)
        write_private(self._record_file(record.token), msgspec.json.encode(record))

    def remove_record(self, token: str) -> None:
        """Forget a launch of which nothing is left. A file that cannot be removed names nobody at the next start."""
        remove_short_folder(token)
        remove_state_folder(token)
        if self._scratch is not None:
            shutil.rmtree(self._scratch / token, ignore_errors=True)
        with contextlib.suppress(OSError):
            self._record_file(token).unlink(missing_ok=True)
        self._own.discard(token)

    def reap_orphans(self) -> list[LaunchRecord]:
        """Kill what launches of an earlier gateway left; return those that had left something. Blocks for a while."""
        records = [record for record in self._read_records() if record.token not in self._own]
        if not records:
            return []
        carriers = _find_carriers({record.token for record in records})
        by_token = {record.token: _live_processes(record, carriers.get(record.token, [])) for record in records}
        survivors = _kill_processes([process for processes in by_token.values() for process in processes])
        for record in records:
            if not survivors.intersection(by_token[record.token]):
                self.remove_record(record.token)
        return [record for record in records if by_token[record.token]]

    def _record_file(self, token: str) -> Path:
        return self._folder / f"{token}.json"

    def _read_records(self) -> Iterable[LaunchRecord]:
        for path in sorted(self._folder.glob("*.json")):
            try:
                yield msgspec.json.decode(path.read_bytes(), type=LaunchRecord)
            except (OSError, msgspec.MsgspecError):
                with contextlib.suppress(OSError):  # a folder of that name harms nobody
                    path.unlink()  # it names no process that could be trusted to be ours


def _live_processes(record: LaunchRecord, carriers: list[psutil.Process]) -> list[psutil.Process]:
    return list(
        {*carriers, *(process for known_process in record.processes if (process := _same_process(known_process)))}
    )


def _same_process(known_process: RecordedProcess) -> psutil.Process | None:
    try:
        process = psutil.Process(known_process.pid)
        is_same = abs(process.create_time() - known_process.created_at) <= SAME_MOMENT_S
        return process if is_same and process.status() != psutil.STATUS_ZOMBIE else None
    except psutil.Error:
        return None


def _find_carriers(tokens: set[str]) -> dict[str, list[psutil.Process]]:
    by_token: dict[str, list[psutil.Process]] = {}
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):  # other people's processes do not show their environment
            token = process.environ().get(TOKEN_VARIABLE, "")
            if token in tokens:
                by_token.setdefault(token, []).append(process)
    return by_token


def _kill_processes(processes: list[psutil.Process]) -> set[psutil.Process]:
    for process in processes:
        with contextlib.suppress(psutil.Error):
            for target in [*process.children(recursive=True), process]:
                target.kill()
            kill_leader_group(process.pid)
    _, alive = psutil.wait_procs(processes, timeout=DEATH_S)
    return {process for process in alive if not _is_zombie(process)}


def _is_zombie(process: psutil.Process) -> bool:
    try:
        return process.status() == psutil.STATUS_ZOMBIE
    except psutil.Error:
        return True
