"""One model's settings, in place of the list: how it runs, its sampling, what goes with it, its template, its names."""

from pathlib import Path

from PySide6.QtCore import QDir, Qt
from PySide6.QtGui import QGuiApplication, QKeyEvent
from PySide6.QtWidgets import QFileDialog, QSizePolicy, QWidget

from app.core.translation import LazyText, tr
from app.gui import phrases
from app.gui.screens.benchmarks.plot_view import PlotCard
from app.gui.screens.models import model_settings
from app.gui.screens.models.across_section import AcrossSection
from app.gui.screens.models.exl3_section import Exl3Section
from app.gui.screens.models.loss_section import LossSection
from app.gui.screens.models.model_setting_rows import (
    ArgumentsRow,
    ChoiceRow,
    CodeRow,
    DraftRow,
    EngineRow,
    LoraRow,
    ModelSettingRow,
    NumberRow,
    ParserRow,
    SamplingRow,
    SwitchRow,
    TemplateRow,
)
from app.gui.screens.models.model_settings import ModelSettingsModel
from app.gui.theme.theme import Theme
from app.gui.widgets.buttons import Button, ButtonLook, IconButton
from app.gui.widgets.fields import ListField
from app.gui.widgets.flow_layout import FlowLayout
from app.gui.widgets.layout import Hairline, HBox, Surface, VBox, clear_layout
from app.gui.widgets.panels import ErrorPanel, Section
from app.gui.widgets.rows import IconLabel, RowList
from app.gui.widgets.status import Skeleton
from app.gui.widgets.text import ElidedLabel, Paragraph

_KV_HELP = LazyText("Smaller types leave room for more context, and lose a little quality.")
_FLASH_HELP = LazyText("Attention in pieces that stay in fast memory. Measuring says whether it pays here.")
_PIN_HELP = LazyText("It is not unloaded when idle or to make room for another model.")
_LORA_HELP = LazyText("Files that change how it writes. All that are enabled are applied.")
_CALLS_HELP = LazyText(
    "The parser that finds tool calls, by the engine's name for it. Empty: chosen by the model's chat template."
)
_REASONING_HELP = LazyText("The parser that finds reasoning, by the engine's name for it. Empty: Roundhouse finds it.")
_RUNS_AS_BEFORE = LazyText("It is running with its previous settings. Changes take effect once it is loaded again.")


class ModelSettingsView(QWidget):
    """Shows a `ModelSettingsModel`; Escape and the arrow lead back to the list."""

    def __init__(self, theme: Theme, model: ModelSettingsModel) -> None:
        super().__init__()
        self._theme, self.model = theme, model
        self.shown_model = ""
        """The model that is, or was last, shown."""
        self.setAccessibleName(tr("Settings of a model"))
        box = VBox(theme, self, gap=16)
        self._title = ElidedLabel(theme, role="section")
        is_mirrored = QGuiApplication.layoutDirection() == Qt.LayoutDirection.RightToLeft
        arrow = "chevron-right" if is_mirrored else "chevron-left"
        self.back = IconButton(theme, arrow, tr("Back to the models"), action=model.close_model)
        box.addLayout(self._make_head())
        self._error, self._again = ErrorPanel(theme), self._make_hint()
        self._skeleton = Skeleton(theme, 6, is_card=True)
        self._content = QWidget()
        for widget in (self._error, self._again, self._skeleton, self._content):
            box.addWidget(widget)
        self._build_sections()
        model.changed.connect(self._show_settings)
        model.opened.connect(self._take_focus)

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802 -- Qt's name
        """Leave on Escape."""
        if event.key() == Qt.Key.Key_Escape:
            self.model.close_model()
        else:
            super().keyPressEvent(event)

    def _make_head(self) -> HBox:
        line = HBox(self._theme, gap=8)
        line.addWidget(self.back)
        line.addWidget(self._title, 1)
        self._reset = Button(
            self._theme, tr("Reset all"), look=ButtonLook.QUIET, icon="rotate-ccw", action=self.model.reset_settings
        )
        line.addWidget(self._reset)
        return line

    def _make_hint(self) -> QWidget:
        sheet = Surface(self._theme, fill="warn-soft", outline="")
        sheet.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        line = HBox(self._theme, sheet, margins=(16, 12, 12, 12), gap=12)
        line.addWidget(IconLabel(self._theme, "info", color="warn"))
        line.addWidget(Paragraph(self._theme, _RUNS_AS_BEFORE.tr()), 1)
        line.addWidget(Button(self._theme, tr("Load again"), icon="rotate-ccw", action=self.model.reload_model))
        return sheet

    def _build_sections(self) -> None:
        theme, model = self._theme, self.model
        self.numbers = {limits.name: NumberRow(theme, model, limits) for limits in model_settings.NUMBERS}
        self._sections = (
            self._make_running(),
            self._make_sampling(),
            self._make_companions(),
            self._make_template(),
            self._make_unloading(),
            self._make_names(),
            self._make_code(),
            self._make_parsers(),
            self._make_arguments(),
        )
        self.across, self.history = AcrossSection(theme, model.across), self._make_history()
        self.loss, self.exl3 = LossSection(theme, model.loss), Exl3Section(theme, model.exl3)
        box = VBox(theme, self._content, gap=16)
        for section in (*self._sections, self.across, self.history, self.loss, self.exl3):
            box.addWidget(section)

    def _make_choice(self, name: str, title: str, help_: str) -> ChoiceRow:
        return ChoiceRow(self._theme, self.model, name, title=title, help_=help_)

    def _make_running(self) -> Section:
        self.engine = EngineRow(self._theme, self.model)
        self.kv_type = self._make_choice("kv_type", tr("KV cache"), _KV_HELP.tr())
        self.flash_attention = self._make_choice("flash_attention", tr("Flash attention"), _FLASH_HELP.tr())
        self.gpu = self._make_choice("gpu", tr("Graphics card"), tr("The card it is put on."))
        self._running_section = self._make_section(
            tr("How it runs"),
            self.engine,
            self.numbers["context"],
            self.numbers["slots"],
            self.kv_type,
            self.numbers["threads"],
            self.numbers["batch_tokens"],
            self.flash_attention,
            self.gpu,
            self.numbers["gpu_layers"],
            self.numbers["cpu_moe_layers"],
            self.numbers["gpu_memory_fraction"],
        )
        return self._running_section

    def _make_sampling(self) -> Section:
        theme, model = self._theme, self.model
        self.uses_own = SwitchRow(theme, model, "uses_model_sampling", title=tr("What the model recommends"), help_="")
        self.sampling = SamplingRow(theme, model)
        self.thinking = self._make_choice(
            "thinking", tr("Thinking"), tr("For requests and chats that do not say how much to think.")
        )
        rows = (self.uses_own, self.sampling, self.thinking, self.numbers["thinking_budget"])
        self._sampling = self._make_section(tr("Sampling"), *rows)
        return self._sampling

    def _make_template(self) -> Section:
        self.template = TemplateRow(self._theme, self.model)
        self._template = self._make_section(tr("Chat template"), self.template)
        return self._template

    def _make_unloading(self) -> Section:
        self.pinned = SwitchRow(self._theme, self.model, "pinned", title=tr("Keep loaded"), help_=_PIN_HELP.tr())
        return self._make_section(tr("Unloading"), self.pinned, self.numbers["idle_minutes"])

    def _make_code(self) -> Section:
        self.code = CodeRow(self._theme, self.model)
        self._code = self._make_section(tr("Custom code"), self.code)
        return self._code

    def _make_parsers(self) -> Section:
        theme, model = self._theme, self.model
        self.parsers = (
            ParserRow(theme, model, "tool_parser", title=tr("Tool call parser"), help_=_CALLS_HELP.tr()),
            ParserRow(theme, model, "reasoning_parser", title=tr("Reasoning parser"), help_=_REASONING_HELP.tr()),
        )
        self._parsers = self._make_section(tr("Tools and reasoning"), *self.parsers)
        return self._parsers

    def _make_arguments(self) -> Section:
        self.arguments = ArgumentsRow(self._theme, self.model)
        self._arguments = self._make_section(tr("Command line"), self.arguments)
        return self._arguments

    def _make_history(self) -> Section:
        section = Section(self._theme, tr("Measured here"))
        self._plotted_ids: list[str] = []
        self.measurement = Paragraph(self._theme)
        results = Button(
            self._theme, tr("All results"), look=ButtonLook.QUIET, icon="gauge", action=self.model.show_results
        )
        self._plots = VBox(self._theme, gap=16)
        buttons = FlowLayout(self._theme)
        buttons.addWidget(results)
        section.body.addWidget(self.measurement)
        section.body.addLayout(buttons)
        section.body.addLayout(self._plots)
        return section

    def _make_section(self, title: str, *rows: QWidget) -> Section:
        section, sheet = Section(self._theme, title), Surface(self._theme)
        sheet.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        box = VBox(self._theme, sheet, gap=0)
        for at, row in enumerate(rows):
            if at:
                box.addWidget(Hairline(self._theme))
            box.addWidget(row)
        section.body.addWidget(sheet)
        return section

    def _make_companions(self) -> Section:
        self.draft = DraftRow(self._theme, self.model)
        self.projector = self._make_choice("projector", tr("Projector"), tr("The file that lets it read images."))
        self.loras = RowList(self._theme, tr("LoRA adapters"))
        self.loras.fill = "sunken"
        row = ModelSettingRow(self._theme, self.model, "loras", title=tr("LoRA adapters"), help_=_LORA_HELP.tr())
        add = Button(
            self._theme, tr("Add a file"), icon="file-plus", name=tr("Add a LoRA adapter"), action=self._ask_lora
        )
        row.tools.addWidget(add)
        row.outer.addWidget(self.loras)
        row.add_problem_line()
        self._companions = self._make_section(tr("What goes with it"), self.draft, self.projector, row)
        return self._companions

    def _make_names(self) -> Section:
        self._names_row = ModelSettingRow(
            self._theme,
            self.model,
            "aliases",
            title=tr("Other names"),
            help_=tr("Programs can request it by these names too; * matches anything, as in gpt-*."),
        )
        self.names = ListField(self._theme, tr("Other names"))
        self.names.changed.connect(self.model.set_names)
        self._names_row.outer.addWidget(self.names)
        self._names_row.add_problem_line()
        return self._make_section(tr("Names"), self._names_row)

    def _take_focus(self) -> None:
        if self.model.model is not None:
            self.shown_model = self.model.model.name
        self.back.setFocus(Qt.FocusReason.OtherFocusReason)

    def _ask_lora(self) -> None:
        path, _ = QFileDialog.getOpenFileName(
            self, tr("Add a LoRA adapter"), QDir.homePath(), tr("Adapters (*.gguf adapter_model.safetensors)")
        )
        if path:
            self.model.apply_lora(str(Path(path)), is_used=True)

    def _show_settings(self) -> None:
        model, choices = self.model, self.model.choices
        self._title.setText(
            tr("Settings of {title}", title=phrases.model_title(model.model)) if model.model is not None else ""
        )
        self._skeleton.setVisible(choices is None and model.error is None)
        self._content.setVisible(choices is not None)
        self._again.setVisible(choices is not None and choices.needs_reload)
        self._reset.setVisible(choices is not None)
        if model.error is not None:
            self._error.show_error(model.error, tr("Try again"), model.fetch_choices)
        else:
            self._error.hide()
        if choices is None or model.model is None:
            return
        self.engine.show_options(model_settings.engine_options(choices))
        for button in (self.engine.race, self.engine.tune):
            button.setVisible(model.model.chats and not model.model.is_reranker)
        self.kv_type.show_options([(value, words.tr()) for value, words in model_settings.KV_TYPES])
        self.flash_attention.show_options([(value, words.tr()) for value, words in model_settings.FLASH_ATTENTION])
        self.gpu.show_options(model_settings.gpu_options(choices))
        self.thinking.show_options(model_settings.thinking_options(choices))
        self.draft.show_options(model_settings.draft_options(choices))
        self.draft.show_value()
        self.projector.show_options(model_settings.projector_options(choices))
        self.uses_own.help.setText(model_settings.recommendation_text(choices))
        rows = (self.uses_own, self.sampling, self.template, self.pinned, self.code, self.arguments)
        for row in (*self.numbers.values(), *rows, *self.parsers):
            row.show_value()
        self.names.set_items(choices.aliases)
        self._show_history()
        self._show_loras()
        self._show_parts()

    def _show_history(self) -> None:
        plots, measurement = self.model.history_plots, self.model.last_measurement
        self.history.setVisible(bool(plots or measurement))
        self.measurement.setText(measurement)
        receipt_ids = [receipt.id for receipt in self.model.history]
        if receipt_ids == self._plotted_ids:
            return
        self._plotted_ids = receipt_ids
        clear_layout(self._plots)
        for plot in plots:
            self._plots.addWidget(PlotCard(self._theme, plot))

    def _show_loras(self) -> None:
        assert self.model.choices is not None  # noqa: S101 -- the caller looked
        loras = model_settings.list_loras(self.model.choices)
        self.loras.sync(
            loras, lambda companion: LoraRow(self._theme, self.model.apply_lora, companion), LoraRow.show_companion
        )
        self.loras.setVisible(bool(loras))

    def _show_parts(self) -> None:
        """Leave out what this kind of model has nothing of."""
        model = self.model.model
        assert model is not None  # noqa: S101 -- as above
        self._running_section.setVisible(not model.attached)
        self._sampling.setVisible(model.chats)
        self._companions.setVisible(model.format == "gguf" and model.chats)
        self._template.setVisible(model.chats and not model.attached)
        choices = self.model.choices
        assert choices is not None  # noqa: S101 -- as above
        own = choices.settings
        self.thinking.setVisible(choices.answers.thinks or own.thinking is not None)
        self.numbers["thinking_budget"].setVisible(choices.answers.takes_budget or own.thinking_budget is not None)
        for name in ("gpu_memory_fraction", "threads", "batch_tokens", "gpu_layers", "cpu_moe_layers"):
            self.numbers[name].setVisible(model_settings.shows_setting(choices, name))
        self.gpu.setVisible(bool(choices.gpus) or choices.settings.gpu is not None)
        self.flash_attention.setVisible(model_settings.shows_setting(choices, "flash_attention"))
        self._code.setVisible(choices.brings_code or model_settings.shows_setting(choices, "allows_code"))
        self._parsers.setVisible(
            model.chats and model_settings.shows_setting(choices, "tool_parser", "reasoning_parser")
        )
        self._arguments.setVisible(not model.attached)
