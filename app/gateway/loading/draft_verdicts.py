"""What came of trying drafts, kept in a file by the model's own file and the engine's build."""

import logging
import threading
from pathlib import Path

import msgspec

from app.core.advice import DraftTrial

log = logging.getLogger(__name__)


class DraftTrialFile:
    """Verdicts, kept in a file. For threads."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._lock = threading.Lock()
        self._trials: dict[str, DraftTrial] | None = None

    def find_trial(self, path: Path, engine: str, version: str, backend: str) -> DraftTrial | None:
        """Return the verdict for a model's file as it is now, on that build of an engine."""
        trials = self._read_trials()
        return trials.get(trial_key(path, engine, version, backend)) if trials else None

    def keep_trial(self, path: Path, trial: DraftTrial) -> None:
        """Keep a verdict in place of the one for the same file and engine build."""
        with self._lock:
            trials = {**self._read_trials(), trial_key(path, trial.engine, trial.version, trial.backend): trial}
            self._trials = trials
            try:
                self._file.write_bytes(msgspec.json.encode(trials))
            except OSError as error:  # it is tried again after a restart
                log.info("What came of trying drafts cannot be kept: %s", error)

    def list_trials(self) -> list[DraftTrial]:
        """Return every verdict."""
        return list(self._read_trials().values())

    def _read_trials(self) -> dict[str, DraftTrial]:
        if self._trials is None:
            try:
                self._trials = msgspec.json.decode(self._file.read_bytes(), type=dict[str, DraftTrial])
            except (OSError, msgspec.DecodeError):
                self._trials = {}
        return self._trials


def trial_key(path: Path, engine: str, version: str, backend: str) -> str:
    """Return what a verdict is for: this very file, and this build of an engine."""
    try:
        status = path.stat()
        stamp = f"{status.st_size} {status.st_mtime_ns}"
    except OSError:
        stamp = ""
    return " | ".join((str(path), stamp, engine, version, backend))
