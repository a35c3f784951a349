"""The engines page: a card for each engine that suits this machine, best first; the others folded, and why.

An engine as a card: why it suits this machine, the version in use and how it did, what runs, and its versions.
"""

from functools import partial

from PySide6.QtCore import QPoint, Qt
from PySide6.QtWidgets import QSizePolicy, QWidget

from app.core import words
from app.core.engine_store import BUNDLED, OWN, EngineJob, EngineListing, EngineOffer, EngineUpdate, EngineVersion
from app.core.translation import LazyText, tr, tr_plural
from app.gui.net.remote_lists import Stores
from app.gui.screens.engines.model import (
    EnginesModel,
    current_of,
    engine_state,
    install_words,
    job_words,
    needs_test,
    offer_of,
    offer_with_problem,
    version_facts,
)
from app.gui.shell.contract import Shell
from app.gui.theme.theme import Theme
from app.gui.widgets.buttons import Button, ButtonLook, IconButton
from app.gui.widgets.flow_layout import PairLayout
from app.gui.widgets.layout import HBox, Surface, VBox
from app.gui.widgets.menus import Menu
from app.gui.widgets.panels import ErrorPanel, Fold, PageFrame
from app.gui.widgets.rows import ListRow, RowList, Tag
from app.gui.widgets.status import Dot, ProgressBar, Skeleton
from app.gui.widgets.text import ElidedLabel, Label, Paragraph

_ABOUT = LazyText(
    "A new version is installed beside the others and must answer a test question before it is used. If it fails "
    "later, Roundhouse goes back to the previous one automatically."
)


class EnginesScreen(PageFrame):
    """Shows an `EnginesModel`."""

    def __init__(self, theme: Theme, stores: Stores, shell: Shell) -> None:
        super().__init__(theme, tr("Engines"))
        self.model = EnginesModel(stores, shell)
        self._trouble = ErrorPanel(theme)
        self._skeleton = Skeleton(theme, 4, is_card=True)
        self._cards: dict[str, EngineCard] = {}
        holder = QWidget()
        self._box = VBox(theme, holder, gap=12)
        self._others = RowList(theme, tr("Other engines"))
        place = QWidget()
        VBox(theme, place, gap=0).addWidget(self._others)
        self._fold = Fold(theme, tr("Not for this machine"), place)
        self.body.addWidget(Paragraph(theme, _ABOUT.tr(), color="ink-2"))
        for part in (self._trouble, self._skeleton, holder, self._fold):
            self.body.addWidget(part)
        self.body.addStretch(1)
        self.model.changed.connect(self._show_engines)
        self.model.toast_requested.connect(shell.show_toast)
        self._show_engines()

    def _show_engines(self) -> None:
        model = self.model
        self.about.setText(model.summary)
        self._sync_cards(model.suitable_engines)
        self._others.sync(
            {engine.id: engine for engine in model.other_engines},
            lambda _listing: ListRow(self.theme),
            lambda row, engine: row.show_text(engine.name, engine.advice),
        )
        self._fold.setVisible(bool(model.other_engines))
        self._fold.set_title(tr("Not for this machine ({count})", count=len(model.other_engines)))
        self._skeleton.setVisible(not model.listings.is_known and model.listings.error is None)
        self._trouble.setVisible(model.listings.error is not None)
        if model.listings.error is not None:
            self._trouble.show_error(model.listings.error, tr("Try again"), model.listings.read)

    def _sync_cards(self, engines: list[EngineListing]) -> None:
        """Keep one card per engine, in order; a card that stays keeps the focus and what is unfolded."""
        for engine in set(self._cards) - {listing.id for listing in engines}:
            card = self._cards.pop(engine)
            card.hide()
            card.deleteLater()
        for place, listing in enumerate(engines):
            card = self._cards.get(listing.id) or EngineCard(self.theme, self.model, listing)
            self._cards[listing.id] = card
            if self._box.indexOf(card) != place:
                self._box.removeWidget(card)
                self._box.insertWidget(place, card)
            card.show_stock(listing)


class EngineCard(Surface):
    """Shows an `EngineListing`; `show_stock` replaces it in place."""

    def __init__(self, theme: Theme, model: EnginesModel, stock: EngineListing) -> None:
        super().__init__(theme)
        self._model, self._stock = model, stock
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        self.setAccessibleName(stock.name)
        box = VBox(theme, self, margins=(20, 16, 16, 12), gap=8)
        box.addLayout(self._make_head())
        self._advice = Paragraph(theme, color="ink-2")
        self._present = _CurrentVersionView(theme)
        self._confinement = Paragraph(theme, role="meta", color="ink-2")
        self._job = _EngineJobView(theme, model)
        self._update = _EngineUpdateView(theme, model, stock.id)
        self._failure = ErrorPanel(theme)
        self._versions = RowList(theme, tr("Versions of {name}", name=stock.name), inset=12)
        place = QWidget()
        VBox(theme, place, margins=(0, 4, 4, 4), gap=0).addWidget(self._versions)
        self._fold = Fold(theme, tr("Versions"), place)
        self._fold.setAccessibleName(tr("Versions of {name}", name=stock.name))
        parts = (self._advice, self._present, self._confinement, self._job, self._update, self._failure, self._fold)
        for part in parts:
            box.addWidget(part)

    def _make_head(self) -> PairLayout:
        theme, stock = self.theme, self._stock
        top, name = PairLayout(theme), HBox(theme, gap=8)
        name.addWidget(Label(theme, stock.name, role="section"))
        self._best = Tag(theme, tr("Recommended"), color="accent-ink", fill="accent-soft")
        name.addWidget(self._best)
        for kind in stock.formats[:3]:
            name.addWidget(Tag(theme, kind.upper()))
        name.addStretch(1)
        top.addLayout(name)
        tail = HBox(theme, gap=8)
        self._install = Button(
            theme, tr("Install"), name=tr("Install {name}", name=stock.name), action=self._do_install
        )
        self._check = Button(
            theme,
            tr("Check for updates"),
            look=ButtonLook.QUIET,
            name=tr("Check for updates of {name}", name=stock.name),
            action=partial(self._model.check_update, stock.id),
        )
        self._test = Button(
            theme, tr("Test"), look=ButtonLook.QUIET, name=tr("Test {name}", name=stock.name), action=self._do_test
        )
        self._builds = IconButton(
            theme, "ellipsis", tr("Other builds of {name}", name=stock.name), action=self._offer_builds
        )
        for button in (self._check, self._test, self._install, self._builds):
            tail.addWidget(button)
        top.addLayout(tail)
        return top

    def show_stock(self, stock: EngineListing) -> None:
        """Show what is so now."""
        self._stock = stock
        model, current, offer = self._model, current_of(stock), offer_of(stock)
        job, error = model.job_of(stock.id), model.error_of(stock.id)
        self._best.setVisible(stock.rank == 1)
        self._advice.setText(stock.advice)
        self._advice.setToolTip("\n\n".join(filter(None, (stock.verified, stock.unverified, stock.span))))
        self._present.show_version(stock, current)
        self._show_confinement(stock)
        self._job.show_job(job)
        self._update.show_update(model.updates.get(stock.id) if job is None else None)
        self._show_buttons(offer_words=install_words(offer) if offer else "", is_here=current is not None)
        self._failure.setVisible(error is not None)
        if error is not None:
            self._failure.show_error(error, tr("Dismiss"), partial(model.dismiss, stock.id))
        self._show_versions(stock)

    def _show_confinement(self, stock: EngineListing) -> None:
        confinement = stock.confinement if stock.versions else None
        self._confinement.setVisible(confinement is not None)
        if confinement is not None:
            self._confinement.setText(confinement.sentence)

    def _show_buttons(self, *, offer_words: str, is_here: bool) -> None:
        is_first = bool(offer_words) and not is_here
        self._install.setVisible(is_first)
        self._install.set_text(offer_words or tr("Install"))
        self._test.setVisible(is_here)
        self._check.setVisible(is_here and bool(self._stock.offers))
        self._builds.setVisible(len([offer for offer in self._stock.offers if not offer.unfit]) > 1)
        for button in (self._install, self._test, self._builds):
            button.setEnabled(not self._model.is_busy)

    def _show_versions(self, stock: EngineListing) -> None:
        more = bool(stock.offers) and any(not item.is_installed for item in stock.offers)
        self._fold.setVisible(len(stock.versions) > 1 or (bool(stock.versions) and more))
        count = tr_plural("{count} version", "{count} versions", len(stock.versions))
        self._fold.set_title(f"{count}, {words.format_bytes(stock.size_bytes)}" if stock.size_bytes else count)
        self._versions.sync(
            {item.name: item for item in stock.versions},
            lambda item: _VersionRow(self.theme, self._model, stock.id, item),
            _VersionRow.show_version,
        )

    def _do_install(self) -> None:
        offer = offer_of(self._stock)
        if offer is not None:
            self._model.install(self._stock.id, offer.variant)

    def _offer_builds(self) -> None:
        menu = Menu(self.theme, self, tr("Other builds"))
        for offer in self._stock.offers:
            if not offer.unfit:
                begin = partial(self._model.install, self._stock.id, offer.variant)
                menu.add_entry(_build_words(offer), begin, is_enabled=not offer.is_installed)
        menu.aboutToHide.connect(menu.deleteLater)
        menu.popup(self._builds.mapToGlobal(QPoint(0, self._builds.height())))

    def _do_test(self) -> None:
        current = current_of(self._stock)
        if current is not None:
            self._model.test_version(self._stock.id, current.name)


class _CurrentVersionView(QWidget):
    """The version in use: how it stands, and what its test showed."""

    def __init__(self, theme: Theme) -> None:
        super().__init__()
        line = HBox(theme, self, gap=8)
        self._dot = Dot(theme)
        self._version = Label(theme, weight=500)
        self._facts = Paragraph(theme, role="meta", color="ink-2")
        line.addWidget(self._dot, 0, Qt.AlignmentFlag.AlignVCenter)
        line.addWidget(self._version)
        line.addWidget(self._facts, 1)

    def show_version(self, stock: EngineListing, version: EngineVersion | None) -> None:
        """Show a version, or that there is none."""
        color, state_words = engine_state(stock)
        self._dot.show_state(color, state_words)
        failed_offer = offer_with_problem(stock) if version is None else None
        problem = failed_offer.problem if failed_offer else version.problem if version else ""
        details = (state_words, problem or version_facts(version)) if version else (problem,)
        self._version.setText(version.version if version else state_words)
        self._facts.setText(" · ".join(filter(None, details)))
        self._facts.set_color("bad" if problem else "ink-2")
        self._facts.setVisible(any(details))


class _EngineJobView(QWidget):
    """What is being done now, how far it is, and the way out."""

    def __init__(self, theme: Theme, model: EnginesModel) -> None:
        super().__init__()
        line = HBox(theme, self, gap=12)
        words_and_bar = VBox(theme, gap=6)
        self._words = ElidedLabel(theme, role="meta", color="ink-2")
        self._bar = ProgressBar(theme, tr("Progress"))
        words_and_bar.addWidget(self._words)
        words_and_bar.addWidget(self._bar)
        line.addLayout(words_and_bar, 1)
        line.addWidget(Button(theme, tr("Cancel"), look=ButtonLook.QUIET, action=model.cancel))
        self.hide()

    def show_job(self, job: EngineJob | None) -> None:
        """Show a job; hidden while there is none."""
        self.setVisible(job is not None)
        if job is not None:
            self._words.setText(job_words(job))
            self._bar.set_fraction(job.fraction)


class _EngineUpdateView(QWidget):
    """What an update would change, before it is made."""

    def __init__(self, theme: Theme, model: EnginesModel, engine: str) -> None:
        super().__init__()
        line = HBox(theme, self, gap=12)
        self._words = Paragraph(theme)
        line.addWidget(self._words, 1)
        self._button = Button(
            theme, tr("Update"), look=ButtonLook.PRIMARY, action=partial(model.install_update, engine)
        )
        line.addWidget(self._button)
        self.hide()

    def show_update(self, update: EngineUpdate | None) -> None:
        """Show an update; hidden while there is none."""
        self.setVisible(update is not None)
        if update is not None:
            test_note = tr("It is tested with your models before it is used, and the previous version is kept.")
            self._words.setText(f"{_update_words(update)} {test_note}")
            self._button.setAccessibleName(tr("Update to {version}", version=update.to))


class _VersionRow(ListRow):
    """One version, and what can be done with it."""

    def __init__(self, theme: Theme, model: EnginesModel, engine: str, version: EngineVersion) -> None:
        super().__init__(theme, inset=12)
        self._model, self._engine, self._version = model, engine, version
        self._now = Tag(theme, tr("In use"), color="accent-ink", fill="accent-soft")
        self._before = Tag(theme, tr("Previous"))
        self._on_path = Tag(theme, tr("On PATH"))
        self._failed_tag = Tag(theme, tr("Failed"), color="bad")
        for tag in (self._now, self._before, self._on_path, self._failed_tag):
            self.add_tag(tag)
        self._use = Button(
            theme, tr("Use"), look=ButtonLook.QUIET, name=tr("Use {name}", name=version.name), action=self._do_use
        )
        self._more = IconButton(theme, "ellipsis", tr("More about {name}", name=version.name), action=self._open_menu)
        self.tail.addWidget(self._use)
        self.tail.addWidget(self._more)

    def show_version(self, version: EngineVersion) -> None:
        """Show what is so now."""
        self._version = version
        title = {BUNDLED: tr("Bundled with Roundhouse"), OWN: tr("Your own program")}.get(version.name) or (
            version.variant if version.is_ours else version.name
        )
        self.show_text(
            f"{version.version} · {title}" if version.version else title, version.problem or version_facts(version)
        )
        self._now.setVisible(version.is_current)
        self._before.setVisible(version.is_previous)
        self._on_path.setVisible(version.is_on_path)
        self._failed_tag.setVisible(bool(version.problem))
        self._use.setVisible(not version.is_current)
        self._use.set_text(
            tr("Test and use") if needs_test(version) else tr("Roll back") if version.is_previous else tr("Use")
        )

    def _do_use(self) -> None:
        self._model.use_version(self._engine, self._version.name)

    def _open_menu(self) -> None:
        menu, version = Menu(self.theme, self, tr("More")), self._version
        menu.add_entry(tr("Test it"), partial(self._model.test_version, self._engine, version.name), icon="gauge")
        if version.problem and not (version.is_current or version.is_on_path):
            menu.add_entry(
                tr("Use it anyway"), partial(self._model.use_version, self._engine, version.name, force=True)
            )
        if version.is_ours:
            menu.addSeparator()
            menu.add_entry(
                tr("Remove, {size}", size=words.format_bytes(version.size_bytes)),
                partial(self._model.remove_version, self._engine, version),
                icon="trash-2",
                is_enabled=not version.is_current,
            )
        menu.aboutToHide.connect(menu.deleteLater)
        menu.popup(self._more.mapToGlobal(QPoint(0, self._more.height())))


def _build_words(offer: EngineOffer) -> str:
    build = f"{offer.version} · {offer.variant}"
    if not offer.download_bytes:
        return tr("Install {build}", build=build)
    return tr("Install {build}, {size}", build=build, size=words.format_bytes(offer.download_bytes))


def _update_words(update: EngineUpdate) -> str:
    if update.is_here:
        return tr("{current} → {new}, already installed.", current=update.current, new=update.to)
    if update.download_bytes:
        size = words.format_bytes(update.download_bytes)
        return tr("{current} → {new}, {size} to download.", current=update.current, new=update.to, size=size)
    return f"{update.current} → {update.to}."
