"""Models of the catalogue in Discover: the one that is recommended, families that unfold, and a row for each model.

A row says what a model is for, how good and how fast it is, how it runs here and what its licence allows. It is
downloaded from the row, in the format that is planned for this machine or another.
"""

from functools import partial

from PySide6.QtCore import QPoint, Qt
from PySide6.QtWidgets import QSizePolicy, QWidget

from app.core import words
from app.core.advice import FitVerdict
from app.core.downloads import DownloadState
from app.core.hub import HubPick
from app.core.translation import tr, tr_plural
from app.gui.net.remote_lists import COMING_STATES
from app.gui.screens.models import hub_search
from app.gui.screens.models.downloads import download_fraction
from app.gui.screens.models.hub_card import CardModels, RepositoryChips, SheetView
from app.gui.screens.models.hub_search import PickFamily
from app.gui.shell.contract import Shell
from app.gui.theme.theme import Theme
from app.gui.widgets.bars import Meter
from app.gui.widgets.buttons import Button, ButtonLook, IconButton
from app.gui.widgets.flow_layout import FlowLayout, PairLayout
from app.gui.widgets.layout import Hairline, HBox, Surface, VBox, settle_layouts
from app.gui.widgets.menus import Menu
from app.gui.widgets.rows import ListRow, RowList, Tag
from app.gui.widgets.status import Dot
from app.gui.widgets.text import ElidedLabel, Label, Paragraph

_ACTIONS_WIDTH = 160
"""So that the bars of all rows stand in columns, whatever can be done with each."""
_NARROW, _WIDE = 116, 200


class _ActionsColumn(QWidget):
    """What can be done with a row, at its end; as wide in every row, and as tall as a button."""

    def __init__(self, theme: Theme, content: QWidget) -> None:
        super().__init__()
        self._theme = theme
        line = HBox(theme, self, gap=0)
        line.addWidget(content)
        line.addStretch(1)
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)
        theme.changed.connect(self._restyle)
        self._restyle()

    def _restyle(self) -> None:
        self.setFixedWidth(self._theme.px(_ACTIONS_WIDTH))


class FitLine(QWidget):
    """How a model runs here, in its colour, then what is downloaded and what its licence allows; it wraps like text."""

    def __init__(self, theme: Theme) -> None:
        super().__init__()
        self._dot, self._sign = Dot(theme), Label(theme, role="meta", weight=500)
        self._facts = ElidedLabel(theme, role="meta", color="ink-2")
        sign = QWidget()
        line = HBox(theme, sign, gap=6)
        line.addWidget(self._dot)
        line.addWidget(self._sign)
        flow = FlowLayout(theme, self, gap=8, line_gap=2)
        flow.addWidget(sign)
        flow.addWidget(self._facts)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)

    def show_pick(self, pick: HubPick) -> None:
        """Show what is so now."""
        color, sign = hub_search.pick_sign(pick)
        self._dot.show_state(color, sign)
        self._sign.setText(sign)
        self._sign.set_color(color)
        self._facts.setText(hub_search.pick_facts(pick))


class PickMeters(QWidget):
    """How good a model's answers are and how fast it writes, as two bars."""

    def __init__(self, theme: Theme, *, is_stacked: bool = False) -> None:
        super().__init__()
        self.quality = Meter(theme, tr("Quality"), width=_WIDE if is_stacked else _NARROW)
        self.speed = Meter(theme, tr("Speed"), width=_WIDE if is_stacked else _NARROW)
        box = VBox(theme, self, gap=12) if is_stacked else HBox(theme, self, margins=(0, 4, 0, 4), gap=24)
        for meter in (self.quality, self.speed):
            box.addWidget(meter)
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)

    def show_pick(self, pick: HubPick, best_quality: int) -> None:
        """Show a model beside the best of the catalogue."""
        fraction, value, tip = hub_search.quality_level(pick, best_quality)
        self.quality.show_level(fraction, value, color="part-2", tip=tip)
        fraction, value, tip = hub_search.speed_level(pick)
        color = "warn" if pick.card.verdict is FitVerdict.SLOW else "ok"
        self.speed.show_level(fraction, value, color=color, tip=tip)


class PickActions(QWidget):
    """Downloads a model: in the planned format, or in another that is chosen from a menu. One that is here chats."""

    def __init__(
        self, theme: Theme, models: CardModels, shell: Shell, pick: HubPick, *, is_primary: bool = False
    ) -> None:
        super().__init__()
        self._theme, self._models, self._shell, self._pick = theme, models, shell, pick
        line = HBox(theme, self, gap=4)
        self.download = Button(
            theme,
            tr("Download"),
            look=ButtonLook.PRIMARY if is_primary else ButtonLook.PLAIN,
            widest=tr("Downloading"),
            action=self._act,
        )
        self.more = IconButton(theme, "chevron-down", tr("Formats and variants of {title}", title=pick.name))
        self.more.set_action(self._open_menu)
        line.addWidget(self.download)
        line.addWidget(self.more)
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)

    def show_pick(self, pick: HubPick) -> None:
        """Show how far its download is."""
        self._pick = pick
        text = self._button_words()
        self.download.setText(text)
        chats = text == tr("Chat")
        self.download.setAccessibleName(tr("Chat with {title}", title=pick.name) if chats else f"{text}: {pick.name}")
        self.download.setEnabled(chats or text == tr("Download"))

    def menu_entries(self) -> dict[str, str]:
        """Return the words and the format of each way to have it; the planned one has none."""
        formats = dict.fromkeys(kind for entry in self._pick.card.repositories for kind in entry.formats)
        planned_entry = {tr("In the format planned for this computer"): ""}
        return planned_entry | {tr("As {format}", format=kind.upper()): kind for kind in formats}

    def start_download(self, model_format: str) -> None:
        """Ask for it in a format, or without one in the planned one."""
        self._models.downloads.start_download(self._pick.pull, model_format=model_format)

    def _act(self) -> None:
        if self._pick.installed:
            self._shell.new_chat(self._pick.installed)
        else:
            self.start_download("")

    def _open_menu(self) -> None:
        menu = Menu(self._theme, self, self.more.accessibleName())
        for text, kind in self.menu_entries().items():
            menu.add_entry(text, partial(self.start_download, kind), is_enabled=self.download.isEnabled())
        menu.addSeparator()
        menu.add_entry(tr("All variants"), self._open_sheet)
        menu.aboutToHide.connect(menu.deleteLater)
        menu.popup(self.more.mapToGlobal(QPoint(0, self.more.height() + self._theme.px(4))))

    def _open_sheet(self) -> None:
        self._models.search.toggle_sheet(self._pick.pull, hub_search.default_repository(self._pick.card))

    def _button_words(self) -> str:
        downloads = self._models.downloads
        download = downloads.find_for_model(self._pick.pull)
        state = download.state if download is not None else None
        if download is not None and state is DownloadState.RUNNING:
            return f"{download_fraction(download) or 0.0:.0%}"
        if state in COMING_STATES or self._pick.pull in downloads.pending_models:
            return tr("Downloading")
        if self._pick.installed:
            return tr("Chat")
        return tr("Installed") if self._pick.is_here or state is DownloadState.DONE else tr("Download")


class PickRow(QWidget):
    """One model; the variants of its repositories below it when asked for."""

    def __init__(self, theme: Theme, models: CardModels, shell: Shell, pick: HubPick) -> None:
        super().__init__()
        self._theme, self._models, self._shell, self._pick = theme, models, shell, pick
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        self._box = VBox(theme, self, gap=0)
        self.row = ListRow(theme)
        self._tags = {
            "fast": Tag(theme, tr("Fast"), color="accent-ink", fill="accent-soft"),
            "new": Tag(theme, tr("New"), color="accent-ink", fill="accent-soft"),
            "unchecked": Tag(theme, tr("Unchecked"), color="warn", fill="warn-soft"),
        }
        for tag in self._tags.values():
            self.row.add_tag(tag)
        self._fit = FitLine(theme)
        self.row.words.insertWidget(self.row.words.count() - 1, self._fit)
        self.meters, self.download_actions = PickMeters(theme), PickActions(theme, models, shell, pick)
        tools = QWidget()
        flow = FlowLayout(theme, tools, gap=16)
        for widget in (self.meters, _ActionsColumn(theme, self.download_actions)):
            flow.addWidget(widget)
        self.row.tail.addWidget(tools)
        self._box.addWidget(self.row)
        self._sheet: _PickSheet | None = None

    def show_pick(self, pick: HubPick, best_quality: int, *, reason: str = "") -> None:
        """Show what is so now; a reason stands in the place of what it is for."""
        self._pick = pick
        self.row.show_text(pick.name, reason or words.format_purpose(pick.good_for))
        self.row.setAccessibleDescription(hub_search.pick_description(pick))
        self._tags["fast"].setVisible(pick.is_fast)
        self._tags["new"].setVisible(pick.is_new)
        self._tags["unchecked"].setVisible(pick.card.unchecked)
        self._tags["unchecked"].setToolTip(tr("Nobody verified that its repositories exist."))
        self._fit.show_pick(pick)
        self.meters.show_pick(pick, best_quality)
        self.download_actions.show_pick(pick)
        self._show_sheet()

    def _show_sheet(self) -> None:
        sheet = self._models.search.sheet
        is_open = sheet is not None and sheet.card == self._pick.pull
        if is_open and self._sheet is None:
            self._sheet = _PickSheet(self._theme, self._models, self._shell, self._pick)
            self._box.addWidget(self._sheet)
        if self._sheet is not None:
            self._sheet.setVisible(is_open)
            self._sheet.show_sheet()


class _PickSheet(QWidget):
    """The repositories of a model, and the variants of one of them."""

    def __init__(self, theme: Theme, models: CardModels, shell: Shell, pick: HubPick) -> None:
        super().__init__()
        self._models, self._pick = models, pick
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        box = VBox(theme, self, gap=0)
        self._choice = RepositoryChips(theme, partial(models.search.toggle_sheet, pick.pull))
        self.sheet = SheetView(theme, models.downloads, shell)
        box.addWidget(self._choice)
        box.addWidget(self.sheet)

    def show_sheet(self) -> None:
        """Show what is known now."""
        sheet = self._models.search.sheet
        if sheet is not None and sheet.card == self._pick.pull:
            self._choice.show_choice([entry.repository for entry in self._pick.card.repositories], sheet.repository)
            self.sheet.show_sheet(sheet)


class FamilyView(QWidget):
    """A family: its name and its best model for this machine, and all its models when it is unfolded."""

    def __init__(self, theme: Theme, models: CardModels, shell: Shell, family: PickFamily) -> None:
        super().__init__()
        self._theme, self._models, self._shell = theme, models, shell
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        box = VBox(theme, self, gap=0)
        self.row = ListRow(theme)
        self._new = Tag(theme, tr("New"), color="accent-ink", fill="accent-soft")
        self.row.add_tag(self._new)
        self.meters = PickMeters(theme)
        self.button = Button(
            theme,
            "",
            look=ButtonLook.QUIET,
            icon="chevron-right",
            action=partial(models.search.toggle_family, family.name),
        )
        tools = QWidget()
        flow = FlowLayout(theme, tools, gap=16)
        for widget in (self.meters, _ActionsColumn(theme, self.button)):
            flow.addWidget(widget)
        self.row.tail.addWidget(tools)
        box.addWidget(self.row)
        self._place = QWidget()
        self.list = RowList(theme, family.name)
        self.list.fill = "sunken"
        VBox(theme, self._place, margins=(16, 0, 16, 12), gap=0).addWidget(self.list)
        box.addWidget(self._place)

    def show_family(self, family: PickFamily, best_quality: int) -> None:
        """Show what is so now."""
        is_open = family.name in self._models.search.open_families
        count = tr_plural("{count} model", "{count} models", len(family.picks))
        self.row.show_text(family.name, hub_search.family_facts(family))
        self._new.setVisible(any(pick.is_new for pick in family.picks))
        self.meters.show_pick(family.picks[0], best_quality)
        self.button.set_text(tr("Fold") if is_open else count)
        self.button.set_icon("chevron-down" if is_open else "chevron-right")
        self.button.setAccessibleName(
            tr("Fold {family}", family=family.name)
            if is_open
            else tr("Show the models of {family}: {count}", family=family.name, count=count)
        )
        if is_open:
            self.list.sync(
                {pick.pull: pick for pick in family.picks},
                lambda pick: PickRow(self._theme, self._models, self._shell, pick),
                lambda row, pick: row.show_pick(pick, best_quality),
            )
        is_turned = self._place.isHidden() == is_open
        self._place.setVisible(is_open)
        if is_turned:
            settle_layouts(self)


class RecommendationCard(Surface):
    """The model to take on this machine, why, and below it the one that writes much faster."""

    def __init__(self, theme: Theme, models: CardModels, shell: Shell) -> None:
        super().__init__(theme, outline="accent")
        self._models, self._shell = models, shell
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        outer = VBox(theme, self, gap=0)
        inner = QWidget()
        pair = PairLayout(theme, room=320, gap=32)
        VBox(theme, inner, margins=(16, 16, 16, 16), gap=0).addLayout(pair)
        texts = VBox(theme, gap=6)
        self._over = Label(theme, tr("Recommended for this computer"), role="meta", color="accent-ink", weight=600)
        self._title = Paragraph(theme, role="section")
        self._purpose, self._reason = Paragraph(theme, color="ink-2"), Paragraph(theme)
        self._fit = FitLine(theme)
        self._time = Paragraph(theme, role="meta", color="ink-2")
        for label in (self._over, self._title, self._purpose, self._reason, self._fit, self._time):
            texts.addWidget(label)
        pair.addLayout(texts)
        self._side = VBox(theme, gap=16)
        self.meters = PickMeters(theme, is_stacked=True)
        self._side.addWidget(self.meters)
        pair.addLayout(self._side)
        outer.addWidget(inner)
        self._line = Hairline(theme)
        outer.addWidget(self._line)
        self._list = RowList(theme, tr("A faster model"))
        self._list.fill = self._list.outline = ""
        outer.addWidget(self._list)
        self.download_actions: PickActions | None = None
        self.hide()

    def show_picks(self, best: HubPick | None, fast: HubPick | None, best_quality: int) -> None:
        """Show what is recommended now; nothing where nothing can be."""
        self.setVisible(best is not None)
        if best is None:
            return
        if self.download_actions is None or self.accessibleName() != best.name:
            self._renew_actions(best)
        self.setAccessibleName(best.name)
        self.setAccessibleDescription(f"{best.reason} {hub_search.pick_facts(best)}")
        self._title.setText(best.name)
        self._purpose.setText(words.format_purpose(best.good_for))
        self._reason.setText(best.reason)
        self._fit.show_pick(best)
        rates = [item.bytes_per_s for item in self._models.downloads.queue.items if item.bytes_per_s]
        time_words = hub_search.download_time(best, max(rates, default=None))
        self._time.setText(time_words)
        self._time.setVisible(bool(time_words))
        self.meters.show_pick(best, best_quality)
        if self.download_actions is not None:
            self.download_actions.show_pick(best)
        self._list.setVisible(fast is not None)
        self._line.setVisible(fast is not None)
        self._list.sync(
            {fast.name: fast} if fast is not None else {},
            lambda pick: PickRow(self.theme, self._models, self._shell, pick),
            lambda row, pick: row.show_pick(pick, best_quality, reason=pick.reason),
        )

    def focus_download(self) -> bool:
        """Give the keyboard to the button that downloads it; return whether there is one."""
        if self.isHidden() or self.download_actions is None or not self.download_actions.download.isEnabled():
            return False
        self.download_actions.download.setFocus(Qt.FocusReason.OtherFocusReason)
        return True

    def _renew_actions(self, best: HubPick) -> None:
        if self.download_actions is not None:
            self._side.removeWidget(self.download_actions)
            self.download_actions.hide()
            self.download_actions.deleteLater()
        self.download_actions = PickActions(self.theme, self._models, self._shell, best, is_primary=True)
        self._side.addWidget(self.download_actions, 0, Qt.AlignmentFlag.AlignLeft)
