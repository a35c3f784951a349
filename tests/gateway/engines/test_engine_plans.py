"""What would be started is said before it is: one process here, several elsewhere, and never the key."""

from typing import Any

import pytest

from app.core.models import ModelSettings
from tests.gateway.played import Gateway


async def request_plan(gateway: Gateway, engine: str, **body: object) -> tuple[int, dict[str, Any]]:
    address = f"{gateway.url}/roundhouse/v1/engines/{engine}/plan"
    headers = {"Authorization": f"Bearer {gateway.services.identity.token}"}
    async with gateway.http.post(address, json={"model": "guide", **body}, headers=headers) as reply:
        return reply.status, await reply.json()


async def test_a_plan_names_the_command_and_hides_the_key(gateway: Gateway) -> None:
    status, plan = await request_plan(gateway, "llama.cpp", options={"context": 512})
    assert status == 200, plan
    (step,) = plan["steps"]
    assert (step["machine"], step["role"]) == ("this computer", "server")
    assert "engines.llama_cpp.worker" in step["command"]
    assert '"context": 512' in step["env"]["ROUNDHOUSE_WORKER_CONFIG"]
    assert step["env"]["ROUNDHOUSE_WORKER_KEY"] == "<key>"


@pytest.mark.parametrize(
    ("engine", "body", "says"),
    [
        ("vllm", {}, "does not read gguf"),
        ("llama.cpp", {"nodes": ["a", "b"]}, "over several computers"),
        ("llama.cpp", {"tensor_parallel": 2}, "does not split tensors"),
        ("llama.cpp", {"nodes": ["a; reboot", "b"]}, "host names"),
    ],
)
async def test_what_cannot_be_planned_is_refused_with_a_sentence(
    gateway: Gateway, engine: str, body: dict[str, object], says: str
) -> None:
    status, error = await request_plan(gateway, engine, **body)
    assert status == 400
    assert says in str(error)


async def test_an_unknown_engine_is_named(gateway: Gateway) -> None:
    status, error = await request_plan(gateway, "warp-drive")
    assert status >= 400
    assert "warp-drive" in str(error)


async def test_what_is_set_for_a_model_is_part_of_its_plan(gateway: Gateway) -> None:
    gateway.services.model_settings.change_settings("guide", ModelSettings(context=256, kv_type="q8_0"))
    _, plan = await request_plan(gateway, "llama.cpp")
    config = plan["steps"][0]["env"]["ROUNDHOUSE_WORKER_CONFIG"]
    assert '"context": 256' in config
    assert '"kv_type": "q8_0"' in config
    _, plan = await request_plan(gateway, "llama.cpp", options={"context": 512})
    assert '"context": 512' in plan["steps"][0]["env"]["ROUNDHOUSE_WORKER_CONFIG"], "what is asked for goes before"
