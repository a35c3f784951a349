"""The profiles, as the gateway has them, and switching from one to another: for the page, the tray and the palette."""

from app.core.errors import ErrorBody
from app.core.events import Event, ProfilesChanged
from app.core.profiles import ProfileList, ProfilePlan, UseProfile
from app.core.translation import tr
from app.gui.net.api import GatewayApi
from app.gui.net.remote import RemoteStore
from app.gui.shell.contract import Shell

_NOTHING = ProfileList()


class ProfileListStore(RemoteStore[ProfileList]):
    """Every profile, which is active, and the next switch."""

    def __init__(self, api: GatewayApi, shell: Shell) -> None:
        super().__init__(api, shell, "/profiles", ProfileList)
        self._shell = shell

    @property
    def state(self) -> ProfileList:
        """How it stands."""
        return self.value or _NOTHING

    def is_outdated_by(self, event: Event) -> bool:
        """Tell whether a profile, or which is active, is not what it was."""
        return isinstance(event, ProfilesChanged)

    def use_profile(self, name: str) -> None:
        """Make a profile the active one, or with an empty name none."""
        self.api.post(
            "/profile/use", UseProfile(name=name), kind=ProfilePlan, then=self._finish_switch, on_error=self._show_error
        )

    def undo_switch(self) -> None:
        """Take the last switch back."""
        self.api.post(
            "/profile/undo", None, kind=ProfilePlan, then=lambda _plan: self.read(), on_error=self._show_error
        )

    def _finish_switch(self, plan: ProfilePlan) -> None:
        self.read()
        sentence = tr("{name} is active now", name=plan.profile) if plan.profile else tr("No profile is active now")
        self._shell.show_toast(sentence, self.undo_switch)

    def _show_error(self, error: ErrorBody) -> None:
        self._shell.show_toast(error.sentence)
