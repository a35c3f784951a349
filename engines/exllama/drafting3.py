"""What drafts for a model with ExLlamaV3: its own head, another model, or words that stand in the text already."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from engines.exllama.backend import check_vocabularies

_DRAFTED = 4
"""The library's own number where a model does not say how many tokens it drafts."""
_LEAST_MATCH = 2
"""Of so many tokens before, the same must have stood in the text already for the next ones to be drafted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftPlan:
    """`model` is the library's, not loaded; None where nothing or the text itself drafts."""

    kind: str = ""
    model: Any = None
    tokens: int = 0

    @staticmethod
    def make_plan(library: Any, settings: Any, wish: Any) -> "DraftPlan":  # noqa: ANN401 -- the library's own, and JSON
        """Return what was asked for. Raises ValueError for a model of another vocabulary."""
        if not isinstance(wish, Mapping):
            return DraftPlan()
        kind, tokens = str(wish["kind"]), int(wish["tokens"])
        if kind == "ngram":
            return DraftPlan(kind=kind, tokens=tokens)
        if kind == "mtp":
            head = library.Model.from_config(settings, component="mtp")
            return DraftPlan(kind=kind, model=head, tokens=head.caps.get("default_draft_size", _DRAFTED))
        own = library.Config.from_directory(str(wish["path"]))
        check_vocabularies(settings.vocab_size, own.vocab_size)
        model = library.Model.from_config(own)
        return DraftPlan(kind=kind, model=model, tokens=model.caps.get("default_draft_size", tokens))

    @property
    def load_stage(self) -> str:
        """What loading it is called."""
        return "Reading the head that drafts" if self.kind == "mtp" else "Reading the draft model"

    def generator_arguments(self, cache: Any) -> dict[str, object]:  # noqa: ANN401 -- the library's own
        """Return what the generator is told."""
        if self.kind == "ngram":
            return {"ngram_match_min": _LEAST_MATCH, "num_draft_tokens": self.tokens}
        if self.model is None:
            return {}
        return {"draft_model": self.model, "draft_cache": cache, "num_draft_tokens": self.tokens}
