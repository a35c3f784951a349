"""The machine page: what the computer is, drawn to scale, and the engine that follows from it, with the reasons."""

from PySide6.QtCore import QDateTime, QLocale, Qt
from PySide6.QtWidgets import QSizePolicy, QWidget

from app.core.engines import EngineChoice
from app.core.machine import Machine, ProbeReport
from app.gui.net.api import GatewayApi
from app.gui.screens.machine.model import MachineModel, fact_rows, said, source
from app.gui.screens.machine.parts import Cores, FactView, PoolView, ReasonView
from app.gui.shell.contract import Shell, Task
from app.gui.theme.theme import Theme
from app.gui.widgets.layout import Column, Line, Surface
from app.gui.widgets.panels import ErrorPanel, Fold, Page, Section
from app.gui.widgets.press import Button
from app.gui.widgets.rows import Picture, Row, RowList, Tag
from app.gui.widgets.status import Dot, Skeleton
from app.gui.widgets.text import ElidedLabel, Label, Paragraph

_OUTCOMES = {
    "ok": ("ok", "answered"),
    "absent": ("edge", "not on this machine"),
    "timeout": ("warn", "took too long"),
    "crashed": ("bad", "crashed"),
}


class MachineScreen(Page):
    """Shows a `MachineModel`."""

    def __init__(self, theme: Theme, api: GatewayApi, shell: Shell) -> None:
        super().__init__(theme, "Machine")
        self.model = MachineModel(api, shell)
        self._when = Label(theme, role="meta", color="ink-2")
        self._again = Button(theme, "Look again", icon="refresh-cw", action=self.model.look_again)
        self.head.addWidget(self._when)
        self.head.addWidget(self._again)
        self._error = ErrorPanel(theme)
        self._skeleton = Skeleton(theme, 6, is_card=True)
        self._content = QWidget()
        self._content.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Minimum)
        box = Column(theme, self._content, gap=16)
        for part in (self._choice_card(), self._drawing_card(), self._facts_section(), self._probes_section()):
            box.addWidget(part)
        for widget in (self._error, self._skeleton, self._content):
            self.body.addWidget(widget)
        self.body.addStretch(1)
        self.model.changed.connect(self._show)
        shell.task_asked.connect(lambda task: self.model.look_again() if task == Task.LOOK_AGAIN else None)
        self._show()

    def _choice_card(self) -> QWidget:
        theme = self.theme
        self._card = Surface(theme)
        self._card.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        box = Column(theme, self._card, margins=(24, 24, 24, 16), gap=12)
        lead = Line(theme, gap=12)
        lead.addWidget(Picture(theme, "train-front", color="accent-ink", size=24), 0, Qt.AlignmentFlag.AlignTop)
        self._sentence = Paragraph(theme, role="section")
        lead.addWidget(self._sentence, 1)
        self._backend = Column(theme, gap=0)
        lead.addLayout(self._backend)
        box.addLayout(lead)
        self._reasons = RowList(theme, "Reasons", inset=0)
        self._reasons.fill, self._reasons.outline = "", ""
        below = Line(theme, margins=(36, 0, 0, 0))
        below.addWidget(self._reasons)
        box.addLayout(below)
        self._wanted = Surface(theme, fill="sunken", outline="")
        line = Line(theme, self._wanted, margins=(16, 12, 16, 12), gap=12)
        line.addWidget(Picture(theme, "lightbulb", color="accent-ink"), 0, Qt.AlignmentFlag.AlignTop)
        words = Column(theme, gap=2)
        self._wanted_title = Paragraph(theme, weight=500)
        self._wanted_why = Paragraph(theme, color="ink-2")
        words.addWidget(self._wanted_title)
        words.addWidget(self._wanted_why)
        line.addLayout(words, 1)
        box.addWidget(self._wanted)
        return self._card

    def _drawing_card(self) -> QWidget:
        theme = self.theme
        card = Surface(theme)
        card.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        box = Column(theme, card, margins=(24, 24, 24, 24), gap=24)
        cpu = Column(theme, gap=8)
        head = Line(theme, gap=8)
        head.addWidget(Label(theme, "Processor", weight=500))
        self._cpu = ElidedLabel(theme, color="ink-2")
        self._core_count = Label(theme, weight=500)
        head.addWidget(self._cpu, 1)
        head.addWidget(self._core_count)
        cpu.addLayout(head)
        self._cores = Cores(theme)
        cpu.addWidget(self._cores)
        box.addLayout(cpu)
        self._pools_box = Column(theme, gap=24)
        self._pools: dict[int, PoolView] = {}
        box.addLayout(self._pools_box)
        return card

    def _facts_section(self) -> QWidget:
        section = Section(self.theme, "What was found")
        section.head.addWidget(Label(self.theme, "Point at a fact to see its source", role="meta", color="ink-2"))
        self._facts = RowList(self.theme, "Facts")
        section.body.addWidget(self._facts)
        return section

    def _probes_section(self) -> QWidget:
        self._probes = RowList(self.theme, "Probes")
        return Fold(self.theme, "How it was found", self._probes)

    def _show(self) -> None:
        model = self.model
        self._again.setEnabled(not model.is_reading)
        self._skeleton.setVisible(model.machine is None and model.error is None)
        self._content.setVisible(model.machine is not None)
        if model.error is not None:
            self._error.say(model.error, "Try again", model.read)
        else:
            self._error.hide()
        if model.machine is not None:
            self._show_machine(model.machine)
        self._card.setVisible(model.choice is not None)
        if model.choice is not None:
            self._show_choice(model.choice)

    def _show_choice(self, choice: EngineChoice) -> None:
        self._sentence.setText(choice.sentence)
        if not self._backend.count() and choice.backend:
            tag = Tag(self.theme, f"{choice.name} · {choice.backend.upper()}", color="accent-ink", fill="accent-soft")
            self._backend.addWidget(tag, 0, Qt.AlignmentFlag.AlignTop)
        self._reasons.sync(
            {reason.text: reason for reason in choice.reasons},
            lambda reason: ReasonView(self.theme, reason),
            ReasonView.show_reason,
        )
        self._reasons.setVisible(bool(choice.reasons))
        self._wanted.setVisible(bool(choice.wanted))
        self._wanted_title.setText(f"{choice.wanted} would suit this machine better, and is not available yet")
        self._wanted_why.setText(choice.wanted_why)

    def _show_machine(self, machine: Machine) -> None:
        at = QDateTime.fromSecsSinceEpoch(int(machine.probed_at))
        self._when.setText(f"Looked at {QLocale().toString(at.time(), QLocale.FormatType.ShortFormat)}")
        cpu = machine.cpu
        self._cpu.setText(said(cpu.model))
        cores = cpu.physical_cores.value or cpu.logical_cores.value or 0
        usable = cpu.usable_cores.value if cpu.usable_cores.value is not None else float(cores)
        self._core_count.setText(f"{cores} cores" if cores else "cores unknown")
        self._cores.show_cores(cores, min(usable, cores), source(cpu.usable_cores))
        for at_place, pool in enumerate(self.model.pools()):
            if at_place not in self._pools:
                self._pools[at_place] = PoolView(self.theme, pool)
                self._pools_box.addWidget(self._pools[at_place])
            self._pools[at_place].show_pool(pool)
        rows = {f"{place} {row.label}": row for place, row in enumerate(fact_rows(machine))}
        self._facts.sync(rows, lambda row: FactView(self.theme, row), FactView.show_row)
        self._probes.sync({probe.name: probe for probe in machine.probes}, self._probe_row, _show_probe)

    def _probe_row(self, probe: ProbeReport) -> Row:
        row = Row(self.theme)
        color, words = _OUTCOMES.get(probe.outcome, ("warn", probe.outcome))
        dot = Dot(self.theme)
        dot.say(color, words)
        row.lead.addWidget(dot)
        row.tail.addWidget(Label(self.theme, f"{probe.seconds:.2f} s", role="meta", color="ink-2"))
        return row


def _show_probe(row: Row, probe: ProbeReport) -> None:
    _, words = _OUTCOMES.get(probe.outcome, ("warn", probe.outcome))
    row.say(f"{probe.name}: {words}", probe.detail)
