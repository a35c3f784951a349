"""The hub's token: whether there is one and where it is kept, a field to give one, and a way to forget it."""

from PySide6.QtCore import QUrl
from PySide6.QtGui import QDesktopServices
from PySide6.QtWidgets import QLineEdit, QSizePolicy

from app.core.errors import ErrorBody
from app.core.hub import HubTokenState, SetHubToken, TokenPlace
from app.core.translation import LazyText, tr
from app.gui.net.api import GatewayApi
from app.gui.shell.contract import Shell
from app.gui.theme.theme import Theme
from app.gui.widgets.buttons import Button, ButtonLook
from app.gui.widgets.fields import Field
from app.gui.widgets.flow_layout import FlowLayout
from app.gui.widgets.layout import HBox, Surface, VBox
from app.gui.widgets.panels import ErrorPanel, Section
from app.gui.widgets.text import Paragraph

HUB_TOKEN = "hub.token"  # noqa: S105 -- the name of a place on the settings page
_ABOUT = LazyText("Some models require you to accept their terms first. A token proves to the hub that you did.")
_PAGE = "https://huggingface.co/settings/tokens"
_OURS = frozenset({TokenPlace.KEYRING, TokenPlace.FILE})


class TokenCard(Section):
    """Shows a `HubTokenState`. The token is never shown: what is typed is hidden, and gone once it is kept."""

    def __init__(self, theme: Theme, api: GatewayApi, shell: Shell) -> None:
        super().__init__(theme, tr("Hugging Face token"))
        self._api, self._shell = api, shell
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        sheet = Surface(theme)
        sheet.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        box = VBox(theme, sheet, margins=(16, 12, 16, 12), gap=8)
        self.state_text = Paragraph(theme, weight=500)
        box.addWidget(self.state_text)
        box.addWidget(Paragraph(theme, _ABOUT.tr(), role="meta", color="ink-2"))
        line = HBox(theme, gap=8)
        self.field = Field(theme, tr("Token for the hub"), placeholder="hf_…")
        self.field.setEchoMode(QLineEdit.EchoMode.Password)
        self.field.returnPressed.connect(self._submit_token)
        self.field.textChanged.connect(self._show_button)
        self.keep_button = Button(theme, tr("Save"), name=tr("Save the token"), action=self._submit_token)
        line.addWidget(self.field, 1)
        line.addWidget(self.keep_button)
        box.addLayout(line)
        self.error = ErrorPanel(theme)
        box.addWidget(self.error)
        buttons = FlowLayout(theme, gap=8)
        self.forget_button = Button(
            theme, tr("Remove"), look=ButtonLook.DANGER, name=tr("Remove the token"), action=self._forget_token
        )
        buttons.addWidget(
            Button(
                theme,
                tr("Create a token"),
                look=ButtonLook.QUIET,
                icon="external-link",
                name=tr("Create a token"),
                action=_open_page,
            )
        )
        buttons.addWidget(self.forget_button)
        box.addLayout(buttons)
        self.body.addWidget(sheet)
        shell.connected.connect(self._fetch_state)
        if shell.is_connected:
            self._fetch_state()
        self._show_state(HubTokenState(place=None, said=""))
        self._show_button()

    def _fetch_state(self) -> None:
        self._api.get("/hub/token", HubTokenState, self._show_state)

    def _submit_token(self) -> None:
        if self.keep_button.isEnabled():
            body = SetHubToken(token=self.field.text().strip())
            self._api.post("/hub/token", body, kind=HubTokenState, then=self._finish_submit, failed=self._show_error)

    def _finish_submit(self, state: HubTokenState) -> None:
        self.field.clear()
        self.error.hide()
        self._show_state(state)
        self._shell.show_toast(tr("The token was saved."))

    def _show_error(self, error: ErrorBody) -> None:
        self.error.show_error(error)

    def _forget_token(self) -> None:
        self._api.delete("/hub/token", self._fetch_state, self._show_error)

    def _show_state(self, state: HubTokenState) -> None:
        self.state_text.setText(state.said)
        self.state_text.setVisible(bool(state.said))
        self.forget_button.setVisible(state.place in _OURS)

    def _show_button(self) -> None:
        self.keep_button.setEnabled(bool(self.field.text().strip()))


def _open_page() -> None:
    QDesktopServices.openUrl(QUrl(_PAGE))
