"""One model of Discover at a glance: its size, whether it fits, how fast it will be; a sheet below when asked.

A repository looked at: every variant as a rung from large to small, the recommended one filled and why.
"""

from collections.abc import Callable
from functools import partial
from pathlib import PurePosixPath
from typing import NamedTuple

from PySide6.QtCore import QUrl
from PySide6.QtGui import QDesktopServices
from PySide6.QtWidgets import QSizePolicy, QWidget

from app.core import words
from app.core.downloads import DownloadState
from app.core.hub import HubCard, HubCompanion, HubModel, HubVariant
from app.core.translation import tr, tr_plural
from app.gui.net.remote_lists import COMING_STATES
from app.gui.screens.models import hub_search
from app.gui.screens.models.downloads import DownloadsModel, download_fraction
from app.gui.screens.models.hub_search import HubSearchModel, RepositorySheet
from app.gui.screens.settings.token_card import HUB_TOKEN
from app.gui.shell.contract import PageId, Shell
from app.gui.theme.theme import Theme
from app.gui.widgets.buttons import Button, ButtonLook, Chip
from app.gui.widgets.flow_layout import FlowLayout
from app.gui.widgets.layout import VBox
from app.gui.widgets.panels import ErrorPanel
from app.gui.widgets.rows import ListRow, RowList, Tag
from app.gui.widgets.status import Dot, Skeleton
from app.gui.widgets.text import Label, Paragraph

_FORMATS_SHOWN = 3
_CHIPS = 6


class CardModels(NamedTuple):
    """What a card asks: what is found, and what is fetched."""

    search: HubSearchModel
    downloads: DownloadsModel


class HubCardView(QWidget):
    """Shows a `HubCard`; `show_card` replaces it in place."""

    def __init__(self, theme: Theme, models: CardModels, shell: Shell, key: str, card: HubCard) -> None:
        super().__init__()
        model, downloads = models
        self._theme, self._model, self._key, self._card = theme, model, key, card
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        box = VBox(theme, self, gap=0)
        self.row = ListRow(theme)
        for word in _card_tags(card):
            self.row.add_tag(Tag(theme, word))
        self._dot, self._fits = Dot(theme), Label(theme, role="meta", color="ink-2")
        self.button = Button(
            theme,
            tr("Details"),
            look=ButtonLook.QUIET,
            widest=tr("Close"),
            name=tr("Details of {title}", title=card.title),
            action=self._toggle_sheet,
        )
        for widget in (self._dot, self._fits, self.button):
            self.row.tail.addWidget(widget)
        box.addWidget(self.row)
        self._choice = RepositoryChips(theme, self._open_sheet)
        box.addWidget(self._choice)
        self.sheet = SheetView(theme, downloads, shell)
        box.addWidget(self.sheet)

    def show_card(self, card: HubCard) -> None:
        """Show what is so now."""
        self._card = card
        self.row.show_text(card.title, hub_search.card_facts(card))
        color, word = hub_search.fit_sign(card)
        self._dot.show_state(color, word)
        self._dot.setToolTip(card.basis)
        details = hub_search.card_figures(card)
        self._fits.setText(f"{word} · {details}" if details else word)
        self._fits.setToolTip(card.basis)
        sheet = self._model.sheet
        is_open = sheet is not None and sheet.card == self._key
        self.button.setText(tr("Close") if is_open else tr("Details"))
        self.sheet.setVisible(is_open)
        self._choice.setVisible(is_open and len(card.repositories) > 1)
        if sheet is not None and is_open:
            self._choice.show_choice([entry.repository for entry in card.repositories], sheet.repository)
            self.sheet.show_sheet(sheet)

    def _toggle_sheet(self) -> None:
        sheet = self._model.sheet
        is_open = sheet is not None and sheet.card == self._key
        self._open_sheet(
            sheet.repository if sheet is not None and is_open else hub_search.default_repository(self._card)
        )

    def _open_sheet(self, repository: str) -> None:
        self._model.toggle_sheet(self._key, repository)


class RepositoryChips(QWidget):
    """Which repository of a model is looked at: the most downloaded ones."""

    def __init__(self, theme: Theme, choose: Callable[[str], object]) -> None:
        super().__init__()
        self._theme, self._choose = theme, choose
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        box = VBox(theme, self, margins=(16, 0, 16, 8), gap=0)
        self._flow = FlowLayout(theme, gap=8)
        box.addLayout(self._flow)
        self._chips: dict[str, Chip] = {}

    def show_choice(self, repositories: list[str], chosen_repository: str) -> None:
        """Offer repositories and mark the one that is looked at."""
        for name in repositories[:_CHIPS]:
            if name not in self._chips:
                chip = self._chips[name] = Chip(self._theme, name)
                chip.setAccessibleName(tr("Details of {name}", name=name))
                chip.set_action(partial(self._choose_chip, name))
                self._flow.addWidget(chip)
        for name, chip in self._chips.items():
            chip.setChecked(name == chosen_repository)
        self._chosen_repository = chosen_repository

    def _choose_chip(self, name: str) -> None:
        self._chips[name].setChecked(True)
        if name != self._chosen_repository:
            self._choose(name)


def _card_tags(card: HubCard) -> list[str]:
    formats = list(dict.fromkeys(kind.upper() for repository in card.repositories for kind in repository.formats))
    tags = [words.format_parameters(card.parameters)] if card.parameters else []
    tags += formats[:_FORMATS_SHOWN]
    if len(formats) > _FORMATS_SHOWN:
        tags.append(f"+{len(formats) - _FORMATS_SHOWN}")
    if all(repository.gated for repository in card.repositories):
        tags.append(tr("Gated"))
    if any(repository.is_here for repository in card.repositories):
        tags.append(tr("Installed"))
    return tags


class SheetView(QWidget):
    """Shows a `RepositorySheet` below its card."""

    def __init__(self, theme: Theme, downloads: DownloadsModel, shell: Shell) -> None:
        super().__init__()
        self._theme, self._downloads, self._shell = theme, downloads, shell
        self._model: HubModel | None = None
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        box = VBox(theme, self, margins=(16, 0, 16, 12), gap=8)
        self._facts = Paragraph(theme, role="meta", color="ink-2")
        self._gate, self._note = (
            Paragraph(theme, role="meta", color="warn"),
            Paragraph(theme, role="meta", color="warn"),
        )
        self._why = Paragraph(theme, role="meta", color="ink")
        self._skeleton, self._error = Skeleton(theme, is_card=False), ErrorPanel(theme)
        self._list = RowList(theme, tr("Variants"))
        self._list.fill = "sunken"
        self._with_it = Paragraph(theme, role="meta", color="ink-2")
        self._companions = RowList(theme, tr("Goes with it"))
        self._companions.fill = "sunken"
        buttons = FlowLayout(theme, gap=8)
        self._page = Button(
            theme, tr("Open the model page"), look=ButtonLook.QUIET, icon="external-link", action=self._open_page
        )
        self._token = Button(
            theme,
            tr("Enter a token"),
            look=ButtonLook.QUIET,
            name=tr("Enter a token for the hub"),
            action=self._ask_token,
        )
        buttons.addWidget(self._page)
        buttons.addWidget(self._token)
        for widget in (self._facts, self._gate, self._note, self._error, self._skeleton, self._why, self._list):
            box.addWidget(widget)
        for widget in (self._with_it, self._companions):
            box.addWidget(widget)
        box.addLayout(buttons)

    def show_sheet(self, sheet: RepositorySheet) -> None:
        """Show what is known now."""
        model = self._model = sheet.model
        self._skeleton.setVisible(model is None and sheet.error is None)
        self._list.setVisible(model is not None)
        self._page.setVisible(model is not None)
        self._token.setVisible(model is not None and bool(model.gate))
        if sheet.error is not None:
            self._error.show_error(sheet.error)
        else:
            self._error.hide()
        _show_text(self._facts, _facts_text(model))
        _show_text(self._gate, model.gate if model else "")
        _show_text(self._note, _note_text(model))
        _show_text(self._why, _recommendation_text(model))
        if model is not None:
            self._list.sync(
                {
                    f"{variant.format} {variant.quantization} {variant.revision} {at}": variant
                    for at, variant in enumerate(model.variants)
                },
                lambda variant: VariantRow(self._theme, self._downloads, model, variant),
                VariantRow.show_variant,
            )
        self._show_companions(model)

    def _show_companions(self, model: HubModel | None) -> None:
        companions = {companion.path: companion for companion in model.companions} if model is not None else {}
        _show_text(self._with_it, hub_search.companions_sentence(model) if model is not None else "")
        self._companions.setVisible(bool(companions))
        if model is not None:
            self._companions.sync(
                companions,
                lambda companion: CompanionRow(self._theme, self._downloads, model, companion),
                CompanionRow.show_companion,
            )

    def _ask_token(self) -> None:
        self._shell.request_task(PageId.SETTINGS, HUB_TOKEN)

    def _open_page(self) -> None:
        if self._model is not None:
            QDesktopServices.openUrl(QUrl(self._model.page))


class VariantRow(ListRow):
    """One rung of the ladder."""

    def __init__(self, theme: Theme, downloads: DownloadsModel, model: HubModel, variant: HubVariant) -> None:
        super().__init__(theme)
        self._downloads, self._name = downloads, hub_search.pull_name(model, variant)
        self._repository = model.repository
        title = variant.quantization or variant.format
        if variant.is_recommended:
            self.add_tag(Tag(theme, tr("Recommended"), color="accent-ink", fill="accent-soft"))
        self._dot, self._fits = Dot(theme), Label(theme, role="meta", color="ink-2")
        self.button = Button(
            theme,
            tr("Download"),
            look=ButtonLook.PRIMARY if variant.is_recommended else ButtonLook.PLAIN,
            widest=tr("Downloading"),
            name=tr("Download {title}", title=title),
            action=partial(downloads.start_download, self._name),
        )
        for widget in (self._dot, self._fits, self.button):
            self.tail.addWidget(widget)

    def show_variant(self, variant: HubVariant) -> None:
        """Show what is so now."""
        self.show_text(variant.quantization or variant.format, hub_search.variant_facts(variant))
        color, word = hub_search.fit_sign(variant)
        self._dot.show_state(color, word)
        self._fits.setText(word)
        words = self._button_words(variant)
        self.button.setText(words)
        self.button.setEnabled(words == tr("Download"))

    def _button_words(self, variant: HubVariant) -> str:
        download = self._downloads.find_for_variant(self._repository, variant.quantization, variant.revision)
        state = download.state if download is not None else None
        if variant.is_here or state is DownloadState.DONE:
            return tr("Installed")
        if download is not None and state is DownloadState.RUNNING:
            return f"{download_fraction(download) or 0.0:.0%}"
        if state in COMING_STATES or self._name in self._downloads.pending_models:
            return tr("Downloading")
        return tr("Download")


class CompanionRow(ListRow):
    """A draft or a LoRA adapter, which comes only where it is asked for."""

    def __init__(self, theme: Theme, downloads: DownloadsModel, model: HubModel, companion: HubCompanion) -> None:
        super().__init__(theme)
        self._downloads, self._repository = downloads, model.repository
        self._name = f"{model.repository}/{companion.path}"
        pull = partial(downloads.start_download, self._name)
        self.button = Button(
            theme,
            tr("Download"),
            widest=tr("Downloading"),
            name=tr("Download {path}", path=companion.path),
            action=pull,
        )
        self.tail.addWidget(self.button)

    def show_companion(self, companion: HubCompanion) -> None:
        """Show what is so now."""
        self.show_text(PurePosixPath(companion.path).name, hub_search.companion_facts(companion))
        words = self._button_words(companion)
        self.button.setText(words)
        self.button.setEnabled(words == tr("Download"))

    def _button_words(self, companion: HubCompanion) -> str:
        download = self._downloads.find_for_file(self._repository, companion.path)
        if companion.is_here or (download is not None and download.state is DownloadState.DONE):
            return tr("Installed")
        is_coming = download is not None and download.state in COMING_STATES
        return tr("Downloading") if is_coming or self._name in self._downloads.pending_models else tr("Download")


def _show_text(label: Label, text: str) -> None:
    label.setText(text)
    label.setVisible(bool(text))


def _note_text(model: HubModel | None) -> str:
    if model is None:
        return ""
    return " ".join(filter(None, [model.note, words.BRINGS_CODE.tr() if model.needs_remote_code else ""]))


def _facts_text(model: HubModel | None) -> str:
    if model is None:
        return ""
    parts = [model.repository, *model.capabilities]
    if model.licence:
        parts.append(model.licence)
    if model.likes:
        parts.append(
            tr_plural("{number} like", "{number} likes", model.likes, number=hub_search.format_count(model.likes))
        )
    return " · ".join(parts)


def _recommendation_text(model: HubModel | None) -> str:
    best = next((variant for variant in model.variants if variant.is_recommended), None) if model else None
    if best is None:
        return ""
    return tr("{variant} is recommended: {reason}", variant=best.quantization or best.format, reason=best.reason)
