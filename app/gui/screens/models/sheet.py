"""A repository looked at: every variant as a rung from large to small, the recommended one filled and why."""

from functools import partial
from pathlib import PurePosixPath

from PySide6.QtCore import QUrl
from PySide6.QtGui import QDesktopServices
from PySide6.QtWidgets import QSizePolicy, QWidget

from app.core import words
from app.core.downloads import DownloadState
from app.core.hub import HubCompanion, HubModel, HubVariant
from app.gui.net.stores import COMING_STATES
from app.gui.screens.models import finding
from app.gui.screens.models.fetching import Fetching, fraction
from app.gui.screens.models.finding import Sheet
from app.gui.screens.settings.token import HUB_TOKEN
from app.gui.shell.contract import Page, Shell
from app.gui.theme.theme import Theme
from app.gui.widgets.flow import Flow
from app.gui.widgets.layout import Column
from app.gui.widgets.panels import ErrorPanel
from app.gui.widgets.press import Button, Look
from app.gui.widgets.rows import Row, RowList, Tag
from app.gui.widgets.status import Dot, Skeleton
from app.gui.widgets.text import Label, Paragraph


class SheetView(QWidget):
    """Shows a `Sheet` below its card."""

    def __init__(self, theme: Theme, fetching: Fetching, shell: Shell) -> None:
        super().__init__()
        self._theme, self._fetching, self._shell = theme, fetching, shell
        self._model: HubModel | None = None
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        box = Column(theme, self, margins=(16, 0, 16, 12), gap=8)
        self._facts = Paragraph(theme, role="meta", color="ink-2")
        self._gate, self._note = (
            Paragraph(theme, role="meta", color="warn"),
            Paragraph(theme, role="meta", color="warn"),
        )
        self._why = Paragraph(theme, role="meta", color="ink")
        self._skeleton, self._error = Skeleton(theme, is_card=False), ErrorPanel(theme)
        self._list = RowList(theme, "Variants")
        self._list.fill = "sunken"
        self._with_it = Paragraph(theme, role="meta", color="ink-2")
        self._companions = RowList(theme, "Goes with it")
        self._companions.fill = "sunken"
        buttons = Flow(theme, gap=8)
        self._page = Button(theme, "Open the model page", look=Look.QUIET, icon="external-link", action=self._open_page)
        self._token = Button(
            theme, "Enter a token", look=Look.QUIET, name="Enter a token for the hub", action=self._ask_token
        )
        buttons.addWidget(self._page)
        buttons.addWidget(self._token)
        for widget in (self._facts, self._gate, self._note, self._error, self._skeleton, self._why, self._list):
            box.addWidget(widget)
        for widget in (self._with_it, self._companions):
            box.addWidget(widget)
        box.addLayout(buttons)

    def show_sheet(self, sheet: Sheet) -> None:
        """Show what is known now."""
        model = self._model = sheet.model
        self._skeleton.setVisible(model is None and sheet.error is None)
        self._list.setVisible(model is not None)
        self._page.setVisible(model is not None)
        self._token.setVisible(model is not None and bool(model.gate))
        if sheet.error is not None:
            self._error.say(sheet.error)
        else:
            self._error.hide()
        _say(self._facts, _facts(model))
        _say(self._gate, model.gate if model else "")
        _say(self._note, _note(model))
        _say(self._why, _why(model))
        if model is not None:
            self._list.sync(
                {f"{one.format} {one.quantization} {one.revision} {at}": one for at, one in enumerate(model.variants)},
                lambda one: VariantRow(self._theme, self._fetching, model, one),
                VariantRow.show_variant,
            )
        self._show_companions(model)

    def _show_companions(self, model: HubModel | None) -> None:
        found = {one.path: one for one in model.companions} if model is not None else {}
        _say(self._with_it, finding.with_it(model) if model is not None else "")
        self._companions.setVisible(bool(found))
        if model is not None:
            self._companions.sync(
                found, lambda one: CompanionRow(self._theme, self._fetching, model, one), CompanionRow.show_companion
            )

    def _ask_token(self) -> None:
        self._shell.ask(Page.SETTINGS, HUB_TOKEN)

    def _open_page(self) -> None:
        if self._model is not None:
            QDesktopServices.openUrl(QUrl(self._model.page))


class VariantRow(Row):
    """One rung of the ladder."""

    def __init__(self, theme: Theme, fetching: Fetching, model: HubModel, variant: HubVariant) -> None:
        super().__init__(theme)
        self._fetching, self._name = fetching, finding.pull_name(model, variant)
        self._repository = model.repository
        title = variant.quantization or variant.format
        if variant.is_recommended:
            self.add_tag(Tag(theme, "Recommended", color="accent-ink", fill="accent-soft"))
        self._dot, self._fits = Dot(theme), Label(theme, role="meta", color="ink-2")
        self.button = Button(
            theme,
            "Download",
            look=Look.PRIMARY if variant.is_recommended else Look.PLAIN,
            widest="Downloading",
            name=f"Download {title}",
            action=partial(fetching.pull, self._name),
        )
        for widget in (self._dot, self._fits, self.button):
            self.tail.addWidget(widget)

    def show_variant(self, variant: HubVariant) -> None:
        """Show what is so now."""
        self.say(variant.quantization or variant.format, finding.variant_facts(variant))
        color, word = finding.fit(variant)
        self._dot.say(color, word)
        self._fits.setText(word)
        words = self._words(variant)
        self.button.setText(words)
        self.button.setEnabled(words == "Download")

    def _words(self, variant: HubVariant) -> str:
        download = self._fetching.of_variant(self._repository, variant.quantization, variant.revision)
        state = download.state if download is not None else None
        if variant.is_here or state is DownloadState.DONE:
            return "Installed"
        if download is not None and state is DownloadState.RUNNING:
            return f"{fraction(download) or 0.0:.0%}"
        if state in COMING_STATES or self._name in self._fetching.asked:
            return "Downloading"
        return "Download"


class CompanionRow(Row):
    """A draft or a LoRA adapter, which comes only where it is asked for."""

    def __init__(self, theme: Theme, fetching: Fetching, model: HubModel, one: HubCompanion) -> None:
        super().__init__(theme)
        self._fetching, self._repository = fetching, model.repository
        self._name = f"{model.repository}/{one.path}"
        pull = partial(fetching.pull, self._name)
        self.button = Button(theme, "Download", widest="Downloading", name=f"Download {one.path}", action=pull)
        self.tail.addWidget(self.button)

    def show_companion(self, one: HubCompanion) -> None:
        """Show what is so now."""
        self.say(PurePosixPath(one.path).name, finding.companion_facts(one))
        words = self._words(one)
        self.button.setText(words)
        self.button.setEnabled(words == "Download")

    def _words(self, one: HubCompanion) -> str:
        download = self._fetching.of_file(self._repository, one.path)
        if one.is_here or (download is not None and download.state is DownloadState.DONE):
            return "Installed"
        is_coming = download is not None and download.state in COMING_STATES
        return "Downloading" if is_coming or self._name in self._fetching.asked else "Download"


def _say(label: Label, text: str) -> None:
    label.setText(text)
    label.setVisible(bool(text))


def _note(model: HubModel | None) -> str:
    if model is None:
        return ""
    return " ".join(filter(None, [model.note, words.BRINGS_CODE if model.needs_remote_code else ""]))


def _facts(model: HubModel | None) -> str:
    if model is None:
        return ""
    said = [model.repository, *model.capabilities]
    if model.licence:
        said.append(model.licence)
    if model.likes:
        said.append(f"{finding.count(model.likes)} likes")
    return " · ".join(said)


def _why(model: HubModel | None) -> str:
    best = next((one for one in model.variants if one.is_recommended), None) if model else None
    return f"{best.quantization or best.format} is recommended: {best.reason}" if best is not None else ""
