"""What a request needs of a model, and the refusal when the model has it not, in words that clients look for."""

from collections.abc import Collection

from app.core.errors import BadRequest
from app.gateway.canonical.request import Complete, Generate, Image, Level, Request


def needed(request: Request) -> list[str]:
    """Return Ollama's words for what a request needs, beside plain text."""
    if isinstance(request, Complete):
        return ["completion"] if request.suffix is None else ["insert"]
    wants = {
        "completion": True,
        "tools": bool(request.tools),
        "thinking": request.thinking not in {Level.DEFAULT, Level.OFF},
        "vision": _has_images(request),
    }
    return [ability for ability, is_wanted in wants.items() if is_wanted]


def check(request: Request, capabilities: Collection[str], *, model: str) -> None:
    """Raise BadRequest (model_cannot) for the first thing the model cannot do."""
    lacking = next((ability for ability in needed(request) if ability not in capabilities), None)
    if lacking is not None:
        raise cannot(model, lacking)


def cannot(model: str, ability: str) -> BadRequest:
    """Return the refusal as Ollama words it."""
    return BadRequest(f'"{model}" does not support {ability}', code="model_cannot")


def _has_images(request: Generate) -> bool:
    return any(isinstance(part, Image) for message in request.messages for part in message.parts)
