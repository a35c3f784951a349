"""The hub's token: whether there is one and where it is kept, a field to give one, and a way to forget it."""

from PySide6.QtCore import QUrl
from PySide6.QtGui import QDesktopServices

from app.core.hub import HubTokenState, SetHubToken, TokenPlace
from app.core.translation import LazyText, tr
from app.gui.net.api import GatewayApi
from app.gui.screens.settings.secret_card import SecretCard
from app.gui.shell.contract import Shell
from app.gui.theme.theme import Theme
from app.gui.widgets.buttons import Button, ButtonLook

HUB_TOKEN = "hub.token"  # noqa: S105 -- the name of a place on the settings page
_ABOUT = LazyText("Some models require you to accept their terms first. A token proves to the hub that you did.")
_PAGE = "https://huggingface.co/settings/tokens"
_OURS = frozenset({TokenPlace.KEYRING, TokenPlace.FILE})


class TokenCard(SecretCard):
    """Shows a `HubTokenState`."""

    def __init__(self, theme: Theme, api: GatewayApi, shell: Shell) -> None:
        super().__init__(theme, shell, tr("Hugging Face token"), _ABOUT.tr())
        self._api, self._shell = api, shell
        self.field.setAccessibleName(tr("Token for the hub"))
        self.field.setPlaceholderText("hf_…")
        self.keep_button.setAccessibleName(tr("Save the token"))
        self.forget_button.setAccessibleName(tr("Remove the token"))
        self.buttons.addWidget(
            Button(
                theme,
                tr("Create a token"),
                look=ButtonLook.QUIET,
                icon="external-link",
                name=tr("Create a token"),
                action=_open_page,
            )
        )
        self.buttons.addWidget(self.forget_button)
        self._show_state(HubTokenState(place=None, said=""))
        if shell.is_connected:
            self.fetch_state()

    def fetch_state(self) -> None:
        """Read whether there is a token."""
        self._api.get("/hub/token", HubTokenState, self._show_state)

    def submit_secret(self, secret: str) -> None:
        """Have a token kept."""
        self._api.post(
            "/hub/token",
            SetHubToken(token=secret),
            kind=HubTokenState,
            then=self._finish_submit,
            on_error=self.show_error,
        )

    def forget_secret(self) -> None:
        """Have the token forgotten."""
        self._api.delete("/hub/token", self.fetch_state, self.show_error)

    def _finish_submit(self, state: HubTokenState) -> None:
        self.clear_input()
        self._show_state(state)
        self._shell.show_toast(tr("The token was saved."))

    def _show_state(self, state: HubTokenState) -> None:
        self.show_sentence(state.said, can_forget=state.place in _OURS)


def _open_page() -> None:
    QDesktopServices.openUrl(QUrl(_PAGE))
