import io
import json
from collections.abc import AsyncIterator

import pytest
from aiohttp import web
from yarl import URL

from app.core.errors import EngineFailed
from app.core.events import ModelsChanged
from tests.gateway.played import KEY, Gateway

REPLY = b'{"id":"x",  "object": "chat.completion","usage":{"prompt_tokens":7,"completion_tokens":3}}'

TEXT_FILE = "data:text/plain;base64,SGVsbG8="


@pytest.fixture(autouse=True)
def answers(gateway: Gateway) -> None:
    async def play(_request: web.Request) -> web.StreamResponse:
        return web.Response(body=REPLY, content_type="application/json")

    gateway.upstream.play = play


async def test_a_body_reaches_the_engine_byte_for_byte_and_so_does_the_answer(gateway: Gateway) -> None:
    body = b'{ "messages":[{"role":"user","content":"a \\u00e9 \xc3\xa9"}],"model":"guide",  "x":1.50}'
    async with gateway.http.post(f"{gateway.url}/v1/chat/completions", data=body) as reply:
        assert reply.status == 200
        assert await reply.read() == REPLY
        assert reply.headers["x-request-id"].startswith("req_")
    assert gateway.upstream.bodies == [body]


async def test_only_the_model_changes_when_the_engine_calls_it_otherwise(gateway: Gateway) -> None:
    gateway.supervisor.served_name = "model.gguf"
    body = b'{"x":1.50,"model":"guide","deep":{"model":"guide"},"s":"\\u00e9"}'
    await (await gateway.http.post(f"{gateway.url}/v1/completions", data=body)).read()
    assert gateway.upstream.bodies == [b'{"x":1.50,"model":"model.gguf","deep":{"model":"guide"},"s":"\\u00e9"}']


async def test_the_engine_gets_its_own_key_and_nothing_private_of_the_client(gateway: Gateway) -> None:
    private = {"Authorization": "Bearer sk-mine", "Cookie": "a=b", "Origin": "http://localhost:3000"}
    async with gateway.http.post(
        f"{gateway.url}/v1/chat/completions", json={"model": "guide"}, headers=private
    ) as reply:
        assert reply.status == 200
    seen_headers = gateway.upstream.headers[0]
    assert seen_headers["Authorization"] == f"Bearer {KEY}"
    assert "Cookie" not in seen_headers
    assert "Origin" not in seen_headers


@pytest.mark.parametrize("content_type", ["", "application/x-www-form-urlencoded", "text/plain"])
async def test_json_is_read_whatever_its_content_type(gateway: Gateway, content_type: str) -> None:
    headers = {"Content-Type": content_type} if content_type else {}
    skipped_headers = () if content_type else ("Content-Type",)
    async with gateway.http.post(
        f"{gateway.url}/v1/chat/completions",
        data=b'{"model":"guide"}',
        headers=headers,
        skip_auto_headers=skipped_headers,
    ) as reply:
        assert reply.status == 200


async def _refusal(gateway: Gateway, body: bytes) -> tuple[int, dict[str, object]]:
    async with gateway.http.post(f"{gateway.url}/v1/chat/completions", data=body) as reply:
        error = (await reply.json(content_type=None))["error"]
        assert set(error) == {"message", "type", "param", "code"}
        assert "Traceback" not in error["message"]
        return reply.status, error


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        (b"", "it is empty"),
        (b'{"model": "guide", ', "truncated"),
        (b"model=guide", "byte 0"),
        (b'{"model": "guide", "a": nan}', "byte"),
        (b'{"model": "guide", "a": "\xff"}', "not UTF-8 (byte 25)"),
        (b'["guide"]', "Expected `object`"),
        (b'{"model": 3}', "$.model"),
        (b'{"model": "guide", "stream": "yes"}', "$.stream"),
        (b'{"model": "guide", "a": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", "nested too deeply"),
        (b'{"model": "broken"}', "cut off"),
        (b'{"model": "org/embed:q8"}', "does not write text"),
    ],
)
async def test_a_bad_request_is_refused_in_a_sentence(gateway: Gateway, body: bytes, sentence: str) -> None:
    status, error = await _refusal(gateway, body)
    assert status == 400
    assert error["type"] == "invalid_request_error"
    assert sentence in str(error["message"])
    assert gateway.upstream.bodies == []


async def test_an_unknown_model_is_answered_with_the_names_there_are(gateway: Gateway) -> None:
    status, error = await _refusal(gateway, b'{"model": "gpt-4"}')
    assert (status, error["code"], error["param"]) == (404, "model_not_found", "model")
    assert "guide" in str(error["message"])


async def test_a_model_that_was_forgotten_is_not_found_again(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the last request found is kept for a moment, but not past a change."""
    assert (await gateway.chat())[0] == 200
    monkeypatch.setattr(gateway.services.library, "_models", [])
    gateway.services.events.publish(ModelsChanged())
    assert (await gateway.chat())[0] == 404


async def test_embeddings_of_a_model_that_only_writes_are_refused(gateway: Gateway) -> None:
    async with gateway.http.post(f"{gateway.url}/v1/embeddings", json={"model": "guide", "input": "a"}) as reply:
        assert reply.status == 400
        assert (await reply.json())["error"]["code"] == "model_cannot"
    async with gateway.http.post(f"{gateway.url}/v1/embeddings", json={"model": "ORG/Embed:q8", "input": "a"}) as reply:
        assert reply.status == 200


async def test_fifty_megabytes_are_refused_announced_or_not(gateway: Gateway) -> None:
    megabyte = b"x" * 1024 * 1024

    async def send_pieces() -> AsyncIterator[bytes]:
        for _ in range(50):
            yield megabyte

    for data in (io.BytesIO(megabyte * 50), send_pieces()):
        async with gateway.http.post(f"{gateway.url}/v1/chat/completions", data=data) as reply:
            assert reply.status == 413
            assert (await reply.json())["error"]["code"] == "too_large"


@pytest.mark.parametrize("environ", [{"ROUNDHOUSE_GATEWAY_MAX_BODY_MIB": "4"}])
async def test_a_long_conversation_with_pictures_passes(gateway: Gateway) -> None:
    body = json.dumps({"model": "guide", "picture": "a" * 3_000_000}).encode()
    async with gateway.http.post(f"{gateway.url}/v1/chat/completions", data=io.BytesIO(body)) as reply:
        assert reply.status == 200
    assert gateway.upstream.bodies == [body]


async def test_unknown_routes_and_wrong_methods_have_the_shape_of_their_dialect(gateway: Gateway) -> None:
    async with gateway.http.get(f"{gateway.url}/v1/nothing") as reply:
        assert reply.status == 404
        assert (await reply.json())["error"]["type"] == "not_found_error"
    async with gateway.http.get(f"{gateway.url}/v1/chat/completions") as reply:
        assert (reply.status, reply.headers["Allow"]) == (405, "POST")
        assert "GET" in (await reply.json())["error"]["message"]
    async with gateway.http.get(
        f"{gateway.url}/roundhouse/v1/nothing", headers={"Authorization": "Bearer token"}
    ) as reply:
        assert (await reply.json())["code"] == "route_not_found"


@pytest.mark.parametrize(
    ("path", "headers", "where", "suggestion"),
    [
        ("/chat/completion", {}, "message", "/v1/chat/completions"),
        ("/v1/v1/chat/completions", {}, "message", "/v1/chat/completions"),
        ("/v1/chat", {}, "message", "/v1/chat/completions"),
        ("/openai/v1/embeddings", {}, "message", "/v1/embeddings"),
        ("/chat", {}, "message", "/api/chat"),
        ("/responses/", {}, "message", "/v1/responses"),
        ("/v1/message", {"anthropic-version": "2023-06-01"}, "message", "/v1/messages"),
        ("/api/v0/embedding", {}, "message", "/api/v0/embeddings"),
        ("/api/v1/chats", {}, "message", "/api/v1/chat"),
        ("/api/generat", {}, "", "/api/generate"),
        ("/v1beta/tunedModels/coder:streamGenerateContent", {}, "message", ""),
        ("/%ff/" + "a" * 900, {}, "message", ""),
        ("/nothing", {}, "message", ""),
    ],
)
async def test_an_address_with_nothing_is_told_with_the_one_that_was_meant(
    gateway: Gateway, path: str, headers: dict[str, str], where: str, suggestion: str
) -> None:
    async with gateway.http.post(URL(gateway.url + path, encoded=True), headers=headers) as reply:
        assert reply.status == 404
        error = (await reply.json())["error"]
    text = error[where] if where else error
    assert text.startswith(f"There is nothing at {path[:6]}")
    assert text.endswith(f" Did you mean {suggestion}?") if suggestion else "Did you mean" not in text
    assert len(text) < 300


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/chat/completions", {"messages": [{"role": "user", "content": "Hm?"}]}),
        ("/completions", {"prompt": "Hm?"}),
        ("/embeddings", {"model": "org/embed:q8", "input": "Hm?"}),
        ("/models", None),
    ],
)
async def test_what_llama_server_answers_without_the_v1_is_answered_so_too(
    gateway: Gateway, path: str, body: dict[str, object] | None
) -> None:
    async def at(base: str) -> tuple[int, bytes]:
        method, document = ("GET", None) if body is None else ("POST", {"model": "guide", **body})
        async with gateway.http.request(method, f"{gateway.url}{base}{path}", json=document) as reply:
            return reply.status, await reply.read()

    status, answer = await at("")
    assert (status, answer) == (200, (await at("/v1"))[1])


@pytest.mark.parametrize("path", ["/chat/completions", "/completions", "/embeddings"])
async def test_they_say_what_is_wrong_in_openais_shape_and_pages_of_others_may_not_ask(
    gateway: Gateway, path: str
) -> None:
    unknown = {"model": "gpt-9", "messages": [{"role": "user", "content": "Hm?"}], "prompt": "Hm?", "input": "Hm?"}
    async with gateway.http.post(gateway.url + path, json=unknown) as reply:
        assert (reply.status, (await reply.json())["error"]["code"]) == (404, "model_not_found")
    async with gateway.http.post(gateway.url + path, json={}, headers={"Origin": "https://evil.example"}) as reply:
        assert (reply.status, (await reply.json())["error"]["code"]) == (403, "origin_not_allowed")


async def test_a_mistake_of_ours_gives_a_request_id_that_is_in_the_log(
    gateway: Gateway, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def raise_mistake(_name: str) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(gateway.services.library, "find_model", raise_mistake)
    status, body = await gateway.chat()
    assert (status, body["error"]["type"], body["error"]["code"]) == (500, "server_error", "internal")
    (record,) = [record for record in caplog.records if record.levelname == "ERROR"]
    assert vars(record)["request"] in body["error"]["message"]
    assert record.exc_info is not None


async def test_models_are_listed_with_what_is_loaded(gateway: Gateway) -> None:
    async with gateway.http.get(f"{gateway.url}/v1/models") as reply:
        body = await reply.json()
    assert body["object"] == "list"
    assert [model["id"] for model in body["data"]] == ["guide", "org/embed:q8"]
    card = {
        "id": "guide",
        "object": "model",
        "created": 1_700_000_000,
        "owned_by": "roundhouse",
        "state": "loaded",
        "loaded": True,
        "max_context_length": 2048,
        "loaded_context_length": 4096,
        "capabilities": ["completion", "chat"],
    }
    assert {field: body["data"][0][field] for field in card} == card, "and other servers' words for the same"
    async with gateway.http.get(f"{gateway.url}/v1/models/org/embed:q8") as reply:
        assert ((await reply.json())["id"], reply.status) == ("org/embed:q8", 200)
    async with gateway.http.get(f"{gateway.url}/v1/models/none") as reply:
        assert ((await reply.json())["error"]["code"], reply.status) == ("model_not_found", 404)


@pytest.mark.parametrize(
    ("engine_body", "message", "code"),
    [
        (
            b'{"error":{"code":400,"message":"bad grammar","type":"invalid_request_error"}}',
            "bad grammar",
            "invalid_value",
        ),
        (b'{"error":{"code":501,"message":"no slots","type":"x"}}', "no slots", "engine_cannot"),
        (
            b'{"error":{"code":400,"message":"too long","type":"exceed_context_size_error","n_ctx":64}}',
            (
                "This model's maximum context length is 64 tokens. However, your messages resulted in more. Please "
                "reduce the length of the messages."
            ),
            "context_length_exceeded",
        ),
        (b'{"error":"no"}', "no", "engine_error"),
        (b'{"detail":"Not Found"}', "Not Found", "engine_error"),
        (b"oops", "oops", "engine_error"),
        (b"", "The engine refused the request and did not say why.", "engine_error"),
    ],
)
async def test_an_engines_refusal_passes_in_openai_shape(
    gateway: Gateway, engine_body: bytes, message: str, code: str
) -> None:
    async def refuse(_request: web.Request) -> web.StreamResponse:
        return web.Response(status=400, body=engine_body)

    gateway.upstream.play = refuse
    status, body = await gateway.chat()
    assert status == 400
    error = body["error"]
    assert (error["message"], error["code"]) == (message, code)
    assert error["type"] in {"invalid_request_error", "x"}
    assert "param" in error
    assert error.get("n_ctx") == (64 if code == "context_length_exceeded" else None)


async def test_a_refusal_names_its_field_and_a_mistake_is_no_servers(gateway: Gateway) -> None:
    engine_answers = [
        (b'{"error":{"code":400,"message":"Field \'min_p\': must be a number","type":"invalid_request_error"}}', 400),
        (b'{"error":{"code":500,"message":"Failed to parse tool call arguments as JSON: x","type":"x"}}', 500),
    ]

    async def refuse(_request: web.Request) -> web.StreamResponse:
        body, status = engine_answers.pop(0)
        return web.Response(status=status, body=body)

    gateway.upstream.play = refuse
    status, body = await gateway.chat()
    assert (status, body["error"]["param"], body["error"]["code"]) == (400, "min_p", "invalid_value")
    status, body = await gateway.chat()
    assert (status, body["error"]["param"], body["error"]["code"]) == (400, "messages", "invalid_messages")


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"messages": []}, "messages"),
        ({"messages": [{"role": "bogus", "content": "x"}]}, "messages[0].role"),
        ({"n": 0}, "n"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"max_tokens": -5}, "max_tokens"),
        ({"max_completion_tokens": 0}, "max_completion_tokens"),
        ({"temperature": 3}, "temperature"),
        ({"temperature": -1}, "temperature"),
        ({"top_p": 2}, "top_p"),
        ({"presence_penalty": 9}, "presence_penalty"),
        ({"top_logprobs": 25}, "top_logprobs"),
        ({"stop": 5}, "stop"),
        ({"reasoning_effort": "bogus"}, "reasoning_effort"),
        ({"response_format": "json"}, "response_format"),
        (
            {"response_format": {"type": "json_schema", "json_schema": {"name": "x"}}},
            "response_format",
        ),
        ({"response_format": {"type": "bogus"}}, "response_format"),
        ({"tool_choice": "required"}, "tool_choice"),
        ({"tool_choice": "required", "tools": []}, "tool_choice"),
        ({"functions": [{"name": "f"}]}, "functions"),
        ({"modalities": ["text", "audio"]}, "modalities"),
        ({"think": "bogus"}, "reasoning_effort"),
    ],
)
async def test_what_an_engine_would_pass_over_is_refused_with_its_field(
    gateway: Gateway, fields: dict[str, object], param: str
) -> None:
    body = {"model": "guide", "messages": [{"role": "user", "content": "x"}], **fields}
    status, error = await _refusal(gateway, json.dumps(body).encode())
    assert (status, error["param"]) == (400, param)
    assert gateway.upstream.bodies == []


async def test_nulls_and_limits_that_mean_none_reach_the_engine_as_they_are(gateway: Gateway) -> None:
    names = ("stop", "n", "max_tokens", "temperature", "tools", "tool_choice", "functions", "audio", "response_format")
    bodies: list[dict[str, object]] = [{"model": "guide", name: None} for name in names]
    bodies += [
        {"model": "guide", "max_tokens": -1},
        {"model": "guide", "tool_choice": "auto"},
        {"model": "guide", "max_tokens": 5.0},
    ]
    for body in bodies:
        async with gateway.http.post(f"{gateway.url}/v1/chat/completions", json=body) as reply:
            assert reply.status == 200, body
    assert [json.loads(body) for body in gateway.upstream.bodies] == bodies


@pytest.mark.parametrize(
    ("client_fields", "engine_fields"),
    [
        ({"think": False}, {"chat_template_kwargs": {"enable_thinking": False, "thinking": False}}),
        (
            {"think": True, "chat_template_kwargs": {"thinking": False}},
            {"chat_template_kwargs": {"enable_thinking": True, "thinking": False}},
        ),
        ({"reasoning": {"effort": "none"}}, {"reasoning_effort": "none"}),
        ({"reasoning_effort": "off"}, {"reasoning_effort": "none"}),
        ({"reasoning_effort": "xhigh"}, {"reasoning_effort": "high"}),
        ({"reasoning_effort": "minimal"}, {"reasoning_effort": "low"}),
        ({"think": "max"}, {"reasoning_effort": "high"}),
        ({"repetition_penalty": 1.1}, {"repeat_penalty": 1.1}),
        (
            {"messages": [{"role": "assistant", "content": [{"type": "refusal", "refusal": "No."}]}]},
            {"messages": [{"role": "assistant", "content": [{"type": "text", "text": "No."}]}]},
        ),
        (
            {"messages": [{"role": "user", "content": [{"type": "file", "file": {"file_data": TEXT_FILE}}]}]},
            {"messages": [{"role": "user", "content": [{"type": "text", "text": "Hello"}]}]},
        ),
        (
            unread := {"messages": [{"role": "user", "content": [{"type": "file", "file": {"file_id": "x"}}, {}]}]},
            unread,
        ),
        (unread := {"messages": [{"role": "user", "content": '"file"'}]}, unread),
    ],
)
async def test_words_of_other_servers_are_put_in_the_engines(
    gateway: Gateway, client_fields: dict[str, object], engine_fields: dict[str, object]
) -> None:
    body = {"model": "guide", **client_fields}
    async with gateway.http.post(f"{gateway.url}/v1/chat/completions", json=body) as reply:
        assert reply.status == 200
    assert json.loads(gateway.upstream.bodies[0]) == {**body, **engine_fields}


@pytest.mark.parametrize("fields", [{"reasoning_effort": "high"}, {"repeat_penalty": 1.1, "repetition_penalty": 1.2}])
async def test_words_the_engine_knows_stay_as_they_are(gateway: Gateway, fields: dict[str, object]) -> None:
    body = json.dumps({"model": "guide", **fields}, indent=1).encode()
    await (await gateway.http.post(f"{gateway.url}/v1/chat/completions", data=body)).read()
    assert gateway.upstream.bodies == [body]


@pytest.mark.parametrize(("stop", "expected_stop"), [("", []), (["", "end"], ["end"])])
async def test_a_stop_without_text_stops_nothing(gateway: Gateway, stop: object, expected_stop: list[str]) -> None:
    body = {"model": "guide", "stop": stop, "messages": [{"role": "user", "content": "x"}]}
    async with gateway.http.post(f"{gateway.url}/v1/chat/completions", json=body) as reply:
        assert reply.status == 200
    assert json.loads(gateway.upstream.bodies[0])["stop"] == expected_stop


async def test_an_engine_that_cannot_start_is_said_once_and_not_repeated_by_sdks(gateway: Gateway) -> None:
    gateway.supervisor.refuse_with = EngineFailed(
        "It does not fit.", hint="Choose a smaller one.", code="out_of_memory"
    )
    async with gateway.http.post(f"{gateway.url}/v1/chat/completions", json={"model": "guide"}) as reply:
        assert (reply.status, reply.headers["x-should-retry"]) == (502, "false")
        error = json.loads(await reply.read())["error"]
    assert error == {
        "message": "It does not fit. Choose a smaller one.",
        "type": "server_error",
        "param": None,
        "code": "out_of_memory",
    }


async def test_metrics_count_what_happened(gateway: Gateway) -> None:
    await gateway.chat()
    await gateway.chat(model="nobody")
    async with gateway.http.get(f"{gateway.url}/metrics") as reply:
        assert reply.headers["Content-Type"].startswith("text/plain; version=0.0.4")
        lines = (await reply.text()).splitlines()
    assert 'roundhouse_requests_total{route="chat",model="guide",outcome="ok"} 1' in lines
    assert 'roundhouse_requests_total{route="chat",model="",outcome="refused"} 1' in lines
    assert 'roundhouse_requests_in_flight{route="chat",model="guide"} 0' in lines
    assert 'roundhouse_tokens_total{model="guide",kind="completion"} 3' in lines
    assert 'roundhouse_engine_up{model="guide",engine="llama.cpp"} 1' in lines


async def test_health_answers(gateway: Gateway) -> None:
    async with gateway.http.get(f"{gateway.url}/health") as reply:
        assert (reply.status, (await reply.json())["status"]) == (200, "ok")
    async with gateway.http.head(f"{gateway.url}/health") as reply:
        assert reply.status == 200
