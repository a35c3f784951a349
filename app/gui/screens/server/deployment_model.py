"""State of the files for a cluster: the files as the gateway wrote them, and the folder that they are saved in."""

from pathlib import Path

from PySide6.QtCore import QObject, Signal

from app.client.deployment_files import EXISTS, write_files
from app.core.deployments import Deployment, DeploymentRequest
from app.core.errors import ErrorBody, RoundhouseError
from app.core.translation import tr
from app.gui.net.api import GatewayCall
from app.gui.net.remote_lists import Stores
from app.gui.shell.contract import Command, Shell


class DeploymentModel(QObject):
    """Files for a cluster, as `roundhouse deploy render` writes them."""

    changed = Signal()

    def __init__(self, stores: Stores, shell: Shell) -> None:
        super().__init__(shell)
        self._api, self._shell = stores.api, shell
        self._call = GatewayCall()
        self.is_rendering = False
        self.deployment: Deployment | None = None
        """The files for what was asked last; None after a refusal."""
        self.problem: ErrorBody | None = None

    def render_files(self, request: DeploymentRequest) -> None:
        """Have the gateway write the files as texts."""
        self.is_rendering, self.problem = True, None
        self._call = self._api.post(
            "/deployments/render", request, kind=Deployment, then=self._take_files, on_error=self._show_problem
        )
        self.changed.emit()

    def forget_files(self) -> None:
        """Show the files no longer: what is asked for is something else now."""
        self._call.cancel()
        self.is_rendering, self.deployment, self.problem = False, None, None
        self.changed.emit()

    def save_files(self, folder: Path, *, force: bool = False) -> None:
        """Write the files into a folder; those that are there are overwritten once that is confirmed."""
        if self.deployment is None:
            return
        self.problem = None
        try:
            write_files(folder, self.deployment.files, force=force)
        except RoundhouseError as error:
            self._refuse_saving(folder, error)
        else:
            self._shell.show_toast(tr("The files were saved in {folder}", folder=str(folder)))
        self.changed.emit()

    def copy_file(self, text: str) -> None:
        """Put one file on the clipboard."""
        self._shell.copy_text(text, tr("The file was copied"))

    def _refuse_saving(self, folder: Path, error: RoundhouseError) -> None:
        if error.code != EXISTS:
            self.problem = error.body
            return
        overwrite = Command(tr("Overwrite"), lambda: self.save_files(folder, force=True))
        self._shell.confirm(tr("Overwrite the files in {folder}?", folder=folder.name), error.body.sentence, overwrite)

    def _take_files(self, deployment: Deployment) -> None:
        self.is_rendering, self.deployment = False, deployment
        self.changed.emit()

    def _show_problem(self, error: ErrorBody) -> None:
        self.is_rendering, self.deployment, self.problem = False, None, error
        self.changed.emit()
