"""State of the connect page: the tools, the model they are to use, and per tool what is open below its row."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from types import NoneType

from PySide6.QtCore import QObject, Signal

from app.client.http import quote_segment
from app.core.benchmarks import StartBenchmark, tool_benchmark
from app.core.errors import ErrorBody
from app.core.events import BenchmarkChanged, Event, ModelsChanged, SettingChanged
from app.core.models import Autocomplete, ChooseAutocomplete
from app.core.tool_prompts import ToolPreflight
from app.core.tools import ToolChange, ToolInfo, ToolProbe, WireTool
from app.core.translation import tr
from app.gui import phrases
from app.gui.net.api import GatewayApi, GatewayCall
from app.gui.net.remote import RemoteList, RemoteStore
from app.gui.net.remote_lists import Stores
from app.gui.shell.contract import Command, PageId, Shell


@dataclass(frozen=True, slots=True)
class ToolDetail:
    """What stands below a tool's row: a change to look at, what a try said, or what went wrong."""

    change: ToolChange | None = None
    probe: ToolProbe | None = None
    error: ErrorBody | None = None
    is_busy: bool = False


NO_DETAIL = ToolDetail()


class AutocompleteStore(RemoteStore[Autocomplete]):
    """The model that completes code in editors."""

    def __init__(self, api: GatewayApi, shell: Shell) -> None:
        super().__init__(api, shell, "/autocomplete", Autocomplete)

    def is_outdated_by(self, event: Event) -> bool:
        """Tell whether another model was chosen here or elsewhere, or models came or went."""
        return isinstance(event, ModelsChanged) or (
            isinstance(event, SettingChanged) and event.name in {"models.autocomplete", "models.default"}
        )


class ConnectModel(QObject):
    """Lists, previews, wires and undoes; everything is decided by the gateway."""

    changed = Signal()
    toast_requested = Signal(str, object)

    def __init__(self, stores: Stores, shell: Shell) -> None:
        super().__init__(shell)
        self._api, self._shell = stores.api, shell
        self.tools = RemoteList(stores.api, shell, "/tools", list[ToolInfo])
        self.library = stores.library
        self.autocomplete = AutocompleteStore(stores.api, shell)
        self.model = ""
        """The model tools are to use; empty: the gateway's usual one."""
        self._details: dict[str, ToolDetail] = {}
        self.preflights: dict[str, ToolPreflight] = {}
        """By tool: how the model that is chosen would do with it."""
        self._preflight_call: GatewayCall | None = None
        self.measuring: BenchmarkChanged | None = None
        """How far a prompt like `measured_tool`'s has come with the model; None while none is measured here."""
        self.measured_tool = ""
        self.measuring_error: tuple[str, ErrorBody] | None = None
        """The tool whose prompt was measured last, and why nothing came of it."""
        shell.event_received.connect(self._follow_measuring)
        self.tools.changed.connect(self.changed)
        shell.connected.connect(self._fetch_preflights)
        if shell.is_connected:
            self._fetch_preflights()
        self.library.changed.connect(self.changed)
        self.autocomplete.changed.connect(self.changed)
        shell.add_commands(self.list_commands)

    @property
    def local_tools(self) -> list[ToolInfo]:
        """The tools found on this computer, and those that are wired all the same."""
        return [tool for tool in self.tools.items if tool.found or tool.wired]

    @property
    def other_tools(self) -> list[ToolInfo]:
        """The tools that were not found."""
        return [tool for tool in self.tools.items if not tool.found and not tool.wired]

    def model_options(self) -> list[tuple[str, str]]:
        """Return the models to choose from, each with its words."""
        able = [info for info in self.library.items if info.chats and not info.problem]
        return [("", tr("Your usual model")), *((info.name, phrases.model_label(info)) for info in able)]

    def completion_options(self) -> list[tuple[str, str]]:
        """Return the models that complete code, each with its words, and what uses none."""
        state = self.autocomplete.value
        names = [] if state is None else [*state.choices]
        if state is not None and state.model and state.model not in names:
            names.append(state.model)
        labels = {info.name: phrases.model_label(info) for info in self.library.items}
        return [("", tr("No code completion")), *((name, labels.get(name, name)) for name in names)]

    def choose_completion(self, model: str) -> None:
        """Have another model complete code, or none; changes of tools that are open are asked for anew."""
        self._api.post(
            "/autocomplete",
            ChooseAutocomplete(model=model),
            kind=Autocomplete,
            then=self._show_completion,
            on_error=self._refuse_completion,
        )

    def show_models(self) -> None:
        """Go where models are looked for."""
        self._shell.show_page(PageId.MODELS)

    def _show_completion(self, state: Autocomplete) -> None:
        self.autocomplete.replace(state)
        self._preview_again()

    def _refuse_completion(self, error: ErrorBody) -> None:
        self.toast_requested.emit(error.sentence, None)
        self.autocomplete.read()

    def _preview_again(self) -> None:
        for tool, detail in list(self._details.items()):
            if detail.change is not None and not detail.change.is_written:
                self.preview_change(tool)

    def detail_of(self, tool: str) -> ToolDetail:
        """Return what stands below a tool's row."""
        return self._details.get(tool, NO_DETAIL)

    def choose_model(self, model: str) -> None:
        """Take another model; a change that is open is asked for anew."""
        self.model = model
        self._fetch_preflights()
        self._preview_again()

    def _fetch_preflights(self) -> None:
        """Ask how the model would do with each tool; without an answer nothing is said of it."""
        if self._preflight_call is not None:
            self._preflight_call.cancel()
        path = f"/preflights?model={quote_segment(self.model)}"
        self._preflight_call = self._api.get(
            path, list[ToolPreflight], self._show_preflights, lambda _: self._show_preflights([])
        )

    def _show_preflights(self, preflights: list[ToolPreflight]) -> None:
        self.preflights = {preflight.tool: preflight for preflight in preflights}
        self.changed.emit()

    def measure_tool(self, tool: str) -> None:
        """Have the model read a prompt as large as the tool's, and answer tasks by calls; one tool at a time."""
        preflight = self.preflights.get(tool)
        if preflight is None or self.measuring is not None:
            return
        self.measured_tool, self.measuring_error = tool, None
        self.measuring = BenchmarkChanged(model=preflight.model, stage=tr("Getting ready"), fraction=0.0)
        self.changed.emit()
        settings = tool_benchmark(tool)
        self._api.post(
            "/benchmarks",
            StartBenchmark(model=preflight.model, settings=settings),
            kind=BenchmarkChanged,
            then=lambda _: None,
            on_error=self._end_measuring,
        )

    def stop_measuring(self) -> None:
        """Stop what `measure_tool` began; what was measured before stays."""
        self._api.send_request(
            "DELETE", "/benchmarks/job", None, kind=NoneType, then=lambda _: None, on_error=self._end_measuring
        )

    def dismiss_measuring(self) -> None:
        """Say no more about what went wrong with the last measurement."""
        self.measuring_error = None
        self.changed.emit()

    def _follow_measuring(self, event: Event) -> None:
        if not isinstance(event, BenchmarkChanged) or self.measuring is None:
            return
        if not event.done:
            self.measuring = event
            self.changed.emit()
        elif event.error and event.code != "cancelled":
            self._end_measuring(ErrorBody(code=event.code, sentence=event.error))
        else:
            self._end_measuring(None)

    def _end_measuring(self, error: ErrorBody | None) -> None:
        if error is not None:
            self.measuring_error = (self.measured_tool, error)
        self.measuring, self.measured_tool = None, ""
        self._fetch_preflights()
        self.changed.emit()

    def preview_change(self, tool: str) -> None:
        """Show what wiring a tool would change."""
        self._post_wiring(tool, "preview", self._show_preview)

    def connect_tool(self, tool: str) -> None:
        """Wire a tool."""
        self._post_wiring(tool, "connect", self._finish_wiring)

    def undo_wiring(self, tool: str) -> None:
        """Put a tool's file back."""
        self._mark_busy(tool)
        self._api.post(
            f"/tools/{tool}/undo",
            None,
            kind=ToolChange,
            then=partial(self._finish_undo, tool),
            on_error=partial(self._show_error, tool),
        )

    def probe_tool(self, tool: str) -> None:
        """Have the gateway asked as the tool asks, for the model the tool is wired to."""
        self._mark_busy(tool)
        wired_model = next((info.model for info in self.tools.items if info.id == tool), "")
        self._api.post(
            f"/tools/{tool}/probe",
            WireTool(model=wired_model or self.model),
            kind=ToolProbe,
            then=partial(self._show_probe, tool),
            on_error=partial(self._show_error, tool),
        )

    def close_detail(self, tool: str) -> None:
        """Put away what stands below a row."""
        self._set_detail(tool, NO_DETAIL)

    def list_commands(self) -> list[Command]:
        """Return what the palette offers for each tool."""
        return [
            *(
                Command(tr("Connect {name}", name=tool.name), partial(self._show_and_preview, tool.id), "plug")
                for tool in self.tools.items
            ),
            *(
                Command(
                    tr("Undo the connection of {name}", name=tool.name), partial(self._show_and_undo, tool.id), "undo-2"
                )
                for tool in self.tools.items
                if tool.can_undo
            ),
        ]

    def _show_and_preview(self, tool: str) -> None:
        self._shell.show_page(PageId.CONNECT)
        self.preview_change(tool)

    def _show_and_undo(self, tool: str) -> None:
        self._shell.show_page(PageId.CONNECT)
        self.undo_wiring(tool)

    def _post_wiring(self, tool: str, verb: str, then: Callable[[str, ToolChange], None]) -> None:
        self._mark_busy(tool)
        self._api.post(
            f"/tools/{tool}/{verb}",
            WireTool(model=self.model),
            kind=ToolChange,
            then=partial(then, tool),
            on_error=partial(self._show_error, tool),
        )

    def _mark_busy(self, tool: str) -> None:
        self._set_detail(tool, replace(self.detail_of(tool), is_busy=True, error=None, probe=None))

    def _show_preview(self, tool: str, change: ToolChange) -> None:
        self._set_detail(tool, ToolDetail(change=change))

    def _finish_wiring(self, tool: str, change: ToolChange) -> None:
        self._set_detail(tool, ToolDetail(change=change))
        self.tools.read()
        if change.is_written:
            self.toast_requested.emit(
                tr("{name} was connected to {model}.", name=change.name, model=change.model),
                partial(self.undo_wiring, tool),
            )

    def _finish_undo(self, tool: str, change: ToolChange) -> None:
        self._set_detail(tool, NO_DETAIL)
        self.tools.read()
        self.toast_requested.emit(tr("{name}'s settings were restored.", name=change.name), None)

    def _show_probe(self, tool: str, probe: ToolProbe) -> None:
        self._set_detail(tool, ToolDetail(probe=probe))

    def _show_error(self, tool: str, error: ErrorBody) -> None:
        self._set_detail(tool, ToolDetail(error=error))

    def _set_detail(self, tool: str, detail: ToolDetail) -> None:
        self._details[tool] = detail
        self.changed.emit()
