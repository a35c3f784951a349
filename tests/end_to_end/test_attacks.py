"""Attacks that need the real engine: by what a downloaded model carries, and past the gateway."""

import hashlib
import http.client
import json
from pathlib import Path

import psutil
import pytest

from app.client.http import GatewayClient
from app.config.paths import Paths
from app.core.engines import EngineStatus
from app.core.models import LoadModel, ModelInfo
from tests.gguf_files import TinyLlama, Value
from tests.scripted_gguf import ScriptedLlama

pytestmark = pytest.mark.real_engine

EVIL_TEMPLATES = {
    "globals": "{{{{ cycler.__init__.__globals__.os.popen('touch {file}').read() }}}}",
    "subclasses": "{{{{ ''.__class__.__mro__[1].__subclasses__() }}}}{{{{ self.__init__.__globals__ }}}}",
    "builtins": "{{{{ lipsum.__globals__['__builtins__']['open']('{file}', 'w').write('x') }}}}",
    "include": "{{% include '/etc/passwd' %}}{{% import 'os' as os %}}{{{{ os.system('touch {file}') }}}}",
}


def send_request(
    client: GatewayClient, path: str, body: object, *, port: int | None = None, timeout_s: float = 60
) -> tuple[int, bytes]:
    address = port or int(client.gateway.url.rpartition(":")[2])
    connection = http.client.HTTPConnection("127.0.0.1", address, timeout=timeout_s)
    try:
        connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
        reply = connection.getresponse()
        return reply.status, reply.read()
    finally:
        connection.close()


@pytest.mark.slow(cases=1)
@pytest.mark.parametrize("name", EVIL_TEMPLATES)
def test_template_injection(client: GatewayClient, home: Paths, tmp_path: Path, name: str) -> None:
    """CVE-2024-34359: a chat template came with the weights and was run as a program by llama-cpp-python."""
    file = tmp_path / "owned"
    template = EVIL_TEMPLATES[name].format(file=file)
    ScriptedLlama(["The answer"], template=template).write(home.models / f"evil-{name}.gguf")
    messages = [{"role": "user", "content": "Hi"}]
    status, text = send_request(
        client, "/v1/chat/completions", {"model": f"evil-{name}", "messages": messages, "max_tokens": 4}
    )
    log = client.get(f"/logs?model=evil-{name}", object)
    assert (status, json.loads(text)["error"]["code"]) == (502, "bad_template"), (text, log)
    assert not file.exists()
    assert (
        send_request(client, "/v1/chat/completions", {"model": "guide", "messages": messages, "max_tokens": 1})[0]
        == 200
    )


ZEROS: list[dict[str, Value]] = [
    {"llama.block_count": 0},
    {"llama.attention.head_count": 0},
    {"llama.attention.head_count_kv": 0},
    {"llama.embedding_length": 0},
    {"llama.context_length": 0},
    {"llama.rope.dimension_count": 0},
    {"llama.attention.key_length": 0, "llama.attention.value_length": 0},
    {"general.alignment": 0},
]


@pytest.mark.slow(cases=1)
@pytest.mark.parametrize("values", ZEROS, ids=[next(iter(values)) for values in ZEROS])
def test_headers_that_count_nothing(client: GatewayClient, home: Paths, values: dict[str, Value]) -> None:
    """CVE-2025-0317 and CVE-2024-8063: Ollama divided by zero, in `create` and when it showed or loaded the model."""
    name = "zero-" + next(iter(values)).replace(".", "-")
    content = TinyLlama(values=values).content()
    (home.models / f"{name}.gguf").write_bytes(content)
    digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
    connection = http.client.HTTPConnection("127.0.0.1", int(client.gateway.url.rpartition(":")[2]), timeout=60)
    connection.request("POST", f"/api/blobs/{digest}", content)
    assert connection.getresponse().status in {200, 201}
    connection.close()
    messages = [{"role": "user", "content": "Hi"}]
    answers = [
        send_request(client, "/api/create", {"model": f"{name}-made", "files": {"m.gguf": digest}, "stream": False}),
        send_request(client, "/api/show", {"model": name}),
        send_request(client, "/v1/chat/completions", {"model": name, "messages": messages, "max_tokens": 2}),
    ]
    for status, text in answers:
        assert status in {200, 400, 404, 502}, text
        assert b"made a mistake" not in text
    assert client.get("/models", list[ModelInfo])


HOSTILE: list[dict[str, object]] = [
    {"n_discard": -1_000_000},
    {"n_keep": -5, "n_discard": -99_999_999},
    {"n_probs": 10**9},
    {"n_probs": -1},
    {"grammar": 'root ::= root root | "a"'},
    {"grammar": "root ::= root"},
    {"grammar": "root ::= " + "(" * 20_000 + '"a"' + ")" * 20_000},
    {"grammar": 'root ::= (("a"{0,1000}){0,1000}){0,1000}'},
    {"json_schema": {"$ref": "#"}},
    {"json_schema": {"type": "string", "pattern": "^(a+)+$", "minLength": 10**6}},
    {"samplers": ["x"] * 10_000},
    {"temperature": -1e308, "top_k": -(2**31)},
    {"logit_bias": [[10**9, 1.0], [-5, 1.0]]},
    {"mirostat": 99, "mirostat_tau": -1, "mirostat_eta": 1e38},
    {"id_slot": -7},
    {"lora": [{"id": 99, "scale": 1e30}]},
    {"stop": ["x" * 100_000] * 10},
    {"grammar_triggers": [{"type": 9, "value": "x"}], "grammar_lazy": True, "grammar": 'root ::= "a"'},
    {"json_schema": {"type": "array", "maxItems": 10**9, "items": {"type": "string"}}},
]
"""What samplers and grammars are asked for, beyond what they can do."""


def test_hostile_fields_on_native_routes(client: GatewayClient, home: Paths) -> None:
    """CVE-2026-21869: a negative `n_discard` wrote before llama-server's tokens. Each is answered, by one process."""
    TinyLlama().write(home.models / "native.gguf")
    before = client.post("/load", LoadModel(model="native"), EngineStatus)
    for fields in HOSTILE:
        request_body = {"model": "native", "prompt": "Hi", "n_predict": 2, "max_tokens": 2, **fields}
        status, text = send_request(client, "/v1/completions", request_body)
        assert status in {200, 400}, (fields, text)
    after = client.post("/load", LoadModel(model="native"), EngineStatus)
    assert (after.pid, after.restarts) == (before.pid, 0)


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/completion", "/slots/0?action=save", "/props", "/tokenize"])
def test_an_engine_reached_past_the_gateway(client: GatewayClient, path: str) -> None:
    """Any page could ask llama-server, which reflects every Origin; ours answers nobody without its key."""
    status = client.post("/load", LoadModel(model="guide"), EngineStatus)
    assert status.pid is not None
    family = [psutil.Process(status.pid), *psutil.Process(status.pid).children(recursive=True)]
    listeners = [
        end.laddr for process in family for end in process.net_connections("inet") if end.status == psutil.CONN_LISTEN
    ]
    assert listeners
    assert {end.ip for end in listeners} == {"127.0.0.1"}
    for end in listeners:
        assert send_request(client, path, {"prompt": "Hi", "content": "Hi"}, port=end.port)[0] in {401, 403, 404}
