"""LM Studio's REST API over plain HTTP, against a gateway with the real engine and the Guide."""

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from app.client.http import GatewayClient
from app.config.paths import Paths
from app.core.engines import EngineStatus
from tests.gguf_files import TinyLlama
from tests.patience import wait_until

pytestmark = pytest.mark.real_engine

QUESTION = "What is Roundhouse?"
MESSAGES = [{"role": "user", "content": QUESTION}]
SAME = {"temperature": 0}


@pytest.fixture
def api(client: GatewayClient) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=client.gateway.url, timeout=60) as http_client:
        yield http_client


def post_document(api: httpx.Client, path: str, **document: object) -> dict[str, Any]:
    reply = api.post(path, json={"model": "guide", **document})
    assert reply.status_code == 200, reply.text
    body: dict[str, Any] = reply.json()
    return body


def stream_events(api: httpx.Client, path: str, **document: object) -> list[dict[str, Any]]:
    with api.stream("POST", path, json={"model": "guide", "stream": True, **document}) as reply:
        lines = [line.removeprefix("data: ") for line in reply.iter_lines() if line.startswith("data: ")]
    return [json.loads(line) for line in lines if line != "[DONE]"]


def test_load_look_and_unload(api: httpx.Client) -> None:
    loaded_model = post_document(api, "/api/v1/models/load", context_length=1024, echo_load_config=True)
    assert (loaded_model["status"], loaded_model["type"], loaded_model["instance_id"]) == ("loaded", "llm", "guide")
    assert loaded_model["load_time_seconds"] > 0
    assert loaded_model["load_config"]["context_length"] == 1024
    card = api.get("/api/v0/models/guide").json()
    assert (card["state"], card["loaded_context_length"], card["type"]) == ("loaded", 1024, "llm")
    assert (card["publisher"], card["arch"], card["quantization"]) == ("roundhouse", "llama", "Q8_0")
    newer = next(model for model in api.get("/api/v1/models").json()["models"] if model["key"] == "guide")
    assert newer["loaded_instances"][0]["config"]["context_length"] == 1024
    assert newer["quantization"] == {"name": "Q8_0", "bits_per_weight": pytest.approx(8.5, abs=1)}
    assert newer["params_string"] == "4M"
    assert api.post("/api/v1/models/unload", json={"instance_id": "guide"}).json() == {"instance_id": "guide"}
    assert api.get("/api/v0/models/guide").json()["state"] == "not-loaded"
    response = api.post("/api/v1/models/unload", json={"instance_id": "guide"})
    assert (response.status_code, response.json()["error"]["type"]) == (404, "model_not_found")


def test_a_chat_loads_the_model_and_tells_of_it(api: httpx.Client) -> None:
    api.post("/api/v1/models/unload", json={"instance_id": "guide"})
    events = stream_events(api, "/api/v1/chat", input=QUESTION, max_output_tokens=20, **SAME)
    kinds = [event["type"] for event in events]
    assert kinds[:2] == ["chat.start", "model_load.start"]
    assert kinds.index("model_load.end") < kinds.index("prompt_processing.end") < kinds.index("message.start")
    assert kinds[-2:] == ["message.end", "chat.end"]
    assert events[-1]["result"]["stats"]["model_load_time_seconds"] > 0


def test_a_chat_is_the_same_streamed_and_not_and_goes_on(api: httpx.Client) -> None:
    whole = post_document(api, "/api/v1/chat", input=QUESTION, max_output_tokens=20, **SAME)
    events = stream_events(api, "/api/v1/chat", input=QUESTION, max_output_tokens=20, **SAME)
    text = "".join(event["content"] for event in events if event["type"] == "message.delta")
    assert [{"type": "message", "content": text}] == events[-1]["result"]["output"] == whole["output"]
    assert 0 < whole["stats"]["total_output_tokens"] <= 20
    assert whole["stats"]["tokens_per_second"] > 0
    assert whole["stats"]["time_to_first_token_seconds"] > 0
    more = post_document(
        api, "/api/v1/chat", input="And?", previous_response_id=whole["response_id"], max_output_tokens=4
    )
    assert more["stats"]["input_tokens"] > whole["stats"]["input_tokens"] + whole["stats"]["total_output_tokens"]


@pytest.mark.parametrize(
    ("path", "body"), [("chat/completions", {"messages": MESSAGES}), ("completions", {"prompt": "Round"})]
)
def test_statistics_come_with_whole_answers_and_streams(api: httpx.Client, path: str, body: dict[str, object]) -> None:
    whole = post_document(api, f"/api/v0/{path}", max_tokens=12, **SAME, **body)
    *_, last = stream_events(api, f"/api/v0/{path}", max_tokens=12, **SAME, **body)
    for reply in (whole, last):
        assert reply["stats"]["tokens_per_second"] > 0
        assert reply["stats"]["time_to_first_token"] >= 0
        assert reply["stats"]["generation_time"] > 0
        assert reply["stats"]["stop_reason"] in {"eosFound", "maxPredictedTokensReached"}
        assert reply["model_info"]["context_length"] > 0
        assert (reply["model_info"]["arch"], reply["model_info"]["quant"]) == ("llama", "Q8_0")
        assert reply["runtime"]["version"]
    assert last["stats"]["stop_reason"] == whole["stats"]["stop_reason"]


def test_a_ttl_is_kept(api: httpx.Client, client: GatewayClient) -> None:
    post_document(api, "/api/v0/chat/completions", messages=MESSAGES, max_tokens=2, ttl=1)
    wait_until(lambda: all(status.model != "guide" for status in client.get("/running", list[EngineStatus])))


def test_a_stream_left_early_frees_the_engine(api: httpx.Client, client: GatewayClient) -> None:
    body = {"model": "guide", "input": QUESTION, "stream": True, "max_output_tokens": 1500, "temperature": 2}
    with api.stream("POST", "/api/v1/chat", json=body) as reply:
        next(line for line in reply.iter_lines() if "message.delta" in line)
    wait_until(lambda: all(not status.in_flight for status in client.get("/running", list[EngineStatus])))


def test_a_prompt_that_is_too_long_is_the_callers_mistake(api: httpx.Client) -> None:
    older = api.post(
        "/api/v0/chat/completions", json={"model": "guide", "messages": [{"role": "user", "content": "word " * 9000}]}
    )
    assert (older.status_code, older.json()["error"]["code"]) == (400, "context_length_exceeded")
    newer = api.post("/api/v1/chat", json={"model": "guide", "input": "word " * 9000})
    assert (newer.status_code, newer.json()["error"]["type"]) == (400, "invalid_request")
    events = stream_events(api, "/api/v1/chat", input="word " * 9000)
    assert [event["type"] for event in events][-2:] == ["error", "chat.end"]
    assert events[-2]["error"]["code"] == "context_length_exceeded"


def test_embeddings_come_with_who_made_them(api: httpx.Client, home: Paths) -> None:
    TinyLlama(values={"llama.pooling_type": 1}).write(home.models / "embed.gguf")
    reply = post_document(api, "/api/v0/embeddings", model="embed", input=["hello", "world"])
    assert [len(item["embedding"]) for item in reply["data"]] == [len(reply["data"][0]["embedding"])] * 2
    assert reply["stats"]["generation_time"] > 0
    assert reply["model_info"]["arch"] == "llama"
    assert api.get("/api/v0/models/embed").json()["type"] == "embeddings"
    chat = api.post("/api/v1/chat", json={"model": "embed", "input": "x"})
    assert (chat.status_code, chat.json()["error"]["code"]) == (400, "model_cannot")
    guide = api.post("/api/v0/embeddings", json={"model": "guide", "input": "x"})
    assert (guide.status_code, guide.json()["error"]["code"]) == (400, "model_cannot")
