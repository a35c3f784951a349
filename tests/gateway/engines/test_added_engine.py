"""An engine is added by its folder and one line of the registry: everything else learns of it from there."""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from urllib.request import urlopen

import msgspec
import pytest

from app.config.programs import child_environment, module_command
from app.core.advice import Advice, Estimate, EstimateRequest
from app.core.engine_store import EngineListing
from app.core.engines import EngineInfo, EngineState, EngineStatus
from app.core.models import LoadModel
from tests.gateway.admin.real_gateway import RealGateway, run_gateway

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[3]
FOLDER, LINE = "made_up", '        "made-up": "engines.made_up.launch",\n'
NO_GPU = {"os": "linux", "cpu": "AMD Ryzen 9 7950X", "ram_gb": 64}
PATIENCE_S = 60.0


@pytest.fixture(scope="module")
def engine_environ(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, str]:
    """Return the environment of programs whose `engines` has one engine more."""
    top = tmp_path_factory.mktemp("added")
    engines = top / "engines"
    shutil.copytree(ROOT / "engines", engines, ignore=shutil.ignore_patterns("__pycache__", "locks"))
    (engines / FOLDER).mkdir()
    for file in (ROOT / "tests" / "made_up_engine").glob("*.py"):
        text = file.read_text(encoding="utf-8").replace("tests.made_up_engine", f"engines.{FOLDER}")
        (engines / FOLDER / file.name).write_text(text, encoding="utf-8")
    registry = (engines / "registry.py").read_text(encoding="utf-8")
    with_line = re.sub(r"(?m)^    \}\n\)$", f"{LINE}    }}\n)", registry, count=1)
    assert with_line.count("\n") == registry.count("\n") + 1
    (engines / "registry.py").write_text(with_line, encoding="utf-8")
    paths = (top, ROOT)
    return {"PYTHONPATH": os.pathsep.join(map(str, paths)), "ROUNDHOUSE_ENGINES_PREFERRED": "made-up"}


@pytest.fixture(scope="module")
def gateway(engine_environ: Mapping[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealGateway]:
    home = tmp_path_factory.mktemp("home")
    with run_gateway(
        home, 0, argv=module_command("app.gateway"), extra=engine_environ, patience_s=PATIENCE_S
    ) as running_gateway:
        yield running_gateway


def output_of(engine_environ: Mapping[str, str], gateway: RealGateway, module: str, *arguments: str) -> tuple[int, str]:
    home = str(gateway.paths.config.parent)
    process = subprocess.run(
        module_command(module, *arguments),
        env=child_environment({**engine_environ, "ROUNDHOUSE_HOME": home}),
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    return process.returncode, process.stdout


def content_of(url: str, body: bytes | None = None) -> bytes:
    with urlopen(url, body, timeout=PATIENCE_S) as reply:  # noqa: S310 -- a gateway on loopback
        content: bytes = reply.read()
        return content


def test_lists_have_it(gateway: RealGateway) -> None:
    (info,) = (entry for entry in gateway.client.get("/engines", list[EngineInfo]) if entry.id == "made-up")
    assert (info.name, info.formats, info.installed, info.backend) == ("Made-up", ["gguf"], True, "cpu")
    (stock,) = (entry for entry in gateway.client.get("/engines/stock", list[EngineListing]) if entry.id == "made-up")
    assert stock.versions[0].is_current


def test_the_command_line_lists_it(gateway: RealGateway, engine_environ: Mapping[str, str]) -> None:
    code, text = output_of(engine_environ, gateway, "app.cli", "engines", "--json")
    assert code == 0
    assert "Made-up" in [engine["name"] for engine in json.loads(text)["engines"]]


def test_plans_have_it_where_its_traits_put_it(gateway: RealGateway) -> None:
    plans = gateway.client.post("/plan", {"model": "Qwen3 8B", "machine": NO_GPU}, Advice).plans
    made_up = next(plan for plan in plans if plan.engine == "made-up")
    assert made_up.is_preferred, "its folder has no recipe, so that it cannot be had on another machine"
    assert "no build of Made-up" in made_up.missing[0]
    assert "answers before it is asked" in made_up.sentence
    fleet = gateway.client.post("/plan", {"intent": "fleet", "machine": NO_GPU}, Advice).plans
    assert "made-up" not in [plan.engine for plan in fleet]


def test_it_can_be_estimated(gateway: RealGateway) -> None:
    description = {name: msgspec.Raw(msgspec.json.encode(value)) for name, value in NO_GPU.items()}
    estimate_request = EstimateRequest(model="Qwen3 8B", engine="made-up", machine=description)
    estimate = gateway.client.post("/estimate", estimate_request, Estimate)
    assert (estimate.engine, estimate.fits) == ("made-up", True)


def test_a_model_loads_on_it_answers_and_its_metrics_are_told(gateway: RealGateway) -> None:
    status = gateway.client.post("/load", LoadModel(model="quick"), EngineStatus)
    assert (status.engine, status.state) == ("made-up", EngineState.READY)
    url = gateway.port_file.url
    body = json.dumps({"model": "quick", "messages": [{"role": "user", "content": "Hi"}]}).encode()
    answer = json.loads(content_of(f"{url}/v1/chat/completions", body))
    assert answer["choices"][0]["message"]["content"] == "Made up."
    lines = content_of(f"{url}/metrics").decode().splitlines()
    (waiting_line,) = (line for line in lines if line.startswith("roundhouse_engine_requests_waiting{"))
    assert 'engine="made-up"' in waiting_line
    assert float(waiting_line.split()[-1]) == 7


def test_the_tables_of_the_docs_would_have_it(gateway: RealGateway, engine_environ: Mapping[str, str]) -> None:
    code, stale = output_of(engine_environ, gateway, "tests.engine_docs")
    assert (code, {Path(page).name for page in stale.split()}) == (1, {"advisor.md", "engines.md", "options.md"})
