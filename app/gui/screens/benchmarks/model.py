"""State of the benchmarks page: what is to be measured, the run under way, and results, of which up to two are shown.

A list of results has no single requests; those of a shown result are fetched with it.
"""

import time
from collections.abc import Callable
from pathlib import Path
from types import NoneType

import msgspec

from app.benchmark.comparison import ReceiptComparison, compare_receipts
from app.benchmark.field_formats import format_receipt
from app.benchmark.html import html_report
from app.benchmark.markdown import markdown_row
from app.benchmark.plots import BenchmarkPlot, make_plots
from app.benchmark.prompt_files import parse_prompts
from app.core import words
from app.core.benchmarks import (
    BUILT_IN_WORKLOADS,
    WORKLOAD_TITLES,
    BenchmarkPrompt,
    BenchmarkReceipt,
    BenchmarkSettings,
    FieldFormat,
    PredictionAccuracy,
    StartBenchmark,
    Workload,
)
from app.core.errors import ErrorBody, UserError
from app.core.events import BenchmarkChanged, Event, RaceChanged
from app.core.translation import tr
from app.gui import phrases
from app.gui.net.remote import RemoteList
from app.gui.net.remote_lists import Stores
from app.gui.screens.benchmarks.race_model import RaceModel
from app.gui.screens.benchmarks.trial_model import TrialModel
from app.gui.screens.benchmarks.tuning_model import TuneModel
from app.gui.shell.contract import Command, Shell

KEPT_REQUESTS = "kept"
"""Instead of a workload: what the inspector keeps of one's own requests."""
PROMPT_FILE = Workload.FILE.value
_KEPT_COUNT = 10
SWEEP = "1,2,4,8,16"
LEVELS = ("1", "1,2,4", "1,4,16", "1,8,64", SWEEP)
"""Requests at once; those of a sweep run one after the other, until more write no more."""
FORMAT_SUFFIXES = {
    ".vllm.json": FieldFormat.VLLM,
    ".guidellm.json": FieldFormat.GUIDELLM,
    ".llama-bench.json": FieldFormat.LLAMA_BENCH,
    ".llama-bench.md": FieldFormat.LLAMA_BENCH_MD,
}
"""Ends of the names under which the first result is saved as other programs write theirs."""
MOST_PRICE_KWH = 1000.0
"""As much as the service takes."""
_KEPT = 100
_MOST_SHOWN = 60
"""Characters of a value that was not the same; a hash has more, and nobody reads them."""


class BenchmarksModel(RemoteList[BenchmarkReceipt]):
    """Results, newest first. `problem` is why the last thing that was asked for came to nothing."""

    def __init__(self, stores: Stores, shell: Shell, clock: Callable[[], float] = time.time) -> None:
        self._clock, self._shell = clock, shell
        self.stores = stores
        self.progress: BenchmarkChanged | None = None
        """How the run under way has come; None when none is."""
        self.problem: ErrorBody | None = None
        self.model, self.workload, self.levels = "", Workload.CHAT.value, LEVELS[0]
        self.keeps_disturbed = False
        self.price = ""
        """Of a kilowatt-hour, as it was typed."""
        self.prompts: list[BenchmarkPrompt] = []
        """Of the file that was chosen last."""
        self.prompts_name = ""
        self._repeated_id = ""
        """The result that the run under way measures again."""
        self.accuracy = ""
        """How far predicted speeds were off, in a sentence."""
        self.shown: dict[str, BenchmarkReceipt] = {}
        """Whole results that are shown, by id: the first, and the one it is compared with."""
        super().__init__(stores.api, shell, f"/benchmarks?limit={_KEPT}", list[BenchmarkReceipt])
        self.race = RaceModel(stores.api, shell)
        """The race of the chosen model's engines."""
        self.tuning = TuneModel(stores.api, shell)
        """Looking for the chosen model's fastest settings."""
        self.trial = TrialModel(stores.api, shell)
        """The chosen model's kept requests on another."""
        for part in (self.race, self.trial, self.tuning):
            part.changed.connect(self.changed)
        stores.library.changed.connect(self.changed)

    @property
    def can_race(self) -> bool:
        """Whether engines and settings can be compared now: they are by a workload, and nothing else is measured."""
        return not self.is_measuring and bool(self.chosen_model) and self.workload not in {KEPT_REQUESTS, PROMPT_FILE}

    @property
    def race_workload(self) -> str:
        """What engines and settings are compared with: the chosen workload, or chat where one's own is chosen."""
        return Workload.CHAT.value if self.workload in {KEPT_REQUESTS, PROMPT_FILE} else self.workload

    @property
    def workload_options(self) -> list[tuple[str, str]]:
        """What can be asked, with its words."""
        workloads = [(workload.value, WORKLOAD_TITLES[workload].tr()) for workload in BUILT_IN_WORKLOADS]
        file = tr("Prompts of {name}", name=self.prompts_name) if self.prompts else tr("Prompts from a file …")
        return [*workloads, (KEPT_REQUESTS, tr("Your kept requests")), (PROMPT_FILE, file)]

    def read_prompts(self, file: Path | None) -> None:
        """Take the prompts of a file as the workload; none, or one that holds none, leaves what was chosen."""
        if file is not None:
            try:
                self.prompts = parse_prompts(file.read_text(encoding="utf-8", errors="replace"), file.name)
                self.prompts_name, self.workload, self.problem = file.name, PROMPT_FILE, None
            except UserError as problem:
                self.problem = problem.body
            except OSError as problem:
                sentence = tr("{name} cannot be read.", name=file.name)
                self.problem = ErrorBody(code="storage", sentence=sentence, detail=str(problem))
        self.changed.emit()

    @property
    def most_at_once(self) -> int:
        """The most requests at once of the chosen levels."""
        return max(int(level) for level in self.levels.split(","))

    @property
    def price_kwh(self) -> float | None:
        """The price that was typed, with a comma or a point; None where it is none."""
        try:
            price = float(self.price.strip().replace(",", "."))
        except ValueError:
            return None
        return price if 0 <= price <= MOST_PRICE_KWH else None

    def is_outdated_by(self, event: Event) -> bool:
        """Tell whether another result is there."""
        if isinstance(event, RaceChanged):
            return event.done and event.result is not None
        return isinstance(event, BenchmarkChanged) and event.done and bool(event.receipt)

    def read(self) -> None:
        """Read the results, and how far predictions were off."""
        super().read()
        self.api.get("/benchmarks/accuracy", PredictionAccuracy, self._show_accuracy, lambda _: None)

    def _show_accuracy(self, accuracy: PredictionAccuracy) -> None:
        self.accuracy = accuracy.sentence
        self.changed.emit()

    def take(self, event: Event) -> None:
        """Follow a run."""
        if isinstance(event, BenchmarkChanged):
            self._follow_run(event)
        super().take(event)

    def _follow_run(self, event: BenchmarkChanged) -> None:
        was_running = self.progress is not None
        self.progress = None if event.done else event
        if event.done and event.error and was_running:
            self.problem = ErrorBody(code=event.code, sentence=event.error)
        elif event.receipt and was_running:
            is_repeat = self.first is not None and self.first.id == self._repeated_id
            (self.compare_with if is_repeat else self.show_receipt)(event.receipt)
        self.changed.emit()

    @property
    def is_measuring(self) -> bool:
        """Whether a benchmark, a race, a trial or self-tuning runs."""
        return any(
            part is not None for part in (self.progress, self.race.progress, self.trial.progress, self.tuning.progress)
        )

    @property
    def model_options(self) -> list[tuple[str, str]]:
        """Models that can be measured, with their words."""
        return [
            (model.name, phrases.model_label(model))
            for model in self.stores.library.items
            if model.chats and not model.problem and not model.is_reranker
        ]

    @property
    def chosen_model(self) -> str:
        """The model that would be measured; the first until somebody chooses."""
        names = [name for name, _ in self.model_options]
        return self.model if self.model in names else next(iter(names), "")

    def choose(self, **choices: object) -> None:
        """Choose model, workload, levels, or whether a disturbed result is kept."""
        for name, value in choices.items():
            setattr(self, name, value)
        self.changed.emit()

    def start(self) -> None:
        """Begin, unless one runs."""
        if self.progress is not None or not self.chosen_model:
            return
        self._repeated_id = ""
        self._begin_run(
            StartBenchmark(
                model=self.chosen_model,
                prompts=self.prompts if self.workload == PROMPT_FILE else [],
                kept=_KEPT_COUNT if self.workload == KEPT_REQUESTS else 0,
                settings=BenchmarkSettings(
                    workload=Workload.FILE if self.workload == KEPT_REQUESTS else Workload(self.workload),
                    concurrency=[int(level) for level in self.levels.split(",")],
                    stops_saturated=self.levels == SWEEP,
                    price_kwh=self.price_kwh,
                ),
                keeps_disturbed=self.keeps_disturbed,
            )
        )

    @property
    def can_repeat(self) -> bool:
        """Whether the shown result can be measured again from here: with our prompts, on a model of this computer."""
        first = self.first
        if first is None or self.is_measuring or first.settings.workload is Workload.FILE:
            return False
        return first.target.model in [name for name, _ in self.model_options]

    def repeat_run(self) -> None:
        """Measure once more what the shown result measured; the new one is then shown beside it."""
        first = self.first
        if first is None or not self.can_repeat:
            return
        self._repeated_id = first.id
        self._begin_run(
            StartBenchmark(model=first.target.model, settings=first.settings, keeps_disturbed=self.keeps_disturbed)
        )

    def _begin_run(self, request: StartBenchmark) -> None:
        self.problem = None
        self.progress = BenchmarkChanged(model=request.model, stage=tr("Getting ready"), fraction=0.0)
        self.changed.emit()
        self.api.post("/benchmarks", request, kind=BenchmarkChanged, then=lambda _: None, on_error=self._store_problem)

    def cancel(self) -> None:
        """Stop the run."""
        self.api.send_request(
            "DELETE", "/benchmarks/job", None, kind=NoneType, then=self._finish_cancel, on_error=self._store_problem
        )

    def _finish_cancel(self, _nothing: None) -> None:
        self.progress = self.problem = None
        self.changed.emit()

    def show_receipt(self, receipt_id: str) -> None:
        """Show one result instead of those that are shown."""
        self.shown.clear()
        self._fetch(receipt_id)

    def compare_with(self, receipt_id: str) -> None:
        """Show another result beside the first; an empty id takes it away."""
        first = next(iter(self.shown), "")
        for name in list(self.shown)[1:]:
            del self.shown[name]
        if receipt_id and receipt_id != first:
            self._fetch(receipt_id)
        self.changed.emit()

    def _fetch(self, receipt_id: str) -> None:
        def store(receipt: BenchmarkReceipt) -> None:
            self.shown[receipt.id] = receipt
            self.changed.emit()

        self.api.get(f"/benchmarks/{receipt_id}", BenchmarkReceipt, store, self._store_problem)

    @property
    def first(self) -> BenchmarkReceipt | None:
        """The result that is shown."""
        return next(iter(self.shown.values()), None)

    @property
    def comparison(self) -> ReceiptComparison | None:
        """The two that are shown against each other; None while it is one."""
        both = list(self.shown.values())
        return compare_receipts(both[0], both[1]) if len(both) > 1 else None

    @property
    def difference_text(self) -> str:
        """What was not the same when the two were measured, in a sentence; hashes by their beginning."""
        comparison = self.comparison
        if comparison is None:
            return ""
        if not comparison.differences:
            return tr("Both were measured with the same versions and settings, on the same computer.")
        parts = [f"{part.name}: {_shorten(part.first)} → {_shorten(part.second)}" for part in comparison.differences]
        return tr("Not the same: {differences}", differences=" · ".join(parts))

    @property
    def plots(self) -> list[BenchmarkPlot]:
        """What is drawn of the results that are shown."""
        return make_plots(list(self.shown.values()))

    @property
    def comparison_options(self) -> list[tuple[str, str]]:
        """What the first can be compared with."""
        others = [item for item in self.items if item.id not in list(self.shown)[:1]]
        return [("", tr("Compare with …")), *((item.id, self.row_texts(item)[0]) for item in others)]

    def row_texts(self, receipt: BenchmarkReceipt) -> tuple[str, str]:
        """Return the strong and the quiet line of a result in a list."""
        level, settings = receipt.first_level, receipt.settings
        target = receipt.target
        strong = " · ".join(filter(None, [target.model or target.url, target.engine, settings.workload_title]))
        facts = [
            tr("{rate} per answer", rate=words.format_rate(level.decode_tokens_s.value)),
            tr("first token after {duration}", duration=words.format_duration(level.ttft_s.median.value)),
            target.engine_version and f"{target.engine} {target.engine_version}",
            phrases.time_ago(self._clock() - receipt.at),
            tr("disturbed") if receipt.disturbances else "",
        ]
        return strong, " · ".join(filter(None, facts))

    def forget(self, receipt: BenchmarkReceipt) -> None:
        """Delete a result, once that was confirmed."""
        strong, _ = self.row_texts(receipt)
        self._shell.confirm(
            tr("Delete this result?"),
            tr("{title} is deleted. This cannot be undone.", title=strong),
            Command(tr("Delete"), lambda: self._delete(receipt.id), "trash-2"),
        )

    def _delete(self, receipt_id: str) -> None:
        def finish_deletion() -> None:
            self.shown.pop(receipt_id, None)
            self.read()

        self.api.delete(f"/benchmarks/{receipt_id}", finish_deletion, self._store_problem)

    def copy_markdown(self) -> None:
        """Put the shown results on the clipboard, as a table to be posted."""
        rows = [markdown_row(receipt) for receipt in self.shown.values()]
        if rows:
            lines = [*rows[0][:2], *(line for row in rows for line in row[2:])]
            self._shell.copy_text("\n".join(lines), tr("The table was copied."))

    @property
    def file_name(self) -> str:
        """A name to keep the report under."""
        return f"benchmark-{'-'.join(self.shown)}.html"

    def save_report(self, file: Path) -> None:
        """Write the shown results: as JSON or in another program's format under a name that says so, else as a page."""
        try:
            file.write_text(self._report_text(file.name.lower()), encoding="utf-8")
        except UserError as problem:
            self._store_problem(problem.body)
            return
        except OSError as problem:
            self._store_problem(
                ErrorBody(
                    code="storage",
                    sentence=tr("The report could not be saved in {folder}.", folder=file.parent),
                    hint=tr("Choose another folder."),
                    detail=str(problem),
                )
            )
            return
        self._shell.show_toast(tr("{name} was saved.", name=file.name))

    def _report_text(self, name: str) -> str:
        """Return what is saved under a name. Raises BadRequest where the format has no place for the result."""
        receipts = list(self.shown.values())
        kind = next((kind for suffix, kind in FORMAT_SUFFIXES.items() if name.endswith(suffix)), None)
        if kind is not None:
            return format_receipt(receipts[0], kind)
        return msgspec.json.encode(receipts[0]).decode() if name.endswith(".json") else html_report(receipts)

    def dismiss_problem(self) -> None:
        """Say no more about what went wrong."""
        self.problem = None
        self.changed.emit()

    def _store_problem(self, error: ErrorBody) -> None:
        self.problem, self.progress = error, None
        self.changed.emit()


def _shorten(text: str) -> str:
    return text if len(text) <= _MOST_SHOWN else f"{text[: _MOST_SHOWN - 1]}…"
