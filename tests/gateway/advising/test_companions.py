"""What is set to go with a model counts in its plan and its estimate as it does in its load."""

import math
from pathlib import Path
from typing import Any

import msgspec
import pytest

from app.config.paths import Paths
from app.core.advice import EstimateRequest, PlanRequest
from app.core.model_facts import WeightKind
from app.core.models import ModelSettings
from app.gateway.advising.advice import estimate_model, make_plan
from app.gateway.advising.companions import add_companions
from app.gateway.loading.launch import resolve_model
from app.gateway.loading.memory_fit import fit_load
from app.gateway.services import Services
from engines.api import Draft, LaunchOptions
from tests.gateway.loading.over_models import over
from tests.gateway.loading.test_tuned import BOTH, Catalogue
from tests.gateway.played import Gateway
from tests.gguf_files import TinyLlama, gguf_bytes, ones, projector_for
from tests.unit.advisor.engines import setting_for

HEAD = 64 * 128
"""Elements of the head's one matrix."""


def write_with_head(path: Path) -> Path:
    """Write a model whose last block is a head for multi-token prediction."""
    model = TinyLlama(layers=3, values={"llama.nextn_predict_layers": 1})
    head = ("blk.2.nextn.eh_proj.weight", [128, 64])
    tensors = [*model.tensors(), (*head, ones([math.prod(head[1])]))]
    path.write_bytes(gguf_bytes({**model.metadata(), **model.values}, tensors))
    return path


@pytest.fixture
def services(services: Services, paths: Paths, tmp_path: Path) -> Services:
    models = tmp_path / "models"
    models.mkdir()
    write_with_head(models / "headed.gguf")
    TinyLlama(layers=1, width=32, name="Small").write(models / "small.gguf")
    projector_for(TinyLlama(), models / "mmproj-headed.gguf")
    return over(models, services, paths, catalogue=Catalogue(), adapters=BOTH)


async def sums_of(services: Services) -> tuple[Any, Any]:
    """Return the estimate alone, and the one of the plan."""
    estimate = await estimate_model(services, EstimateRequest(model="headed", engine="llama.cpp"))
    plans = (await make_plan(services, PlanRequest(model="headed"))).plans
    return estimate, next(plan for plan in plans if plan.engine == "llama.cpp").estimate


@pytest.mark.slow(cases=1)
@pytest.mark.parametrize("draft", ["mtp", "small"])
async def test_a_draft_that_is_set_is_in_plan_estimate_and_load(gateway: Gateway, draft: str) -> None:
    services = gateway.services
    for estimate in await sums_of(services):
        assert estimate.draft is None
        assert estimate.projector is not None
    services.model_settings.change_settings("headed", ModelSettings(draft=draft))
    for estimate in await sums_of(services):
        assert estimate.draft is not None
        assert estimate.draft.bytes > HEAD
    loaded_request = (await resolve_model(services, "headed")).load
    drafted_load = await fit_load(services, loaded_request)
    without = msgspec.structs.replace(
        loaded_request, options=msgspec.structs.replace(loaded_request.options, draft=None)
    )
    plain = await fit_load(services, without)
    assert drafted_load.needs is not None
    assert plain.needs is not None
    assert drafted_load.needs.buffers > plain.needs.buffers + HEAD


async def test_what_cannot_be_read_is_the_engine_s_to_refuse(gateway: Gateway, tmp_path: Path) -> None:
    options = LaunchOptions(draft=Draft(path=tmp_path / "gone.gguf"), projector=tmp_path / "gone.gguf")
    setting = add_companions(gateway.services.facts, setting_for(), options)
    assert (setting.draft, setting.projector, setting.has_own_draft) == (None, None, False)


async def test_the_head_of_the_file_is_one(gateway: Gateway) -> None:
    services = gateway.services
    facts = services.facts.read_model(services.library.find_model("headed"))
    assert facts is not None
    assert facts.has_draft_head
    assert sum(group.elements for group in facts.weights if group.kind is WeightKind.DRAFT) >= HEAD
