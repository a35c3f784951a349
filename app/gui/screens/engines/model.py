"""State of the engines page: the stock, the job that runs, and what went wrong last with each engine."""

from functools import partial

from PySide6.QtCore import QObject, Signal

from app.client.http import segment
from app.core import words
from app.core.engine_store import (
    EngineJob,
    EngineOffer,
    EngineStock,
    EngineUpdate,
    EngineVersion,
    InstallEngine,
    Proof,
    TestEngine,
    UseEngine,
)
from app.core.errors import ErrorBody
from app.core.events import EngineJobChanged, EnginesChanged, Event
from app.gui.net.remote import RemoteList
from app.gui.net.stores import Stores
from app.gui.shell.contract import Shell

CANCELLED = "cancelled"


class EngineStockList(RemoteList[EngineStock]):
    """The engines, read again when a version comes, goes or is switched to."""

    def is_outdated_by(self, event: Event) -> bool:
        """Tell whether the stock is not what it was."""
        return isinstance(event, EnginesChanged) or (isinstance(event, EngineJobChanged) and event.job.is_done)


class EnginesModel(QObject):
    """Installs, switches, tests and removes; everything is decided by the gateway."""

    changed = Signal()
    said = Signal(str, object)

    def __init__(self, stores: Stores, shell: Shell) -> None:
        super().__init__(shell)
        self._api = stores.api
        self.stock = EngineStockList(stores.api, shell, "/engines/stock", list[EngineStock])
        self.job: EngineJob | None = None
        self.updates: dict[str, EngineUpdate] = {}
        self._errors: dict[str, ErrorBody] = {}
        self.stock.changed.connect(self.changed)
        shell.happened.connect(self._take)

    @property
    def suited(self) -> list[EngineStock]:
        """The engines that run here, or are here all the same."""
        return [one for one in self.stock.items if one.rank is not None or one.versions]

    @property
    def others(self) -> list[EngineStock]:
        """The engines this machine cannot run, and those nobody should begin with."""
        return [one for one in self.stock.items if one.rank is None and not one.versions]

    @property
    def summary(self) -> str:
        """How many engines are here, and what they take on disk."""
        here = [one for one in self.stock.items if one.versions]
        if not here:
            return ""
        size = sum(one.size_bytes for one in here)
        count = "1 engine installed" if len(here) == 1 else f"{len(here)} engines installed"
        return f"{count}, {words.size(size)}" if size else count

    def job_of(self, engine: str) -> EngineJob | None:
        """Return what is being done to an engine now."""
        return self.job if self.job is not None and self.job.engine == engine and not self.job.is_done else None

    @property
    def is_busy(self) -> bool:
        """Whether a job runs: there is one at a time."""
        return self.job is not None and not self.job.is_done

    def error_of(self, engine: str) -> ErrorBody | None:
        """Return what went wrong last."""
        return self._errors.get(engine)

    def install(self, engine: str, variant: str) -> None:
        """Install a variant, test it and use it."""
        self._begin(engine, "install", InstallEngine(variant=variant))

    def test(self, engine: str, version: str) -> None:
        """Test a version that is here."""
        self._begin(engine, "test", TestEngine(version=version))

    def check(self, engine: str) -> None:
        """Look for something newer; nothing is changed."""
        self._errors.pop(engine, None)
        path = f"/engines/{segment(engine)}/update?channel=stable"
        self._api.get(path, EngineUpdate, partial(self._checked, engine), partial(self._failed, engine))

    def update(self, engine: str) -> None:
        """Install what `check` found."""
        found = self.updates.pop(engine, None)
        if found is not None:
            self._begin(engine, "update", InstallEngine(variant=found.variant, channel=found.channel))

    def cancel(self) -> None:
        """Call the job off."""
        self._api.delete("/engines/job", lambda: None)

    def use(self, engine: str, version: str, *, force: bool = False) -> None:
        """Use a version that is here; Undo uses the one before again. What has to be tested first is so by a job."""
        before = next((one.name for one in self._versions(engine) if one.is_current), "")

        def done(job: EngineJob | None) -> None:
            if job is not None:
                self._job_changed(job)
                return
            self.said.emit(f"{version} is used from the next load on.", partial(self.use, engine, before))

        path, body = f"/engines/{segment(engine)}/use", UseEngine(version=version, force=force)
        self._errors.pop(engine, None)
        self._api.post(path, body, kind=EngineJob | None, then=done, failed=partial(self._failed, engine))  # type: ignore[arg-type]  # a union is no type to mypy

    def remove(self, engine: str, version: EngineVersion) -> None:
        """Remove a version from the disk; it can be installed again."""
        path = f"/engines/{segment(engine)}/versions/{segment(version.name)}"

        def done() -> None:
            again = partial(self.install, engine, version.variant)
            self.said.emit(f"{version.name} was removed; {words.size(version.size_bytes)} freed.", again)

        self._errors.pop(engine, None)
        self._api.delete(path, done, partial(self._failed, engine))

    def dismiss(self, engine: str) -> None:
        """Say no more about what went wrong."""
        self._errors.pop(engine, None)
        self.changed.emit()

    def _versions(self, engine: str) -> list[EngineVersion]:
        return next((one.versions for one in self.stock.items if one.id == engine), [])

    def _begin(self, engine: str, verb: str, body: object) -> None:
        self._errors.pop(engine, None)
        path = f"/engines/{segment(engine)}/{verb}"
        self._api.post(path, body, kind=EngineJob, then=self._job_changed, failed=partial(self._failed, engine))

    def _checked(self, engine: str, found: EngineUpdate) -> None:
        if found.to:
            self.updates[engine] = found
        else:
            self.said.emit(f"{found.current} is the newest version tested with this version of Roundhouse.", None)
        self.changed.emit()

    def _failed(self, engine: str, error: ErrorBody) -> None:
        self._errors[engine] = error
        self.changed.emit()

    def _take(self, event: object) -> None:
        if isinstance(event, EngineJobChanged):
            self._job_changed(event.job)

    def _job_changed(self, job: EngineJob) -> None:
        if self.job is not None and self.job.id == job.id and self.job.is_done:
            return  # the answer to the request may come after the events
        self.job = job
        if job.is_done and job.error is not None and job.error.code != CANCELLED:
            self._errors[job.engine] = job.error
        elif job.is_done and job.error is None:
            self.said.emit(_done(job), None)
        self.changed.emit()


def current_of(stock: EngineStock) -> EngineVersion | None:
    """Return the version in use."""
    return next((one for one in stock.versions if one.is_current), None)


def offer_of(stock: EngineStock) -> EngineOffer | None:
    """Return what the install button installs: the first that suits and is not here, one that failed last."""
    fitting = [one for one in stock.offers if not one.unfit and not one.is_installed]
    return min(fitting, key=lambda one: bool(one.problem), default=None)


def failed_offer(stock: EngineStock) -> EngineOffer | None:
    """Return what was installed last and not kept, because its test failed, where nothing else is offered."""
    offer = offer_of(stock)
    return offer if offer is not None and offer.problem else None


def standing(stock: EngineStock) -> tuple[str, str]:
    """Return the colour and the words of how an engine stands here."""
    current = current_of(stock)
    if current is None and failed_offer(stock) is not None:
        return "bad", "Failed its test"
    if current is None:
        return "edge", "Not installed" if stock.rank is not None else "Cannot run here"
    if current.problem:
        return "bad", "Failed its test"
    return ("ok", "Tested") if current.proof is not None else ("ok", "Ready")


def needs_test(version: EngineVersion) -> bool:
    """Tell whether a version is tested before it is used."""
    return version.is_on_path or bool(version.problem)


def facts(version: EngineVersion) -> str:
    """Return what is to know about a version in one quiet line."""
    size = words.size(version.size_bytes) if version.size_bytes else "bundled with Roundhouse"
    own = version.path if version.path and not version.is_ours else size
    tested = proof_words(version.proof) if version.proof is not None and version.proof.is_good else ""
    return " · ".join(filter(None, (version.backend, own, tested)))


def proof_words(proof: Proof) -> str:
    """Return what a test showed."""
    if not proof.is_good:
        return proof.problem
    return f"{words.rate(proof.tokens_per_s)} with {proof.model}" if proof.tokens_per_s else f"works with {proof.model}"


def install_words(offer: EngineOffer) -> str:
    """Return what stands on the install button."""
    return f"Install, {words.size(offer.download_bytes)}" if offer.download_bytes else "Install"


def job_words(job: EngineJob) -> str:
    """Return what is done now."""
    share = "" if job.fraction is None else f" {job.fraction:.0%}"
    return f"{job.stage}{share}"


_VERBS = {"test": "passed its test", "use": "is now in use", "bundle": "is bundled"}


def _done(job: EngineJob) -> str:
    verb = _VERBS.get(job.verb, "is installed and in use")
    speed = next((f", {words.rate(one.tokens_per_s)}" for one in job.proofs if one.tokens_per_s), "")
    return f"{job.engine} {job.version} {verb}{speed}."
