"""What is loaded beside a model and takes memory too: what drafts for it, its own head, and what it sees with."""

from pathlib import Path

import msgspec

from app.advisor.memory.setting import RunSetting
from app.core.errors import RoundhouseError
from app.core.model_facts import ModelFacts
from app.gateway.advising.model_facts import FactsReader
from engines.api import LaunchOptions


def add_companions(facts: FactsReader, setting: RunSetting, options: LaunchOptions) -> RunSetting:
    """Return the setting with what the options load beside the model. Reads disks: for a thread.

    What cannot be read is the engine's to refuse.
    """
    draft = options.draft
    return msgspec.structs.replace(
        setting,
        has_own_draft=draft is not None and draft.kind == "mtp" and draft.path is None,
        draft=None if draft is None else _read_facts(facts, draft.path),
        projector=_read_facts(facts, options.projector),
    )


def _read_facts(facts: FactsReader, path: Path | None) -> ModelFacts | None:
    if path is None:
        return None
    try:
        return facts.read(path)
    except RoundhouseError:
        return None
