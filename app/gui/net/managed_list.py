"""What a page changes of the gateway's: what was refused is kept until dismissed, removals are confirmed."""

from collections.abc import Callable
from typing import Generic, TypeVar

from PySide6.QtCore import QObject, Signal

from app.core.errors import ErrorBody
from app.core.translation import tr
from app.gui.net.remote import RemoteList, RemoteStore
from app.gui.shell.contract import Command, Shell

T = TypeVar("T")


class ManagedStore(QObject, Generic[T]):
    """The value of a store. `changed`: it, or what is wrong, is not what it was."""

    changed = Signal()
    added = Signal()
    """What was asked for is there."""

    def __init__(self, store: RemoteStore[T], shell: Shell) -> None:
        super().__init__(shell)
        self.api, self.shell, self.store = store.api, shell, store
        self.refusal: ErrorBody | None = None
        """Why the last thing that was asked for was not done."""
        store.changed.connect(self.changed)

    @property
    def problem(self) -> tuple[ErrorBody, str, Callable[[], object]] | None:
        """What is wrong, with the words of the button for it and what that does; None while nothing is."""
        if self.store.error is not None:
            return self.store.error, tr("Try again"), self.store.read
        if self.refusal is not None:
            return self.refusal, tr("Dismiss"), self.dismiss_refusal
        return None

    def dismiss_refusal(self) -> None:
        """Say no more what went wrong."""
        if self.refusal is not None:
            self.refusal = None
            self.changed.emit()

    def finish_change(self) -> None:
        """Show what is so after something that was asked for has been done."""
        self.dismiss_refusal()
        self.store.read()

    def finish_adding(self) -> None:
        """Show what was added, and say that it is there."""
        self.finish_change()
        self.added.emit()

    def show_refusal(self, error: ErrorBody) -> None:
        """Say why something was not done."""
        self.refusal = error
        self.changed.emit()

    def confirm_removal(self, name: str, path: str, sentence: str) -> None:
        """Remove what is at `path`, once that is confirmed; `sentence` says what goes with it."""

        def finish_removal() -> None:
            self.store.read()
            self.shell.show_toast(tr("{name} was removed.", name=name))

        def delete() -> None:
            self.api.delete(path, finish_removal, self.show_refusal)

        title = tr("Remove {name}?", name=name)
        self.shell.confirm(title, sentence, Command(tr("Remove"), delete, icon="trash-2"))


class ManagedList(ManagedStore[list[T]], Generic[T]):
    """The entries of a list."""

    store: RemoteList[T]

    def __init__(self, store: RemoteList[T], shell: Shell) -> None:
        super().__init__(store, shell)
