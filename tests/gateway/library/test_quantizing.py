"""EXL3 of a model's original weights: what is planned, runs with a scripted converter from end to end, their faults."""

import asyncio
import json
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import msgspec
import pytest

from app.config.paths import RESOURCES, Paths
from app.confinement.confiner import Confiner
from app.confinement.socket_filter import can_filter
from app.core.errors import BadRequest, Conflict, EngineFailed
from app.core.events import QuantizeChanged
from app.core.machine import Machine
from app.core.quantize import QuantizeModel
from app.gateway.advising.model_facts import FactsReader
from app.gateway.library import quantizing
from app.gateway.library.quantizing import Quantizer
from app.gateway.services import Limits, Services
from app.hub.library.library import Library
from engines.api import EngineInstallation
from engines.exllama.quantize import ModuleCounter, converter_arguments, has_checkpoint, restore_checkpoint
from tests.gateway.played import Upstream, played_services
from tests.patience import PATIENCE_S
from tests.unit.advisor.test_recipes import linux, make_machine

ROOT = Path(__file__).resolve().parents[3]
GUIDE = RESOURCES / "guide"
ASK = QuantizeModel(model="tiny")


@pytest.fixture
async def services(
    paths: Paths, environ: dict[str, str], limits: Limits, upstream: Upstream
) -> AsyncIterator[Services]:
    """The parts of a gateway with a library of its own."""
    services = await played_services(paths, environ, limits, upstream)
    library = Library(lambda: [paths.models], paths.state / "models.json", GUIDE / "guide-q8_0.gguf")
    object.__setattr__(services, "library", library)
    object.__setattr__(services, "facts", FactsReader(library))
    yield services
    await services.http.close()


@pytest.fixture
def model_folder(services: Services) -> Path:
    folder = services.paths.models / "tiny"
    shutil.copytree(RESOURCES / "guide" / "hf", folder)
    return folder


@pytest.fixture
def quantize_service(
    services: Services, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, model_folder: Path
) -> Quantizer:
    """With a card, an engine whose converter is scripted, and nothing confined: the script is no part of an engine."""
    python = tmp_path / "python"
    fakes = ROOT / "tests" / "fake_exllama"
    python.write_text(f'#!/bin/sh\nPYTHONPATH="$PYTHONPATH:{fakes}" exec {sys.executable} "$@"\n', encoding="utf-8")
    python.chmod(0o755)
    installation = EngineInstallation(engine="exllamav3", version="1.6.5", backend="cuda", python=python)
    monkeypatch.setattr(Quantizer, "find_installation", lambda _: installation)
    monkeypatch.setattr(quantizing, "make_confiner", lambda *_: Confiner(tmp_path, lambda _engine: False))
    give_machine(services, monkeypatch, make_machine(linux("RTX 4090")))
    assert model_folder.exists()
    return Quantizer(services)


def give_machine(services: Services, monkeypatch: pytest.MonkeyPatch, machine: Machine) -> None:
    async def read_machine() -> Machine:
        return machine

    monkeypatch.setattr(services.machine, "read", read_machine)


async def run_to_end(quantize_service: Quantizer, request: QuantizeModel = ASK) -> QuantizeChanged:
    await quantize_service.start_run(request)
    async with asyncio.timeout(PATIENCE_S):
        await quantize_service.job.wait()
    assert quantize_service.job.last is not None
    return quantize_service.job.last


async def wait_for(quantize_service: Quantizer, is_there: Callable[[QuantizeChanged], bool]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while quantize_service.job.last is None or not is_there(quantize_service.job.last):  # noqa: ASYNC110 -- it tells a whole bus
            await asyncio.sleep(0.01)


async def test_a_plan_says_what_it_takes_and_does_nothing(quantize_service: Quantizer, services: Services) -> None:
    plan = await quantize_service.plan_run(ASK)
    assert plan.problems == []
    assert (plan.name, plan.card) == ("tiny-exl3-4bpw", "RTX 4090")
    assert plan.disk_bytes > 2 * plan.result_bytes > 0
    assert not (services.paths.models / ".quantizing").exists()


async def test_a_model_is_made_put_in_its_place_and_nothing_else_is_left(
    quantize_service: Quantizer, services: Services
) -> None:
    end = await run_to_end(quantize_service)
    assert (end.error, end.stage, end.fraction) == ("", "Done", 1.0)
    assert end.result is not None
    made_folder = services.paths.models / "tiny-exl3-4bpw"
    config = json.loads((made_folder / "config.json").read_text(encoding="utf-8"))
    assert config["quantization_config"] == {"quant_method": "exl3", "bits": 4.0, "head_bits": 6.0}
    assert end.result.size_bytes > 0
    assert list((services.paths.models / ".quantizing").iterdir()) == []
    assert "folder tiny-exl3-4bpw among the models already" in (await quantize_service.plan_run(ASK)).problems[0]


async def test_progress_names_the_module_and_grows(
    quantize_service: Quantizer, services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.gateway.jobs.STEP_S", -1.0)
    events: list[QuantizeChanged] = []
    monkeypatch.setattr(quantize_service.job, "_rules", msgspec_rules(quantize_service, events))
    await run_to_end(quantize_service)
    stages = [event.stage for event in events]
    assert "Quantising model.layers.1" in stages
    assert "Writing the model" in stages
    shares = [event.fraction for event in events if event.fraction is not None]
    assert shares == sorted(shares)
    assert services is not None


def msgspec_rules(quantize_service: Quantizer, events: list[QuantizeChanged]) -> object:
    import dataclasses  # noqa: PLC0415 -- only here

    return dataclasses.replace(quantize_service.job._rules, publish=events.append)


async def test_a_run_that_was_stopped_is_gone_on_from(
    quantize_service: Quantizer, model_folder: Path, services: Services
) -> None:
    (model_folder / "fault").write_text("wait", encoding="utf-8")
    await quantize_service.start_run(ASK)
    with pytest.raises(Conflict, match="tiny is being quantised"):
        await quantize_service.start_run(ASK)
    await wait_for(quantize_service, lambda job: job.stage == "Quantising model.layers.0")
    await quantize_service.stop_run()
    assert quantize_service.job.last is not None
    assert quantize_service.job.last.code == "cancelled"
    assert "goes on from there" in quantize_service.job.last.error
    assert (await quantize_service.plan_run(ASK)).resumes
    assert not (await quantize_service.plan_run(msgspec.structs.replace(ASK, bits=3.0))).resumes
    (model_folder / "fault").unlink()
    end = await run_to_end(quantize_service)
    assert end.error == ""
    done_lines = (services.paths.models / "tiny-exl3-4bpw" / "done.json").read_text(encoding="utf-8").splitlines()
    assert done_lines == ["model.embed_tokens", "model.layers.0", "model.layers.1", "lm_head"], "none of them twice"


async def test_starting_anew_throws_the_rest_away(quantize_service: Quantizer, model_folder: Path) -> None:
    (model_folder / "fault").write_text("memory", encoding="utf-8")
    await run_to_end(quantize_service)
    assert (await quantize_service.plan_run(ASK)).resumes
    assert not (await quantize_service.plan_run(msgspec.structs.replace(ASK, restarts=True))).resumes
    assert (await quantize_service.plan_run(ASK)).resumes, "planning throws nothing away"


@pytest.mark.slow(cases=1)
@pytest.mark.parametrize(
    ("fault", "code"), [("memory", "out_of_gpu_memory"), ("refuse", "unknown"), ("disk", "disk_full")]
)
async def test_what_goes_wrong_is_said_and_nothing_half_made_is_listed(
    quantize_service: Quantizer, model_folder: Path, services: Services, fault: str, code: str
) -> None:
    (model_folder / "fault").write_text(fault, encoding="utf-8")
    end = await run_to_end(quantize_service)
    assert (end.code, bool(end.error)) == (code, True)
    assert not (services.paths.models / "tiny-exl3-4bpw").exists()
    assert [model.name for model in services.library.list_models() if "exl3" in model.name] == []


async def test_what_stands_in_its_way_is_said_before(
    quantize_service: Quantizer, services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    give_machine(services, monkeypatch, make_machine(linux()))

    def find_nothing(_quantizer: Quantizer) -> EngineInstallation:
        raise EngineFailed("ExLlamaV3 is not installed.", code="not_installed")

    monkeypatch.setattr(Quantizer, "find_installation", find_nothing)
    problems = (await quantize_service.plan_run(ASK)).problems
    assert any("roundhouse engines install exllamav3" in problem for problem in problems)
    assert any("no NVIDIA card" in problem for problem in problems)
    with pytest.raises(BadRequest, match="not installed"):
        await quantize_service.start_run(ASK)


async def test_a_full_disk_is_noticed_before(quantize_service: Quantizer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quantizing, "_free_bytes", lambda _folder: 1000)
    assert any("disk" in problem for problem in (await quantize_service.plan_run(ASK)).problems)


async def test_only_original_weights_are_taken(quantize_service: Quantizer) -> None:
    with pytest.raises(BadRequest, match="original weights"):
        await quantize_service.plan_run(QuantizeModel(model="guide"))


@pytest.mark.parametrize("name", ["..", ".", ".hidden", "a/b", "a\\\\b", "ends."])
def test_a_name_leads_nowhere_else(name: str) -> None:
    body = msgspec.json.encode({"model": "tiny", "name": name})
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(body, type=QuantizeModel)


async def test_weights_that_are_quantised_already_are_refused(quantize_service: Quantizer, model_folder: Path) -> None:
    config = json.loads((model_folder / "config.json").read_text(encoding="utf-8"))
    config["quantization_config"] = {"quant_method": "bitsandbytes"}
    (model_folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    with pytest.raises(BadRequest, match="original weights"):
        await quantize_service.plan_run(ASK)


def test_a_checkpoint_that_was_being_exchanged_is_put_back(tmp_path: Path) -> None:
    (tmp_path / "args.json").write_text("{}", encoding="utf-8")
    before = tmp_path / "ckpt_old"
    before.mkdir()
    for name in ("job.json", "state.safetensors"):
        (before / name).write_text("{}", encoding="utf-8")
    assert has_checkpoint(tmp_path)
    assert before.exists(), "nothing is changed by looking"
    restore_checkpoint(tmp_path)
    assert has_checkpoint(tmp_path)
    assert not before.exists()
    (tmp_path / "ckpt" / "job.json").unlink()
    assert not has_checkpoint(tmp_path)


def test_slices_of_a_module_count_once() -> None:
    stages: list[tuple[str, float | None]] = []
    counter = ModuleCounter(sys.stderr, lambda stage, share: stages.append((stage, share)))
    counter.total = 2
    for line in ("model.layers.0 (slice 1/2)", "model.layers.0 (slice 2/2)", "lm_head"):
        counter.write(f" -- Loading unquantized module: {line}\n")
    counter.write(" -- Writing model.saf")
    counter.write("etensors\n")
    assert [stage for stage, _ in stages] == ["Quantising model.layers.0", "Quantising lm_head", "Writing the model"]


def test_one_that_goes_on_has_everything_else_in_its_folder() -> None:
    order = {"model": "/m", "out": "/o", "work": "/w", "bits": 2.5, "head_bits": 6, "checkpoint_s": 120}
    assert converter_arguments({**order, "resumes": True}) == ["-w", "/w", "-r", "-cpi", "120"]
    assert "2.5" in converter_arguments({**order, "resumes": False})


@pytest.mark.skipif(not can_filter(), reason="no filter of system calls here")
def test_the_converters_copies_are_made_where_modes_cannot_be_changed(tmp_path: Path) -> None:
    """It copies the tokenizer with its mode at the very end; confined, it would fail after hours."""
    (tmp_path / "tokenizer.json").write_text("{}", encoding="utf-8")
    code = (
        "import shutil, sys\n"
        "from app.confinement import kernel, socket_filter\n"
        "from engines.exllama.quantize import copy_no_modes\n"
        "kernel.set_process_option(kernel.PR_SET_NO_NEW_PRIVS, 1)\n"
        "socket_filter.install_filter(is_alone=True)\n"
        "try:\n    shutil.copy(sys.argv[1], sys.argv[2])\nexcept PermissionError:\n    copy_no_modes()\n"
        "    shutil.copy(sys.argv[1], sys.argv[3])\n"
    )
    names = ("tokenizer.json", "refused.json", "copied.json")
    subprocess.run([sys.executable, "-c", code, *(str(tmp_path / name) for name in names)], check=True, cwd=ROOT)
    assert (tmp_path / "copied.json").read_text(encoding="utf-8") == "{}"
