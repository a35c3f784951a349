"""What a load is expected to take of each memory, and that the scheduler hears of it."""

from pathlib import Path

import msgspec
import pytest

from app.advisor.memory.placement import MARGIN
from app.config.paths import guide_gguf
from app.core.models import LoadOptions, ModelSettings
from app.gateway.loading import memory_fit
from app.gateway.loading.launch import HEAD_ROOM, policy_from, resolve_model
from app.supervisor.policy import LoadRequest, ModelPolicy
from engines.api import LaunchOptions, ModelFormat, ModelSource
from tests.gateway.played import Gateway


def request(path: Path, engine: str = "llama.cpp", **options: int) -> LoadRequest:
    source = ModelSource(name="x", path=path, format=ModelFormat.GGUF)
    return LoadRequest(engine=engine, source=source, options=LaunchOptions(**options))  # type: ignore[arg-type]  # ints


async def test_a_load_says_what_it_takes(gateway: Gateway) -> None:
    await gateway.services.machine.read()
    small = await memory_fit.fit_load(gateway.services, request(guide_gguf(), context=512, slots=1), is_fixed=True)
    large = await memory_fit.fit_load(gateway.services, request(guide_gguf(), context=4096, slots=4))
    assert small.needs is not None
    assert large.needs is not None
    assert 2 * small.needs.pools["system"] < small.needs.private_limit < large.needs.private_limit
    assert 0 < small.needs.buffers < small.needs.pools["system"] < large.needs.pools["system"]


@pytest.mark.slow
async def test_larger_pieces_of_prompts_take_more(gateway: Gateway) -> None:
    await gateway.services.machine.read()
    usual, large = [
        await memory_fit.fit_load(
            gateway.services, request(guide_gguf(), context=4096, max_batch_tokens=size), is_fixed=True
        )
        for size in (512, 2048)
    ]
    assert usual.needs is not None
    assert large.needs is not None
    assert large.needs.pools["system"] > usual.needs.pools["system"]


async def test_an_engine_nobody_knows_takes_what_its_files_suggest(gateway: Gateway, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    (folder / "more").mkdir(parents=True)
    (folder / "a.bin").write_bytes(bytes(1000))
    (folder / "more" / "b.bin").write_bytes(bytes(600))
    sized_load = await memory_fit.fit_load(gateway.services, request(folder, engine="mine"))
    assert sized_load.needs is not None
    assert sized_load.needs.pools == {"system": 2000}
    nothing = request(tmp_path / "none", engine="mine")
    assert await memory_fit.fit_load(gateway.services, nothing, is_fixed=True) is nothing, "unknown is not zero"


@pytest.mark.slow
async def test_what_pinned_models_hold_is_not_to_be_had(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    async def little(_model: str) -> dict[str, int]:
        return {"system": MARGIN + 60 * 2**20}

    monkeypatch.setattr(gateway.supervisor, "model_capacity", little)
    monkeypatch.setattr("psutil.virtual_memory", lambda: Free(available=0))
    fitted_load = await memory_fit.fit_load(gateway.services, request(guide_gguf(), context=4096, slots=4))
    assert fitted_load.options.slots == 1, "fewer conversations rather than a refusal"
    assert fitted_load.needs is not None
    assert fitted_load.needs.pools["system"] <= 60 * 2**20


class Free(msgspec.Struct):
    available: int


def test_the_head_room_is_the_advisor_s() -> None:
    assert HEAD_ROOM == MARGIN


async def test_what_is_set_for_a_model_counts_whichever_way_it_is_loaded(gateway: Gateway) -> None:
    gateway.services.model_settings.change_settings("guide", ModelSettings(context=1024, slots=2, kv_type="q8_0"))
    options = (await resolve_model(gateway.services, "guide")).load.options
    assert (options.context, options.slots, options.kv_type) == (1024, 2, "q8_0")
    load_options = (await resolve_model(gateway.services, "guide", LoadOptions(context=512))).load.options
    assert (load_options.context, load_options.slots) == (512, 2), "what is asked for goes first"


def test_pins_and_times_reach_the_scheduler(gateway: Gateway) -> None:
    tuning_file = gateway.services.model_settings
    tuning_file.change_settings("a", ModelSettings(pinned=True))
    tuning_file.change_settings("b", ModelSettings(idle_minutes=2))
    models = policy_from(gateway.services.settings, tuning_file).models
    assert models == {"a": ModelPolicy(is_pinned=True), "b": ModelPolicy(idle_s=120.0)}
