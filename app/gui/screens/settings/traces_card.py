"""Traces of requests: what came of sending them, the headers that takes, and a test. Where they go is a setting."""

from app.core.errors import BadRequest
from app.core.traces import TRACES_ENDPOINT, SetTraceHeaders, TracesState, parse_header_lines
from app.core.translation import LazyText, tr
from app.gui.net.remote_lists import Stores
from app.gui.screens.settings.secret_card import SecretCard
from app.gui.shell.contract import Shell
from app.gui.theme.theme import Theme
from app.gui.widgets.buttons import Button, ButtonLook

_ABOUT = LazyText("If the collector asks for a key, enter the header it expects. It goes over https, or stays here.")


class TracesCard(SecretCard):
    """Shows a `TracesState`."""

    def __init__(self, theme: Theme, stores: Stores, shell: Shell) -> None:
        super().__init__(theme, shell, tr("Header for traces"), _ABOUT.tr())
        self._api, self._preferences, self._shell = stores.api, stores.preferences, shell
        self._endpoint: object = ""
        self.field.setPlaceholderText(tr("Authorization: Bearer …"))
        self.keep_button.setAccessibleName(tr("Save the header"))
        self.forget_button.setAccessibleName(tr("Remove the header"))
        self.test_button = Button(theme, tr("Send a test"), look=ButtonLook.QUIET, action=self._send_test)
        self.buttons.addWidget(self.test_button)
        self.buttons.addWidget(self.forget_button)
        stores.preferences.changed.connect(self._follow_setting)
        self._show_state(TracesState())
        if shell.is_connected:
            self.fetch_state()

    def fetch_state(self) -> None:
        """Read what came of sending traces."""
        self._api.get("/traces", TracesState, self._show_state)

    def submit_secret(self, secret: str) -> None:
        """Have a header kept."""
        try:
            body = SetTraceHeaders(headers=parse_header_lines(secret))
        except BadRequest as error:
            self.show_error(error.body)
            return
        self._api.post("/traces/headers", body, kind=TracesState, then=self._finish_submit, on_error=self.show_error)

    def forget_secret(self) -> None:
        """Have the headers forgotten."""
        self._api.delete("/traces/headers", self.fetch_state, self.show_error)

    def _follow_setting(self) -> None:
        """Read anew once the collector is another."""
        endpoint = self._preferences.get(TRACES_ENDPOINT, "")
        if endpoint != self._endpoint:
            self._endpoint = endpoint
            self.error.hide()
            self.fetch_state()

    def _send_test(self) -> None:
        self._api.post("/traces/test", None, kind=TracesState, then=self._finish_test, on_error=self.show_error)

    def _finish_submit(self, state: TracesState) -> None:
        self.clear_input()
        self._show_state(state)
        self._shell.show_toast(tr("The header was saved."))

    def _finish_test(self, state: TracesState) -> None:
        self.error.hide()
        self._show_state(state)
        self._shell.show_toast(tr("The collector took a test."))

    def _show_state(self, state: TracesState) -> None:
        headers = tr("Headers: {names}", names=", ".join(state.header_names)) if state.header_names else ""
        self.show_sentence(" ".join(filter(None, (state.sentence, headers))), can_forget=bool(state.header_names))
        self.test_button.setVisible(state.is_on)
