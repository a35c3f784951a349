"""What the models page does with files: move them to the trash and back, and have them checked."""

from pathlib import Path

from PySide6.QtCore import QObject, Signal

from app.core import words
from app.core.errors import ErrorBody
from app.core.events import Event, LibraryJobChanged
from app.core.library import FileCheck, JobKind, LibraryJob, Removal, RemoveModel, Verdict, VerifyModel
from app.core.models import ModelInfo
from app.core.translation import tr
from app.gui.net.api import GatewayApi
from app.gui.shell.contract import Shell

_BAD = frozenset({Verdict.WRONG, Verdict.CUT_OFF})


class ModelFiles(QObject):
    """Asks the gateway, and says how it went. `toast_requested` is a sentence with a way back, or None."""

    toast_requested = Signal(str, object)
    failed = Signal(object)

    def __init__(self, api: GatewayApi, shell: Shell) -> None:
        super().__init__(shell)
        self._api = api
        self._checks: set[str] = set()
        """Jobs that were asked for here and go on."""
        shell.event_received.connect(self.handle_event)

    def remove(self, model: ModelInfo) -> None:
        """Move a model's files to the trash; Undo brings them back where that can be done."""

        def finish_removal(removal: Removal) -> None:
            self.toast_requested.emit(
                removal_sentence(removal, model.title), (lambda: self.restore(removal.id)) if removal.id else None
            )

        self._api.post(
            "/removals", RemoveModel(model=model.name), kind=Removal, then=finish_removal, on_error=self.failed.emit
        )

    def restore(self, removal: str) -> None:
        """Bring back what was removed."""

        def finish_restore(model: ModelInfo) -> None:
            self.toast_requested.emit(tr("{title} is back.", title=model.title), None)

        self._api.post(
            f"/removals/{removal}/undo", None, kind=ModelInfo, then=finish_restore, on_error=self.failed.emit
        )

    def verify(self, model: ModelInfo) -> None:
        """Have a model's files read and compared with their hashes; what that came to is said at its end."""

        def track_check(job: LibraryJob) -> None:
            self._checks.add(job.id)
            self.toast_requested.emit(
                tr("{title} is being checked.", title=model.title),
                lambda: self._api.delete("/library/job", _do_nothing),
            )

        body = VerifyModel(model=model.name)
        self._api.post("/library/verify", body, kind=LibraryJob, then=track_check, on_error=self.failed.emit)

    def handle_event(self, event: Event) -> None:
        """Act on an event of the gateway."""
        if not isinstance(event, LibraryJobChanged) or not event.job.is_done or event.job.id not in self._checks:
            return
        job = event.job
        self._checks.discard(job.id)
        wrong = [check for check in job.checks if check.verdict in _BAD]
        if job.error is not None:
            self.toast_requested.emit(job.error.sentence, None)
        elif wrong:
            self.failed.emit(damage_error(job.model, wrong))
        else:
            self.toast_requested.emit(check_sentence(job), None)


def can_remove(model: ModelInfo) -> bool:
    """Whether a model's files are ours to remove."""
    return not (model.is_builtin or model.attached or model.store or model.preset is not None)


def can_verify(model: ModelInfo) -> bool:
    """Whether there are files to check."""
    return not model.attached


def removal_sentence(removal: Removal, title: str) -> str:
    """Return what is said once a model is in the trash: what it frees, who misses it, and what stays."""
    missing_notes = (
        [tr("{names} cannot be used without it.", names=", ".join(removal.made_models))] if removal.made_models else []
    )
    sentence = words.describe_removal(title, len(removal.projectors), to_trash=True)
    return " ".join(
        [
            sentence,
            tr("{size} will be freed once the trash is emptied.", size=words.format_bytes(removal.frees_bytes)),
            *missing_notes,
            *removal.left,
        ]
    )


def check_sentence(job: LibraryJob) -> str:
    """Return what is said of files that nothing is wrong with."""
    if job.kind is JobKind.VERIFY and all(check.verdict is Verdict.RIGHT for check in job.checks):
        return tr("{model} is intact: every file matches its hash.", model=job.model)
    return tr("{model} is complete. Not every file has a known hash to compare it with.", model=job.model)


def damage_error(model: str, wrong: list[FileCheck]) -> ErrorBody:
    """Return what is said of files that are not what they should be."""
    names = ", ".join(Path(check.path).name for check in wrong)
    return ErrorBody(
        code="model_corrupt", sentence=tr("{model} is damaged: {names}.", model=model, names=names), hint=wrong[0].note
    )


def _do_nothing() -> None:
    """Wait for nothing more: the event says that the check has ended."""
