"""The library of presets as the chat page has it: read from the gateway, used in the open chat, kept and removed."""

from collections.abc import Callable, Sequence
from pathlib import Path

from PySide6.QtCore import QObject, Signal

from app.client.http import quote_segment
from app.core.errors import BadRequest, ErrorBody, write_fault
from app.core.events import Event, PresetsChanged
from app.core.presets import ChatPreset, PresetImport, PresetImportResult, SavePreset, read_presets, write_presets
from app.core.translation import tr, tr_list, tr_plural
from app.gui.net.api import GatewayApi
from app.gui.net.remote import RemoteList
from app.gui.screens.chat.conversation import Conversation
from app.gui.shell.contract import Shell

_LARGEST_FILE = 16 << 20
"""Bytes: what the gateway takes in one request by default is more."""

_SHOWN_NAMES = 4


def _do_nothing() -> None:
    pass


class PresetStore(RemoteList[ChatPreset]):
    """All presets, by name."""

    def __init__(self, api: GatewayApi, shell: Shell) -> None:
        super().__init__(api, shell, "/presets", list[ChatPreset])

    def is_outdated_by(self, event: Event) -> bool:
        """Tell whether the library is not what it was."""
        return isinstance(event, PresetsChanged)


class PresetLibrary(QObject):
    """What the page does with presets. `prompt_filled`: the question of a preset that is used."""

    prompt_filled = Signal(str)
    toast_requested = Signal(str, object)
    failed = Signal(object)

    def __init__(self, api: GatewayApi, shell: Shell, conversation: Conversation) -> None:
        super().__init__(shell)
        self._api, self._conversation = api, conversation
        self.store = PresetStore(api, shell)

    def use_preset(self, preset: ChatPreset) -> None:
        """Take a preset, whose variables are filled in, into the open chat."""
        conversation = self._conversation
        if preset.model:
            conversation.choose_model(preset.model)
        if preset.system_prompt:
            conversation.set_system_prompt(preset.system_prompt)
        conversation.set_sampling(preset.sampling)
        if preset.prompt:
            self.prompt_filled.emit(preset.prompt)

    def make_preset(self, name: str, prompt: str) -> ChatPreset:
        """Return what the open chat has as a preset."""
        conversation = self._conversation
        return ChatPreset(
            name=name,
            model=conversation.model,
            system_prompt=conversation.system_prompt,
            prompt=prompt,
            sampling=conversation.sampling,
        )

    def find_preset(self, name: str) -> ChatPreset | None:
        """Return the preset that has a name, whatever its case."""
        return next((preset for preset in self.store.items if preset.name.casefold() == name.casefold()), None)

    def save_preset(self, preset: ChatPreset) -> None:
        """Keep a preset; Undo brings the one back whose name it took, or removes it."""
        before = self.find_preset(preset.name)
        sentence = (
            tr("“{name}” is replaced.", name=preset.name) if before else tr("“{name}” is saved.", name=preset.name)
        )

        def undo() -> None:
            if before is None:
                self._delete(preset.name)
            else:
                self._post(before)

        self._post(preset, lambda: self.toast_requested.emit(sentence, undo))

    def remove_preset(self, preset: ChatPreset) -> None:
        """Forget a preset, with a way back."""
        sentence = tr("“{name}” is removed.", name=preset.name)
        self._delete(preset.name, lambda: self.toast_requested.emit(sentence, lambda: self._post(preset)))

    def export_presets(self, path: Path) -> None:
        """Write all of them to a file."""
        presets = self.store.items
        try:
            path.write_bytes(write_presets(presets))
        except OSError as error:
            self.failed.emit(write_fault(tr("the file"), error, place=str(path.parent)).body)
            return
        words = tr_plural("{count} preset is exported.", "{count} presets are exported.", len(presets))
        self.toast_requested.emit(words, None)

    def import_presets(self, path: Path) -> None:
        """Add the presets of a file."""
        try:
            content = path.read_bytes() if path.stat().st_size <= _LARGEST_FILE else b""
            presets, left_out = read_presets(content)
        except OSError:
            sentence = tr("{name} could not be read.", name=path.name)
            self.failed.emit(ErrorBody(code="unreadable_file", sentence=sentence))
            return
        except BadRequest as error:
            self.failed.emit(error.body)
            return
        body = PresetImport(presets=presets)
        self._api.post(
            "/presets/import",
            body,
            kind=PresetImportResult,
            then=lambda result: self._tell_import(result, left_out),
            on_error=self.failed.emit,
        )

    def _tell_import(self, result: PresetImportResult, left_out: Sequence[str]) -> None:
        parts = [tr_plural("{count} preset was added.", "{count} presets were added.", len(result.added))]
        if result.unchanged:
            parts.append(tr_plural("{count} was here already.", "{count} were here already.", result.unchanged))
        if left_out:
            parts.append(_describe_left_out(left_out))
        self.toast_requested.emit(" ".join(parts), None)

    def _post(self, preset: ChatPreset, then: Callable[[], object] = _do_nothing) -> None:
        body = SavePreset(preset=preset, replaces=True)
        self._api.post("/presets", body, kind=ChatPreset, then=lambda _: then(), on_error=self.failed.emit)

    def _delete(self, name: str, then: Callable[[], object] = _do_nothing) -> None:
        self._api.delete(f"/presets/{quote_segment(name)}", then=then, on_error=self.failed.emit)


def _describe_left_out(names: Sequence[str]) -> str:
    """Return which settings of another program mean nothing here."""
    more = len(names) - _SHOWN_NAMES
    if more > 0:
        return tr("Not taken over: {names} and {count} more.", names=", ".join(names[:_SHOWN_NAMES]), count=more)
    return tr("Not taken over: {names}.", names=tr_list(names))
