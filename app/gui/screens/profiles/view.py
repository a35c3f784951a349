"""The page of profiles: a card for each, and the form that keeps what is loaded now as another."""

from functools import partial

from PySide6.QtCore import QPoint
from PySide6.QtWidgets import QSizePolicy, QWidget

from app.core.errors import ErrorBody
from app.core.profiles import Profile, ProfileCause, ProfileModel, format_hours
from app.core.translation import LazyText, tr, tr_list
from app.gui.net.remote_lists import Stores
from app.gui.screens.profiles.model import (
    ProfileFields,
    ProfilesModel,
    describe_plan,
    describe_profile,
    describe_switch,
    describe_terms,
    parse_profile,
)
from app.gui.shell.contract import PageId as Pages
from app.gui.shell.contract import Shell
from app.gui.theme.theme import Theme
from app.gui.widgets.buttons import Button, ButtonLook, IconButton, Toggle
from app.gui.widgets.fields import Field
from app.gui.widgets.flow_layout import FlowLayout
from app.gui.widgets.layout import HBox, Surface, VBox
from app.gui.widgets.menus import DropDown, Menu
from app.gui.widgets.panels import EmptyState, ErrorPanel, Fold, PageFrame
from app.gui.widgets.rows import CardList, ListRow, RowList
from app.gui.widgets.status import Dot, Skeleton
from app.gui.widgets.text import Label, Paragraph

_ABOUT = LazyText(
    "A profile is a set of models with their contexts, pins and names. Using one loads and unloads only what differs, "
    "waits for answers that are being written, and can be undone. Your settings stay as they are."
)
_FORM_EXAMPLES = {
    "aliases": "gpt-*=qwen3-8b, claude-*=qwen3-8b",
    "hours": "mon-fri 22:00-06:00; sat,sun 10:00-12:00",
}
_CONTEXT_WIDTH = 120
_NAME_WIDTH = 320


class ProfilesScreen(PageFrame):
    """Shows a `ProfilesModel`."""

    def __init__(self, theme: Theme, stores: Stores, shell: Shell) -> None:
        super().__init__(theme, tr("Profiles"))
        self.model = ProfilesModel(stores, shell)
        back = partial(shell.show_page, Pages.MODELS)
        self.head.addWidget(Button(theme, tr("Models"), look=ButtonLook.QUIET, icon="chevron-left", action=back))
        self.error, self._skeleton = ErrorPanel(theme), Skeleton(theme, 3, is_card=True)
        self.form = ProfileForm(theme, self.model)
        self._next = Paragraph(theme, role="meta", color="ink-2")
        self._problems = Paragraph(theme, role="meta", color="bad")
        self._nothing = EmptyState(
            theme,
            "bookmark",
            tr("No profiles yet"),
            tr("Load models you use together, and keep them under a name."),
        )
        self._list = CardList(theme)
        self.body.addWidget(Paragraph(theme, _ABOUT.tr(), color="ink-2"))
        for widget in (
            self.form,
            self.error,
            self._next,
            self._problems,
            self._skeleton,
            self._nothing,
            self._list,
        ):
            self.body.addWidget(widget)
        self.body.addStretch(1)
        self.model.changed.connect(self._show_profiles)
        self._show_profiles()

    def find_card(self, name: str) -> "ProfileCard":
        """Return the card of a profile. Raises KeyError."""
        card = self._list.rows[name]
        assert isinstance(card, ProfileCard)  # noqa: S101 -- made by this class
        return card

    def _show_profiles(self) -> None:
        model, state = self.model, self.model.state
        self._skeleton.setVisible(not model.store.is_known and model.store.error is None)
        self._nothing.setVisible(model.store.is_known and not state.profiles)
        self.error.show_problem(model.problem)
        self._next.setText(describe_switch(state.next_switch) if state.next_switch is not None else "")
        self._next.setVisible(state.next_switch is not None)
        self._problems.setText("\n".join(state.problems))
        self._problems.setVisible(bool(state.problems))
        self._list.sync(
            {profile.name: profile for profile in state.profiles},
            lambda profile: ProfileCard(self.theme, model, profile.name),
            ProfileCard.show_profile,
        )


class ProfileForm(Surface):
    """Keeps what is loaded now under a name."""

    def __init__(self, theme: Theme, model: ProfilesModel) -> None:
        super().__init__(theme)
        self._model = model
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        box = VBox(theme, self, margins=(16, 12, 16, 12), gap=8)
        box.addWidget(Label(theme, tr("Keep what is loaded now"), weight=500))
        line = HBox(theme, gap=8)
        self.name = Field(theme, tr("Name of the profile"), placeholder=tr("Coding"))
        self.name.setMaximumWidth(theme.px(_NAME_WIDTH))
        self.save = Button(theme, tr("Save"), name=tr("Save the profile"), action=self._submit)
        self.name.returnPressed.connect(self._submit)
        self.name.textChanged.connect(self._show_button)
        line.addWidget(self.name, 1)
        line.addWidget(self.save)
        line.addStretch(1)
        box.addLayout(line)
        model.added.connect(self.name.clear)
        self._show_button()

    def _submit(self) -> None:
        if name := " ".join(self.name.text().split()):
            self._model.save_present(name)

    def _show_button(self) -> None:
        self.save.setEnabled(bool(self.name.text().strip()))


class ProfileCard(Surface):
    """One profile: what is in it, whether it is active, and what switching to it would do."""

    def __init__(self, theme: Theme, model: ProfilesModel, name: str) -> None:
        super().__init__(theme)
        self._model, self._name = model, name
        self._profile = Profile(name=name)
        self.setAccessibleName(name)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        box = VBox(theme, self, margins=(0, 4, 0, 12), gap=4)
        self.row = ListRow(theme, name)
        self._dot = Dot(theme)
        self.row.lead.addWidget(self._dot)
        self.more = IconButton(theme, "ellipsis", tr("More about {name}", name=name), action=self._open_menu)
        self.row.tail.addWidget(self.more)
        box.addWidget(self.row)
        inner = VBox(theme, margins=(16, 0, 16, 0), gap=8)
        box.addLayout(inner)
        self._models = Paragraph(theme)
        self._terms, self._plan = Paragraph(theme, role="meta", color="ink-2"), Paragraph(theme, role="meta")
        buttons = QWidget()
        flow = FlowLayout(theme, buttons, gap=8)
        self.use = Button(theme, tr("Use"), icon="play", name=tr("Use {name}", name=name), action=self._toggle)
        self.preview = Button(
            theme,
            tr("What it would do"),
            look=ButtonLook.QUIET,
            name=tr("What using {name} would do", name=name),
            action=partial(model.preview_switch, name),
        )
        flow.addWidget(self.use)
        flow.addWidget(self.preview)
        self.editor = ProfileEditor(theme, model, name)
        self.fold = Fold(theme, tr("Edit"), self.editor)
        for widget in (self._models, self._terms, self._plan, buttons, self.fold):
            inner.addWidget(widget)

    def show_profile(self, profile: Profile) -> None:
        """Show what is so now."""
        state, is_new = self._model.state, profile != self._profile
        self._profile = profile
        is_active = state.active == profile.name
        self.row.show_text(profile.name, self._describe_state(is_active=is_active))
        self._dot.show_state("ok" if is_active else "edge", tr("Active") if is_active else tr("Not active"))
        self._models.setText(describe_profile(profile))
        self._terms.setText(describe_terms(profile))
        self._terms.setVisible(bool(self._terms.text()))
        plan = self._model.plans.get(profile.name)
        self._plan.setText("\n".join(describe_plan(plan)) if plan is not None else "")
        self._plan.setVisible(plan is not None)
        self.use.set_text(tr("Stop using") if is_active else tr("Use"))
        self.use.set_icon("square" if is_active else "play")
        self.preview.setVisible(not is_active)
        if is_new:
            self.editor.show_profile(profile)
        self.editor.offer_models()

    def _describe_state(self, *, is_active: bool) -> str:
        state = self._model.state
        if not is_active:
            return ""
        if state.loading:
            return tr("Active · loading {models}", models=tr_list(state.loading))
        return tr("Active by its hours") if state.cause is ProfileCause.HOURS else tr("Active")

    def _toggle(self) -> None:
        self._model.use_profile("" if self._model.state.active == self._name else self._name)

    def _open_menu(self) -> None:
        menu = Menu(self.theme, self, self._name)
        menu.add_entry(
            tr("Replace with what is loaded now"), partial(self._model.save_present, self._name), icon="refresh-cw"
        )
        menu.add_entry(tr("Remove"), partial(self._model.remove_profile, self._name), icon="trash-2")
        menu.popup(self.more.mapToGlobal(QPoint(0, self.more.height())))


class ProfileEditor(QWidget):
    """The fields of a profile. Nothing changes before Save."""

    def __init__(self, theme: Theme, model: ProfilesModel, name: str) -> None:
        super().__init__()
        self._theme, self._model, self._name = theme, model, name
        box = VBox(theme, self, margins=(0, 4, 0, 0), gap=8)
        self.models = RowList(theme, tr("Models of {name}", name=name))
        self.add = DropDown(theme, tr("Add a model"), [("", tr("Add a model…"))])
        self.add.chosen.connect(self._add_model)
        self.name = Field(theme, tr("Name of the profile"))
        self.default = DropDown(theme, tr("Answers for auto"), [("", tr("The one used last"))])
        self.aliases = Field(theme, tr("Aliases"), placeholder=_FORM_EXAMPLES["aliases"])
        self.hours = Field(theme, tr("Hours"), placeholder=_FORM_EXAMPLES["hours"])
        self._wrong = Paragraph(theme, role="meta", color="bad")
        self._wrong.hide()
        self.save = Button(theme, tr("Save"), name=tr("Save {name}", name=name), action=self._submit)
        box.addWidget(self.models)
        box.addWidget(self.add)
        for words, field in (
            (tr("Name"), self.name),
            (tr("Answers for auto"), self.default),
            (tr("Aliases"), self.aliases),
            (tr("Hours, by this computer's clock"), self.hours),
        ):
            box.addWidget(Label(theme, words, role="meta", color="ink-2"))
            box.addWidget(field)
        box.addWidget(self._wrong)
        box.addWidget(self.save)
        self._entries: dict[str, ProfileModel] = {}

    def show_profile(self, profile: Profile) -> None:
        """Fill the fields with a profile as it is kept."""
        self._entries = {entry.model: entry for entry in profile.models}
        self.name.setText(profile.name)
        self.default.set_value(profile.default)
        self.aliases.setText(", ".join(profile.aliases))
        self.hours.setText(format_hours(profile.hours))
        self._show_wrong(None)
        self._show_models()

    def offer_models(self) -> None:
        """Offer the models that are here now."""
        models = self._model.list_models()
        others = [(model.name, model.title) for model in models if model.name not in self._entries]
        self.add.set_options([("", tr("Add a model…")), *others])
        self.add.setVisible(bool(others))
        self.default.set_options([("", tr("The one used last")), *((model.name, model.title) for model in models)])

    def _show_models(self) -> None:
        self.models.sync(
            self._entries, lambda entry: ModelEntryRow(self._theme, self, entry.model), ModelEntryRow.show_entry
        )
        self.models.setVisible(bool(self._entries))
        self.offer_models()

    def remove_model(self, name: str) -> None:
        """Take a model out."""
        self._entries = {model: entry for model, entry in self._read_rows().items() if model != name}
        self._show_models()

    def _add_model(self, name: str) -> None:
        self.add.set_value("")
        if name:
            self._entries = {**self._read_rows(), name: ProfileModel(model=name)}
            self._show_models()

    def _read_rows(self) -> dict[str, ProfileModel]:
        rows = [row for row in self.models.rows.values() if isinstance(row, ModelEntryRow)]
        return {row.model: row.read_entry() for row in rows}

    def _submit(self) -> None:
        fields = ProfileFields(
            name=self.name.text() or self._name,
            models=list(self._read_rows().values()),
            default=self.default.value,
            aliases=self.aliases.text(),
            hours=self.hours.text(),
        )
        profile = parse_profile(fields)
        self._show_wrong(profile if isinstance(profile, ErrorBody) else None)
        if isinstance(profile, Profile):
            self._model.change_profile(self._name, profile)

    def _show_wrong(self, error: ErrorBody | None) -> None:
        self._wrong.setText(error.sentence if error is not None else "")
        self._wrong.setVisible(error is not None)
        self.hours.set_wrong(error is not None)


class ModelEntryRow(ListRow):
    """One model of a profile that is edited."""

    def __init__(self, theme: Theme, editor: ProfileEditor, model: str) -> None:
        super().__init__(theme, model)
        self.model = model
        self.context = Field(theme, tr("Context of {model}", model=model), placeholder=tr("Context as set"))
        self.context.setFixedWidth(theme.px(_CONTEXT_WIDTH))
        self.pinned = Toggle(theme, tr("Keep {model} loaded", model=model))
        self.loaded = Toggle(theme, tr("Load {model} on switching", model=model))
        self.remove = IconButton(
            theme, "x", tr("Take {model} out", model=model), action=partial(editor.remove_model, model)
        )
        self.tail.addWidget(self.context)
        for words, toggle in ((tr("Pinned"), self.pinned), (tr("Load"), self.loaded)):
            self.tail.addWidget(Label(theme, words, role="meta", color="ink-2"))
            self.tail.addWidget(toggle)
        self.tail.addWidget(self.remove)

    def show_entry(self, entry: ProfileModel) -> None:
        """Show what the profile says of the model."""
        self.context.setText(str(entry.context) if entry.context else "")
        self.pinned.setChecked(entry.is_pinned)
        self.loaded.setChecked(entry.is_loaded)

    def read_entry(self) -> ProfileModel:
        """Return what was chosen. A context that is no number is sent as none."""
        text = self.context.text().strip()
        context = int(text) if text.isdecimal() and text.isascii() else None
        return ProfileModel(
            model=self.model, is_pinned=self.pinned.isChecked(), is_loaded=self.loaded.isChecked(), context=context
        )
