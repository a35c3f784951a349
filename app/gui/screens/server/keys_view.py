"""Who may use the endpoint: the switch for other computers with its consequence, and the keys."""

from collections.abc import Callable
from functools import partial

from PySide6.QtCore import Qt
from PySide6.QtGui import QHideEvent, QShowEvent
from PySide6.QtWidgets import QSizePolicy, QWidget

from app.core.keys import MAX_NAME
from app.core.translation import tr
from app.gui.screens.server.key_row import KeyRow
from app.gui.screens.server.keys_model import KeysModel
from app.gui.shell.contract import Shell
from app.gui.theme.theme import Theme
from app.gui.widgets.buttons import Button, Chip
from app.gui.widgets.fields import CopyField, Field
from app.gui.widgets.layout import HBox, Surface, VBox
from app.gui.widgets.panels import Section
from app.gui.widgets.rows import ListRow, RowList, SwitchCard
from app.gui.widgets.text import Paragraph

_NAME_WIDTH = 200


class KeysSection(Section):
    """Shows a `KeysModel`. `restart` starts the service anew: only then does the switch count."""

    def __init__(self, theme: Theme, model: KeysModel, shell: Shell, *, restart: Callable[[], object]) -> None:
        super().__init__(theme, tr("Keys"))
        self._theme, self.model, self._shell = theme, model, shell
        self._make_head()
        self.body.addWidget(self._make_new_key_card())
        self._list = RowList(theme, tr("Keys"))
        self._none = Surface(theme)
        self._none.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        none = ListRow(theme, tr("No keys"), tr("Programs on this computer need none."))
        VBox(theme, self._none, margins=(0, 4, 0, 4)).addWidget(none)
        self.body.addWidget(self._list)
        self.body.addWidget(self._none)
        self.wider = SwitchCard(theme, tr("Allow other computers"), action=model.open_to_others)
        self.restart_button = Button(theme, tr("Restart the service"), action=restart)
        self.wider.tools.insertWidget(0, self.restart_button)
        self.body.addWidget(self.wider)
        model.changed.connect(self._show_keys)
        self._show_keys()

    def showEvent(self, event: QShowEvent) -> None:  # noqa: N802 -- Qt's name
        """Keep up with what keys are used for."""
        self.model.watch_use(is_seen=True)
        super().showEvent(event)

    def hideEvent(self, event: QHideEvent) -> None:  # noqa: N802 -- Qt's name
        """Leave that be."""
        self.model.watch_use(is_seen=False)
        super().hideEvent(event)

    def _make_head(self) -> None:
        theme = self._theme
        self.name = Field(theme, tr("Name of the new key"), placeholder=tr("Name"))
        self.name.setMaxLength(MAX_NAME)
        self.name.setMaximumWidth(theme.px(_NAME_WIDTH))
        self.may_manage = Chip(theme, tr("May manage"))
        self.may_manage.setCheckable(True)
        self.make_button = Button(theme, tr("Create a key"), action=self._make_key)
        self.name.returnPressed.connect(self._make_key)
        self.name.textChanged.connect(lambda _text: self._show_keys())
        for widget in (self.name, self.may_manage, self.make_button):
            self.head.addWidget(widget, 0, Qt.AlignmentFlag.AlignVCenter)

    def _make_new_key_card(self) -> QWidget:
        theme = self._theme
        self.new_key_card = card = Surface(theme, fill="accent-soft", outline="")
        card.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        box = VBox(theme, card, margins=(16, 12, 16, 12), gap=4)
        self._new_key_words = Paragraph(theme, weight=500)
        box.addWidget(self._new_key_words)
        line = HBox(theme, gap=8)
        self.new_key_field = CopyField(
            theme, tr("The new key"), partial(self._shell.copy_text, message=tr("The key was copied"))
        )
        line.addWidget(self.new_key_field)
        line.addStretch(1)
        line.addWidget(Button(theme, tr("Done"), name=tr("Hide the new key"), action=self.model.put_away))
        box.addLayout(line)
        return card

    def _make_key(self) -> None:
        if self.name.text().strip():
            self.model.make(self.name.text(), may_manage=self.may_manage.isChecked())
            self.name.clear()
            self.may_manage.setChecked(False)

    def _show_keys(self) -> None:
        model = self.model
        self.make_button.setEnabled(bool(self.name.text().strip()) and model.is_known)
        self.new_key_card.setVisible(model.new_key is not None)
        if model.new_key is not None:
            self._new_key_words.setText(
                tr("The key {name}. Copy it now: it will not be shown again.", name=model.new_key.name)
            )
            self.new_key_field.set_value(model.new_key.key)
        else:
            self.new_key_field.set_value("")
        self._list.sync(
            {key.id: key for key in model.items},
            lambda key: KeyRow(self._theme, model, key),
            KeyRow.show_key,
        )
        self._list.setVisible(bool(model.items))
        self._none.setVisible(not model.items)
        self._show_switch()

    def _show_switch(self) -> None:
        model = self.model
        self.wider.show_switch(is_on=model.is_open, consequence=model.consequence, why_fixed=model.why_fixed)
        self.restart_button.setVisible(model.waits_for_restart)
