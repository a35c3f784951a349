"""Files that are set to go with a model: a smaller model that drafts for it, and whether they are still there."""

from pathlib import Path

from app.core.errors import BadRequest, NotFound
from app.core.models import ModelInfo
from app.hub.library.library import Library


def draft_path(library: Library, model: ModelInfo, draft_name: str) -> Path:
    """Return the files of a draft that was named. Raises NotFound, or BadRequest for a model that cannot draft."""
    path = Path(draft_name)
    if path.is_absolute():
        return require_file(path)
    draft_model = library.find_model(draft_name)
    if draft_model.attached:
        raise BadRequest(f"{draft_model.name} runs elsewhere and cannot be a draft model.", code="invalid_value")
    if draft_model.format != model.format:
        sentence = (
            f"{draft_model.name} is {draft_model.format}, and {model.name} {model.format}: a draft model needs "
            "the same format as its model."
        )
        raise BadRequest(sentence, code="invalid_value")
    if draft_model.path == model.path and draft_model.name == model.name:
        raise BadRequest(f"{model.name} cannot be its own draft model: that saves nothing.", code="invalid_value")
    return Path(draft_model.path)


def require_file(path: Path) -> Path:
    """Return a path at which something is. Raises NotFound (companion_not_found)."""
    if path.exists():
        return path
    raise NotFound(
        f"{path.name} is set for this model but no longer exists.",
        hint=f"Put it back at {path}, or remove it from the model's settings.",
        code="companion_not_found",
    )
