"""This computer as paired ones see it, and those: for their page."""

from app.core.events import Event, MachinesChanged
from app.core.machines import MachineList
from app.gui.net.api import GatewayApi
from app.gui.net.remote import RemoteStore
from app.gui.shell.contract import Shell


class MachineListStore(RemoteStore[MachineList]):
    """The paired computers, what they have, and how they stand."""

    def __init__(self, api: GatewayApi, shell: Shell) -> None:
        super().__init__(api, shell, "/machines", MachineList)

    def is_outdated_by(self, event: Event) -> bool:
        """Tell whether a computer, or what is known of it, is not what it was."""
        return isinstance(event, MachinesChanged)
