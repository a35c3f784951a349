"""`roundhouse autocomplete`: which model completes code in editors, and whether it has room beside the chat model."""

from collections.abc import Iterator

import click

from app.cli.gateway import connect_gateway
from app.cli.output import json_option, show_result
from app.core import words
from app.core.errors import BadRequest
from app.core.models import Autocomplete, ChooseAutocomplete


@click.command("autocomplete")
@click.argument("model", required=False, default="")
@click.option("--off", is_flag=True, help="Use no model for code completion.")
@json_option
def autocomplete(*, model: str, off: bool, as_json: bool) -> None:
    """Show the model that completes code in editors, or choose MODEL for that.

    It stays loaded beside the model you chat with while there is room for both. `roundhouse connect` tells editors.
    """
    if model and off:
        raise BadRequest("Name a model or say --off, not both.")
    client = connect_gateway()
    if model or off:
        state = client.post("/autocomplete", ChooseAutocomplete(model=model), Autocomplete)
    else:
        state = client.get("/autocomplete", Autocomplete)
    show_result("autocomplete", state, as_json=as_json, text=_state_lines)


def _state_lines(state: Autocomplete) -> Iterator[str]:
    yield words.format_autocomplete(state)
    others = [name for name in state.choices if name != state.model]
    if others:
        yield f"{'Others' if state.model else 'Models'} here that complete code: {', '.join(others)}."
    if not state.model and not state.choices and state.offer:
        yield f"To have one for this computer: roundhouse pull {state.offer}"
    elif not state.model and others:
        yield f"Choose one: roundhouse autocomplete {others[0]}"
