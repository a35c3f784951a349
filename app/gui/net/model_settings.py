"""One thing changed about what is set for a model, wherever on the window that is asked for."""

from collections.abc import Callable

from app.client.http import segment
from app.core import words
from app.core.models import ModelChoices, ModelSettings, SetModel
from app.gui.net.api import Failed, GatewayApi
from app.gui.shell.contract import Command, Shell

Change = Callable[[ModelSettings], ModelSettings]
_TRUST = (
    "Allow it only if you trust its publisher as you would trust the publisher of a program. You can revoke this in "
    "the model's settings."
)


def alter(
    api: GatewayApi, model: str, change: Change, *, then: Callable[[ModelSettings], object], failed: Failed
) -> None:
    """Set what `change` makes of a model's settings; `then` gets what they were before."""

    def take(shown: ModelChoices) -> None:
        body = SetModel(model=model, settings=change(shown.settings))
        api.post("/model-settings", body, kind=ModelSettings, then=lambda _: then(shown.settings), failed=failed)

    api.get(f"/model-settings/{segment(model)}", ModelChoices, take, failed)


def ask_to_allow(shell: Shell, title: str, allow: Callable[[], object]) -> None:
    """Ask whether a model's own code may run, and what that means."""
    shell.confirm(f"Allow the code of {title}?", f"{words.CODE_MEANING} {_TRUST}", Command("Allow", allow))
