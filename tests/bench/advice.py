"""What the advisor promises besides its figures: the guide's recipes, and how quickly it answers.

The recipes are `tests/data/recipes.jsonl`, machine and use alone. Times are those of a warm gateway over HTTP, as the
window asks it, with the facts of the model at hand.
"""

import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import msgspec

from app.advisor.plans.ranking import PlanInputs, build_advice
from app.client.discovery import read_port_file
from app.client.http import GatewayClient
from app.core.advice import Advice, Estimate, Intent
from app.core.machine import Machine
from app.hardware.description import machine_from
from tests.bench.figures import BenchFigure, at_least, at_most, not_measured
from tests.bench.programs import start_program, wait_for
from tests.ports import free_port
from tests.unit.advisor.engines import engines_on

RECIPES = Path(__file__).parents[2] / "tests" / "data" / "recipes.jsonl"
ANSWER_MS, DETECTION_S = 50.0, 2.0
RUNS = 15
_MS = 1e3
_WORKSTATION = {"os": "linux", "ram_gb": 64, "gpus": [{"name": "RTX 4090"}]}


class RecipeOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What a recipe asks besides the machine."""

    users: int = 1
    context: int | None = None
    loras: int = 0


class AdviceRecipe(msgspec.Struct, frozen=True, kw_only=True):
    """One machine and use; any of `first` is right."""

    name: str
    machine: msgspec.Raw
    first: list[str]
    intent: Intent = Intent.CHAT
    options: RecipeOptions = RecipeOptions()


def measure() -> Sequence[BenchFigure]:
    """Return how many recipes are met and the times of answers."""
    return [_measure_recipes(), *_measure_times()]


def _measure_recipes() -> BenchFigure:
    if not RECIPES.exists():
        return not_measured("engine choice on the guide's recipes", ">= 100 %", "the recipes are not here")
    recipes = [msgspec.json.decode(line, type=AdviceRecipe) for line in RECIPES.read_bytes().splitlines()]
    met = sum(_first_engine(recipe) in recipe.first for recipe in recipes)
    name = f"engine choice on the guide's {len(recipes)} recipes"
    return at_least(name, 100 * met / len(recipes), 100, unit="%")


def _first_engine(recipe: AdviceRecipe) -> str:
    machine = machine_from(bytes(recipe.machine))
    options = msgspec.structs.asdict(recipe.options)
    return (
        build_advice(PlanInputs(traits=engines_on(machine), machine=machine, intent=recipe.intent, **options))
        .plans[0]
        .engine
    )


def _measure_times() -> Iterator[BenchFigure]:
    with tempfile.TemporaryDirectory() as folder:
        environment = {"ROUNDHOUSE_HOME": folder, "ROUNDHOUSE_GATEWAY_PORT": str(port := free_port())}
        with start_program("app.gateway", environment=environment) as child:
            wait_for(port, child)
            gateway = read_port_file(Path(folder) / "state" / "gateway.json")
            if gateway is None:
                yield not_measured("time of an answer", f"<= {ANSWER_MS:g} ms", "the gateway told no address")
                return
            yield from _measure_answers(GatewayClient(gateway, timeout_s=60))


def _measure_answers(client: GatewayClient) -> Iterator[BenchFigure]:
    client.get("/machine", Machine)
    detection = median_s(lambda: client.get("/machine?fresh=1", Machine), runs=3)
    yield at_most("detection, warm", detection, DETECTION_S, "s")
    here, there = {"model": "guide"}, {"model": "Qwen3 14B", "machine": _WORKSTATION}
    for name, path, reply in (("plan", "/plan", Advice), ("estimate", "/estimate", Estimate)):
        for where, body in (("this machine", here), ("a described one", there)):
            client.post(path, body, reply)
            seconds = median_s(partial(client.post, path, body, reply), runs=RUNS)
            yield at_most(f"{name} for {where}", seconds * _MS, ANSWER_MS, "ms")


def median_s(ask: Callable[[], object], *, runs: int) -> float:
    """Return the median seconds of so many calls, one after the other."""
    times = []
    for _ in range(runs):
        began = time.perf_counter()
        ask()
        times.append(time.perf_counter() - began)
    return statistics.median(times)
