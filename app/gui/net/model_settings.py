"""One thing changed about what is set for a model, wherever on the window that is asked for."""

from collections.abc import Callable

from app.client.http import quote_segment
from app.core import words
from app.core.models import ModelChoices, ModelSettings, SetModel
from app.core.translation import tr
from app.gui.net.api import ErrorHandler, GatewayApi
from app.gui.shell.contract import Command, Shell

SettingsChange = Callable[[ModelSettings], ModelSettings]


def change_model_settings(
    api: GatewayApi,
    model: str,
    change: SettingsChange,
    *,
    then: Callable[[ModelSettings], object],
    on_error: ErrorHandler,
) -> None:
    """Set what `change` makes of a model's settings; `then` gets what they were before."""

    def send_change(choices: ModelChoices) -> None:
        body = SetModel(model=model, settings=change(choices.settings))
        api.post("/model-settings", body, kind=ModelSettings, then=lambda _: then(choices.settings), on_error=on_error)

    api.get(f"/model-settings/{quote_segment(model)}", ModelChoices, send_change, on_error)


def ask_to_allow(shell: Shell, title: str, allow: Callable[[], object]) -> None:
    """Ask whether a model's own code may run, and what that means."""
    trust = tr(
        "Allow it only if you trust its publisher as you would trust the publisher of a program. You can revoke this "
        "in the model's settings."
    )
    shell.confirm(
        tr("Allow the code of {title}?", title=title), f"{words.CODE_MEANING} {trust}", Command(tr("Allow"), allow)
    )
