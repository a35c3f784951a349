"""An engine as a card: why it suits this machine, the version in use and how it did, what runs, and its versions."""

from functools import partial

from PySide6.QtCore import QPoint, Qt
from PySide6.QtWidgets import QSizePolicy, QWidget

from app.core import words
from app.core.engine_store import BUNDLED, OWN, EngineJob, EngineStock, EngineUpdate, EngineVersion
from app.gui.screens.engines.model import (
    EnginesModel,
    current_of,
    facts,
    failed_offer,
    install_words,
    job_words,
    needs_test,
    offer_of,
    standing,
)
from app.gui.theme.theme import Theme
from app.gui.widgets.flow import Beside
from app.gui.widgets.layout import Column, Line, Surface
from app.gui.widgets.menus import Menu
from app.gui.widgets.panels import ErrorPanel, Fold
from app.gui.widgets.press import Button, IconButton, Look
from app.gui.widgets.rows import Row, RowList, Tag
from app.gui.widgets.status import Dot, Progress
from app.gui.widgets.text import ElidedLabel, Label, Paragraph


class EngineCard(Surface):
    """Shows an `EngineStock`; `show_stock` replaces it in place."""

    def __init__(self, theme: Theme, model: EnginesModel, stock: EngineStock) -> None:
        super().__init__(theme)
        self._model, self._stock = model, stock
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        self.setAccessibleName(stock.name)
        box = Column(theme, self, margins=(20, 16, 16, 12), gap=8)
        box.addLayout(self._head())
        self._advice = Paragraph(theme, color="ink-2")
        self._present = _Present(theme)
        self._job = _Job(theme, model)
        self._update = _Update(theme, model, stock.id)
        self._failure = ErrorPanel(theme)
        self._versions = RowList(theme, f"Versions of {stock.name}", inset=12)
        place = QWidget()
        Column(theme, place, margins=(0, 4, 4, 4), gap=0).addWidget(self._versions)
        self._fold = Fold(theme, "Versions", place)
        self._fold.setAccessibleName(f"Versions of {stock.name}")
        for part in (self._advice, self._present, self._job, self._update, self._failure, self._fold):
            box.addWidget(part)

    def _head(self) -> Beside:
        theme, stock = self.theme, self._stock
        top, name = Beside(theme), Line(theme, gap=8)
        name.addWidget(Label(theme, stock.name, role="section"))
        self._best = Tag(theme, "Recommended", color="accent-ink", fill="accent-soft")
        name.addWidget(self._best)
        for kind in stock.formats[:3]:
            name.addWidget(Tag(theme, kind.upper()))
        name.addStretch(1)
        top.addLayout(name)
        tail = Line(theme, gap=8)
        self._install = Button(theme, "Install", name=f"Install {stock.name}", action=self._do_install)
        self._check = Button(
            theme,
            "Check for updates",
            look=Look.QUIET,
            name=f"Check for updates of {stock.name}",
            action=partial(self._model.check, stock.id),
        )
        self._test = Button(theme, "Test", look=Look.QUIET, name=f"Test {stock.name}", action=self._do_test)
        self._builds = IconButton(theme, "ellipsis", f"Other builds of {stock.name}", action=self._offer_builds)
        for button in (self._check, self._test, self._install, self._builds):
            tail.addWidget(button)
        top.addLayout(tail)
        return top

    def show_stock(self, stock: EngineStock) -> None:
        """Show what is so now."""
        self._stock = stock
        model, current, offer = self._model, current_of(stock), offer_of(stock)
        job, error = model.job_of(stock.id), model.error_of(stock.id)
        self._best.setVisible(stock.rank == 1)
        self._advice.setText(stock.advice)
        self._present.show_version(stock, current)
        self._job.show_job(job)
        self._update.show_update(model.updates.get(stock.id) if job is None else None)
        self._show_buttons(offer_words=install_words(offer) if offer else "", is_here=current is not None)
        self._failure.setVisible(error is not None)
        if error is not None:
            self._failure.say(error, "Dismiss", partial(model.dismiss, stock.id))
        self._show_versions(stock)

    def _show_buttons(self, *, offer_words: str, is_here: bool) -> None:
        is_first = bool(offer_words) and not is_here
        self._install.setVisible(is_first)
        self._install.set_text(offer_words or "Install")
        self._test.setVisible(is_here)
        self._check.setVisible(is_here and bool(self._stock.offers))
        self._builds.setVisible(len([one for one in self._stock.offers if not one.unfit]) > 1)
        for button in (self._install, self._test, self._builds):
            button.setEnabled(not self._model.is_busy)

    def _show_versions(self, stock: EngineStock) -> None:
        more = bool(stock.offers) and any(not one.is_installed for one in stock.offers)
        self._fold.setVisible(len(stock.versions) > 1 or (bool(stock.versions) and more))
        count = "1 version" if len(stock.versions) == 1 else f"{len(stock.versions)} versions"
        self._fold.set_title(f"{count}, {words.size(stock.size_bytes)}" if stock.size_bytes else count)
        self._versions.sync(
            {one.name: one for one in stock.versions},
            lambda one: _VersionRow(self.theme, self._model, stock.id, one),
            _VersionRow.show_version,
        )

    def _do_install(self) -> None:
        offer = offer_of(self._stock)
        if offer is not None:
            self._model.install(self._stock.id, offer.variant)

    def _offer_builds(self) -> None:
        menu = Menu(self.theme, self, "Other builds")
        for offer in self._stock.offers:
            if not offer.unfit:
                words_of = f"{offer.version} · {offer.variant}"
                size = f", {words.size(offer.download_bytes)}" if offer.download_bytes else ""
                begin = partial(self._model.install, self._stock.id, offer.variant)
                menu.offer(f"Install {words_of}{size}", begin, is_enabled=not offer.is_installed)
        menu.aboutToHide.connect(menu.deleteLater)
        menu.popup(self._builds.mapToGlobal(QPoint(0, self._builds.height())))

    def _do_test(self) -> None:
        current = current_of(self._stock)
        if current is not None:
            self._model.test(self._stock.id, current.name)


class _Present(QWidget):
    """The version in use: how it stands, and what its test showed."""

    def __init__(self, theme: Theme) -> None:
        super().__init__()
        line = Line(theme, self, gap=8)
        self._dot = Dot(theme)
        self._version = Label(theme, weight=500)
        self._facts = Paragraph(theme, role="meta", color="ink-2")
        line.addWidget(self._dot, 0, Qt.AlignmentFlag.AlignVCenter)
        line.addWidget(self._version)
        line.addWidget(self._facts, 1)

    def show_version(self, stock: EngineStock, version: EngineVersion | None) -> None:
        """Show a version, or that there is none."""
        color, said = standing(stock)
        self._dot.say(color, said)
        failed = failed_offer(stock) if version is None else None
        problem = failed.problem if failed else version.problem if version else ""
        known = (said, problem or facts(version)) if version else (problem,)
        self._version.setText(version.version if version else said)
        self._facts.setText(" · ".join(filter(None, known)))
        self._facts.set_color("bad" if problem else "ink-2")
        self._facts.setVisible(any(known))


class _Job(QWidget):
    """What is being done now, how far it is, and the way out."""

    def __init__(self, theme: Theme, model: EnginesModel) -> None:
        super().__init__()
        line = Line(theme, self, gap=12)
        words_and_bar = Column(theme, gap=6)
        self._words = ElidedLabel(theme, role="meta", color="ink-2")
        self._bar = Progress(theme, "Progress")
        words_and_bar.addWidget(self._words)
        words_and_bar.addWidget(self._bar)
        line.addLayout(words_and_bar, 1)
        line.addWidget(Button(theme, "Cancel", look=Look.QUIET, action=model.cancel))
        self.hide()

    def show_job(self, job: EngineJob | None) -> None:
        """Show a job; hidden while there is none."""
        self.setVisible(job is not None)
        if job is not None:
            self._words.setText(job_words(job))
            self._bar.set_fraction(job.fraction)


class _Update(QWidget):
    """What an update would change, before it is made."""

    def __init__(self, theme: Theme, model: EnginesModel, engine: str) -> None:
        super().__init__()
        line = Line(theme, self, gap=12)
        self._words = Paragraph(theme)
        line.addWidget(self._words, 1)
        self._button = Button(theme, "Update", look=Look.PRIMARY, action=partial(model.update, engine))
        line.addWidget(self._button)
        self.hide()

    def show_update(self, update: EngineUpdate | None) -> None:
        """Show an update; hidden while there is none."""
        self.setVisible(update is not None)
        if update is not None:
            size = f", {words.size(update.download_bytes)} to download" if update.download_bytes else ""
            size = ", installed already" if update.is_here else size
            tested = "It is tested with your models before it is used, and the previous version is kept."
            self._words.setText(f"{update.current} → {update.to}{size}. {tested}")
            self._button.setAccessibleName(f"Update to {update.to}")


class _VersionRow(Row):
    """One version, and what can be done with it."""

    def __init__(self, theme: Theme, model: EnginesModel, engine: str, version: EngineVersion) -> None:
        super().__init__(theme, inset=12)
        self._model, self._engine, self._version = model, engine, version
        self._now = Tag(theme, "In use", color="accent-ink", fill="accent-soft")
        self._before = Tag(theme, "Previous")
        self._on_path = Tag(theme, "On PATH")
        self._failed = Tag(theme, "Failed", color="bad")
        for tag in (self._now, self._before, self._on_path, self._failed):
            self.add_tag(tag)
        self._use = Button(theme, "Use", look=Look.QUIET, name=f"Use {version.name}", action=self._do_use)
        self._more = IconButton(theme, "ellipsis", f"More about {version.name}", action=self._open_menu)
        self.tail.addWidget(self._use)
        self.tail.addWidget(self._more)

    def show_version(self, version: EngineVersion) -> None:
        """Show what is so now."""
        self._version = version
        title = {BUNDLED: "Bundled with Roundhouse", OWN: "Your own program"}.get(version.name) or (
            version.variant if version.is_ours else version.name
        )
        self.say(f"{version.version} · {title}" if version.version else title, version.problem or facts(version))
        self._now.setVisible(version.is_current)
        self._before.setVisible(version.is_previous)
        self._on_path.setVisible(version.is_on_path)
        self._failed.setVisible(bool(version.problem))
        self._use.setVisible(not version.is_current)
        self._use.set_text("Test and use" if needs_test(version) else "Roll back" if version.is_previous else "Use")

    def _do_use(self) -> None:
        self._model.use(self._engine, self._version.name)

    def _open_menu(self) -> None:
        menu, version = Menu(self.theme, self, "More"), self._version
        menu.offer("Test it", partial(self._model.test, self._engine, version.name), icon="gauge")
        if version.problem and not (version.is_current or version.is_on_path):
            menu.offer("Use it anyway", partial(self._model.use, self._engine, version.name, force=True))
        if version.is_ours:
            menu.addSeparator()
            menu.offer(
                f"Remove, {words.size(version.size_bytes)}",
                partial(self._model.remove, self._engine, version),
                icon="trash-2",
                is_enabled=not version.is_current,
            )
        menu.aboutToHide.connect(menu.deleteLater)
        menu.popup(self._more.mapToGlobal(QPoint(0, self._more.height())))
