"""Names that stand for models."""

import msgspec
import pytest

from app.core.capabilities import Capability
from app.core.engines import EngineState, EngineStatus
from app.core.models import ModelInfo, Preset
from app.gateway.loading.requested_model import AUTO, find_stand_in, model_in_use
from engines.api import Route


@pytest.mark.parametrize(
    ("name", "aliases", "model"),
    [
        ("claude-opus-4-8", ["claude-*=auto"], AUTO),
        ("Claude-Opus", ["claude-*=auto"], AUTO),
        ("gpt-5", ["claude-*=auto"], ""),
        ("gpt-5", ["gpt-5=a:q4", "gpt-*=b"], "a:q4"),
        ("gpt-4", ["gpt-5=a:q4", "gpt-*=b"], "b"),
        ("a=b", ["a=b=c"], "c"),
        ("x", [], ""),
        ("claude-opus-4-8:latest", ["claude-opus-4-8=a"], "a"),
        ("Claude-Opus:latest", ["claude-*=auto"], AUTO),
        ("library/gpt-4o:latest", ["gpt-4o=a"], "a"),
        ("gpt-4o:latest", ["gpt-4o:latest=a", "gpt-4o=b"], "a"),
        ("gpt-4o", ["*:latest=a", "gpt-4o=b"], "b"),
    ],
)
def test_the_first_pattern_that_fits_counts(name: str, aliases: list[str], model: str) -> None:
    assert find_stand_in(name, aliases) == model


def model(name: str, *, chats: bool = True, is_builtin: bool = False) -> ModelInfo:
    return ModelInfo(name=name, title=name, path="", format="gguf", size_bytes=1, chats=chats, is_builtin=is_builtin)


def status(name: str, last_used_at: float, state: EngineState = EngineState.READY) -> EngineStatus:
    return EngineStatus(model=name, engine="llama.cpp", state=state, last_used_at=last_used_at)


GUIDE, ONE, TWO, EMBEDS = model("guide", is_builtin=True), model("one"), model("two"), model("e", chats=False)
NEWER = msgspec.structs.replace(model("newer"), modified_at=2.0)
AFAR = msgspec.structs.replace(model("afar"), modified_at=3.0, attached="http://afar.example/v1")
SHARES = msgspec.structs.replace(model("a"), preset=Preset(base="one", system="x"))


@pytest.mark.parametrize(
    ("models", "statuses", "chosen_name", "expected_model"),
    [
        ([GUIDE, ONE, TWO], [status("one", 1.0), status("two", 2.0)], "guide", TWO),
        ([GUIDE, ONE, EMBEDS], [status("e", 9.0)], "", ONE),
        ([GUIDE, ONE, TWO], [status("one", 9.0, EngineState.FAILED), status("two", 1.0)], "guide", TWO),
        ([GUIDE, ONE], [], "", ONE),
        ([GUIDE, ONE], [], "guide", GUIDE),
        ([GUIDE], [], "", GUIDE),
        ([GUIDE, ONE, TWO], [], "two", TWO),
        ([GUIDE, ONE, TWO], [], "Two", TWO),
        ([GUIDE, ONE, TWO], [], "gone", ONE),
        ([GUIDE, TWO, NEWER, AFAR], [], "", NEWER),
        ([GUIDE, AFAR], [], "", AFAR),
        ([EMBEDS], [], "", None),
        ([], [], "guide", None),
        ([GUIDE, SHARES, ONE, TWO], [status("one", 1.0)], "guide", ONE),
        ([GUIDE, SHARES, ONE], [], "", ONE),
        ([GUIDE, SHARES, ONE, TWO], [], "a", SHARES),
    ],
)
def test_the_model_in_use(
    models: list[ModelInfo], statuses: list[EngineStatus], chosen_name: str, expected_model: ModelInfo | None
) -> None:
    assert model_in_use(models, statuses, chosen_name) == expected_model


RANKS = msgspec.structs.replace(EMBEDS, name="r", capabilities=[Capability.RERANK])
MAKES = msgspec.structs.replace(EMBEDS, name="m", embeds=True)
BOTH = msgspec.structs.replace(ONE, name="both", embeds=True, modified_at=9.0)


@pytest.mark.parametrize(
    ("models", "statuses", "route", "expected_model"),
    [
        ([GUIDE, MAKES], [], Route.EMBEDDINGS, MAKES),
        ([GUIDE, BOTH, MAKES], [status("both", 1.0)], Route.EMBEDDINGS, MAKES),
        ([GUIDE, BOTH], [], Route.EMBEDDINGS, BOTH),
        ([GUIDE, RANKS], [], Route.EMBEDDINGS, None),
        ([GUIDE, MAKES, RANKS], [], Route.RERANK, RANKS),
        ([GUIDE, MAKES], [status("m", 1.0)], Route.RERANK, None),
    ],
)
def test_the_model_that_can_do_what_is_asked(
    models: list[ModelInfo], statuses: list[EngineStatus], route: Route, expected_model: ModelInfo | None
) -> None:
    assert model_in_use(models, statuses, "guide", route) == expected_model
