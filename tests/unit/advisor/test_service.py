"""How many people are served: one engine, copies inside one, or replicas behind a router; with the arithmetic."""

import pytest

from app.advisor.choosing.intents import build_workload
from app.advisor.plans.ranking import PlanInputs, build_advice
from app.advisor.plans.service import plan_service
from app.core.advice import Intent, Parallelism, Plan, ServicePlan, ServiceWay
from app.hardware.description import machine_from
from tests.unit.advisor.engines import engines_on
from tests.unit.advisor.made_models import EIGHT

ONE, DATA, ROUTER = ServiceWay.ONE_ENGINE, ServiceWay.DATA_PARALLEL, ServiceWay.ROUTER


def plan_of(engine: str, *, slots: int, replicas: int = 1, obtainable: bool = True) -> Plan:
    return Plan(
        obtainable=obtainable,
        engine=engine,
        name=engine,
        backend="cuda",
        format="gguf",
        quantization="Q4_K_M",
        context=8192,
        kv_type="f16",
        parallelism=Parallelism(slots=slots, replicas=replicas),
        reasons=[],
    )


def service_of(intent: Intent, users: int, plan: Plan) -> ServicePlan | None:
    return plan_service(build_workload(intent, users=users), plan, balances=plan.engine != "llama.cpp")


@pytest.mark.parametrize(
    ("intent", "users", "plan", "expected_service"),
    [
        (Intent.TEAM, 8, plan_of("llama.cpp", slots=8), (ONE, 1, 1)),
        (Intent.TEAM, 9, plan_of("llama.cpp", slots=8), (ROUTER, 2, 2)),
        (Intent.TEAM, 24, plan_of("llama.cpp", slots=8, replicas=4), (ROUTER, 3, 1)),
        (Intent.API, 64, plan_of("vllm", slots=16, replicas=4), (DATA, 4, 1)),
        (Intent.API, 65, plan_of("vllm", slots=16, replicas=4), (ROUTER, 5, 2)),
        (Intent.API, 500, plan_of("sglang", slots=64, replicas=8), (DATA, 8, 1)),
        (Intent.FLEET, 32, plan_of("vllm", slots=64), (ROUTER, 2, 2)),
        (Intent.FLEET, 1000, plan_of("vllm", slots=64, replicas=8), (ROUTER, 16, 2)),
    ],
)
def test_the_way_follows_from_what_one_copy_answers_and_how_many_there_are(
    intent: Intent, users: int, plan: Plan, expected_service: tuple[ServiceWay, int, int]
) -> None:
    service = service_of(intent, users, plan)
    assert service is not None
    assert (service.way, service.copies, service.machines) == expected_service
    assert service.copies * service.slots >= users
    assert any(f"ceil({users} / {service.slots})" in reason.value for reason in service.reasons)
    assert bool(service.steps) is (service.way is ROUTER)


def test_nobody_is_told_how_to_serve_who_serves_nobody() -> None:
    assert service_of(Intent.CHAT, 1, plan_of("llama.cpp", slots=1)) is None
    assert service_of(Intent.TEAM, 8, plan_of("llama.cpp", slots=8, obtainable=False)) is None


def test_the_advice_says_what_each_gets_at_most_and_at_least() -> None:
    machine = machine_from(b'{"os": "linux", "ram_gb": 64, "gpus": [{"name": "RTX 4090", "count": 1}]}')
    inputs = PlanInputs(
        traits=engines_on(machine), machine=machine, candidates=EIGHT.every(), model="x", intent=Intent.TEAM, users=40
    )
    service = build_advice(inputs).service
    assert service is not None
    assert service.copies * service.slots >= 40
    assert any("(in turns)" in reason.text for reason in service.reasons)
