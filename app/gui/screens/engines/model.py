"""State of the engines page: the stock, the job that runs, and what went wrong last with each engine."""

from functools import partial

from PySide6.QtCore import QObject, Signal

from app.client.http import quote_segment
from app.core import words
from app.core.engine_store import (
    EngineJob,
    EngineListing,
    EngineOffer,
    EngineUpdate,
    EngineVersion,
    InstallEngine,
    Proof,
    TestEngine,
    UseEngine,
)
from app.core.errors import ErrorBody
from app.core.events import EngineJobChanged, EnginesChanged, Event
from app.core.translation import LazyText, tr, tr_plural
from app.gui.net.remote import RemoteList
from app.gui.net.remote_lists import Stores
from app.gui.shell.contract import Shell

CANCELLED = "cancelled"


class EngineStockList(RemoteList[EngineListing]):
    """The engines, read again when a version comes, goes or is switched to."""

    def is_outdated_by(self, event: Event) -> bool:
        """Tell whether the stock is not what it was."""
        return isinstance(event, EnginesChanged) or (isinstance(event, EngineJobChanged) and event.job.is_done)


class EnginesModel(QObject):
    """Installs, switches, tests and removes; everything is decided by the gateway."""

    changed = Signal()
    toast_requested = Signal(str, object)

    def __init__(self, stores: Stores, shell: Shell) -> None:
        super().__init__(shell)
        self._api = stores.api
        self.listings = EngineStockList(stores.api, shell, "/engines/stock", list[EngineListing])
        self.job: EngineJob | None = None
        self.updates: dict[str, EngineUpdate] = {}
        self._errors: dict[str, ErrorBody] = {}
        self.listings.changed.connect(self.changed)
        shell.event_received.connect(self._handle_event)

    @property
    def suitable_engines(self) -> list[EngineListing]:
        """The engines that run here, or are here all the same."""
        return [engine for engine in self.listings.items if engine.rank is not None or engine.versions]

    @property
    def other_engines(self) -> list[EngineListing]:
        """The engines this machine cannot run, and those nobody should begin with."""
        return [engine for engine in self.listings.items if engine.rank is None and not engine.versions]

    @property
    def summary(self) -> str:
        """How many engines are here, and what they take on disk."""
        here = [engine for engine in self.listings.items if engine.versions]
        if not here:
            return ""
        size = sum(engine.size_bytes for engine in here)
        count = tr_plural("{count} engine installed", "{count} engines installed", len(here))
        return f"{count}, {words.format_bytes(size)}" if size else count

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
        self._start_job(engine, "install", InstallEngine(variant=variant))

    def test_version(self, engine: str, version: str) -> None:
        """Test a version that is here."""
        self._start_job(engine, "test", TestEngine(version=version))

    def check_update(self, engine: str) -> None:
        """Look for something newer; nothing is changed."""
        self._errors.pop(engine, None)
        path = f"/engines/{quote_segment(engine)}/update?channel=stable"
        self._api.get(path, EngineUpdate, partial(self._show_update, engine), partial(self._store_error, engine))

    def install_update(self, engine: str) -> None:
        """Install what `check_update` found."""
        update = self.updates.pop(engine, None)
        if update is not None:
            self._start_job(engine, "update", InstallEngine(variant=update.variant, channel=update.channel))

    def cancel(self) -> None:
        """Call the job off."""
        self._api.delete("/engines/job", lambda: None)

    def use_version(self, engine: str, version: str, *, force: bool = False) -> None:
        """Use a version that is here; Undo uses the one before again. What has to be tested first is so by a job."""
        before = next((candidate.name for candidate in self._versions_of(engine) if candidate.is_current), "")

        def finish_use(job: EngineJob | None) -> None:
            if job is not None:
                self._job_changed(job)
                return
            self.toast_requested.emit(
                tr("{version} will be used from the next load on.", version=version),
                partial(self.use_version, engine, before),
            )

        path, body = f"/engines/{quote_segment(engine)}/use", UseEngine(version=version, force=force)
        self._errors.pop(engine, None)
        self._api.post(path, body, kind=EngineJob | None, then=finish_use, on_error=partial(self._store_error, engine))  # type: ignore[arg-type]  # a union is no type to mypy

    def remove_version(self, engine: str, version: EngineVersion) -> None:
        """Remove a version from the disk; it can be installed again."""
        path = f"/engines/{quote_segment(engine)}/versions/{quote_segment(version.name)}"

        def finish_removal() -> None:
            again = partial(self.install, engine, version.variant)
            self.toast_requested.emit(
                tr(
                    "{name} was removed, freeing {size}.",
                    name=version.name,
                    size=words.format_bytes(version.size_bytes),
                ),
                again,
            )

        self._errors.pop(engine, None)
        self._api.delete(path, finish_removal, partial(self._store_error, engine))

    def dismiss(self, engine: str) -> None:
        """Say no more about what went wrong."""
        self._errors.pop(engine, None)
        self.changed.emit()

    def _versions_of(self, engine: str) -> list[EngineVersion]:
        return next((listing.versions for listing in self.listings.items if listing.id == engine), [])

    def _start_job(self, engine: str, verb: str, body: object) -> None:
        self._errors.pop(engine, None)
        path = f"/engines/{quote_segment(engine)}/{verb}"
        self._api.post(path, body, kind=EngineJob, then=self._job_changed, on_error=partial(self._store_error, engine))

    def _show_update(self, engine: str, update: EngineUpdate) -> None:
        if update.to:
            self.updates[engine] = update
        else:
            self.toast_requested.emit(
                tr("{version} is the newest version tested with this version of Roundhouse.", version=update.current),
                None,
            )
        self.changed.emit()

    def _store_error(self, engine: str, error: ErrorBody) -> None:
        self._errors[engine] = error
        self.changed.emit()

    def _handle_event(self, event: object) -> None:
        if isinstance(event, EngineJobChanged):
            self._job_changed(event.job)

    def _job_changed(self, job: EngineJob) -> None:
        if self.job is not None and self.job.id == job.id and self.job.is_done:
            return  # the answer to the request may come after the events
        self.job = job
        if job.is_done and job.error is not None and job.error.code != CANCELLED:
            self._errors[job.engine] = job.error
        elif job.is_done and job.error is None:
            self.toast_requested.emit(_result_sentence(job), None)
        self.changed.emit()


def current_of(stock: EngineListing) -> EngineVersion | None:
    """Return the version in use."""
    return next((version for version in stock.versions if version.is_current), None)


def offer_of(stock: EngineListing) -> EngineOffer | None:
    """Return what the install button installs: the first that suits and is not here, one that failed last."""
    fitting_offers = [offer for offer in stock.offers if not offer.unfit and not offer.is_installed]
    return min(fitting_offers, key=lambda offer: bool(offer.problem), default=None)


def offer_with_problem(stock: EngineListing) -> EngineOffer | None:
    """Return what was installed last and not kept, because its test failed, where nothing else is offered."""
    offer = offer_of(stock)
    return offer if offer is not None and offer.problem else None


def engine_state(stock: EngineListing) -> tuple[str, str]:
    """Return the colour and the words of how an engine stands here."""
    current = current_of(stock)
    if current is None and offer_with_problem(stock) is not None:
        return "bad", tr("Failed its test")
    if current is None:
        return "edge", tr("Not installed") if stock.rank is not None else tr("Cannot run here")
    if current.problem:
        return "bad", tr("Failed its test")
    return ("ok", tr("Tested")) if current.proof is not None else ("ok", tr("Ready"))


def needs_test(version: EngineVersion) -> bool:
    """Tell whether a version is tested before it is used."""
    return version.is_on_path or bool(version.problem)


def version_facts(version: EngineVersion) -> str:
    """Return what is to know about a version in one quiet line."""
    size = words.format_bytes(version.size_bytes) if version.size_bytes else tr("bundled with Roundhouse")
    own = version.path if version.path and not version.is_ours else size
    test_words = proof_words(version.proof) if version.proof is not None and version.proof.is_good else ""
    return " · ".join(filter(None, (version.backend, own, test_words)))


def proof_words(proof: Proof) -> str:
    """Return what a test showed."""
    if not proof.is_good:
        return proof.problem
    return (
        tr("{rate} with {model}", rate=words.format_rate(proof.tokens_per_s), model=proof.model)
        if proof.tokens_per_s
        else tr("works with {model}", model=proof.model)
    )


def install_words(offer: EngineOffer) -> str:
    """Return what stands on the install button."""
    return (
        tr("Install, {size}", size=words.format_bytes(offer.download_bytes)) if offer.download_bytes else tr("Install")
    )


def job_words(job: EngineJob) -> str:
    """Return what is done now."""
    share = "" if job.fraction is None else f" {job.fraction:.0%}"
    return f"{job.stage}{share}"


_RESULTS = {
    "test": LazyText("{engine} passed its test."),
    "use": LazyText("{engine} is now in use."),
    "bundle": LazyText("{engine} is bundled."),
}
_FAST_RESULTS = {
    "test": LazyText("{engine} passed its test, {rate}."),
    "use": LazyText("{engine} is now in use, {rate}."),
    "bundle": LazyText("{engine} is bundled, {rate}."),
}


def _result_sentence(job: EngineJob) -> str:
    engine = f"{job.engine} {job.version}"
    rate = next((words.format_rate(proof.tokens_per_s) for proof in job.proofs if proof.tokens_per_s), "")
    if rate:
        return _FAST_RESULTS.get(job.verb, LazyText("{engine} is installed and in use, {rate}.")).tr(
            engine=engine, rate=rate
        )
    return _RESULTS.get(job.verb, LazyText("{engine} is installed and in use.")).tr(engine=engine)
