"""llama.cpp cannot read what the Guide writes by a template that it was never taught: the text is read all the same."""

import json
import shutil
import urllib.error
import urllib.request

import pytest

from app.client.http import GatewayClient
from app.config.paths import Paths, guide_gguf
from tests.end_to_end.conftest import Roundhouse

pytestmark = pytest.mark.real_engine
MODEL = "strange"
"""The Guide under another name: what a gateway learns of a model and its template stays known to it."""
TEMPLATE = (
    "{#- <|channel|>analysis<|message|> -#}{%- for message in messages -%}"
    "<|start|>{{ message.role }}<|message|>{{ message.content }}<|end|>{%- endfor -%}"
    "{%- if tools %}{% for tool in tools %}{{ tool.function.name }} {% endfor %}{% endif -%}"
    "{%- if add_generation_prompt %}<|start|>assistant{% endif -%}"
)
"""llama.cpp takes it for gpt-oss's, whose answers come in channels."""
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}
FUNCTION = {"name": "get_weather", "description": "Tell the weather", "parameters": SCHEMA}
QUESTION = [{"role": "user", "content": "What is Roundhouse?"}]


@pytest.fixture(scope="module")
def strange(
    client: GatewayClient, roundhouse: Roundhouse, home: Paths, tmp_path_factory: pytest.TempPathFactory
) -> GatewayClient:
    shutil.copy(guide_gguf(), home.models / f"{MODEL}.gguf")
    file = tmp_path_factory.mktemp("template") / "strange.jinja"
    file.write_text(TEMPLATE, encoding="utf-8")
    result = roundhouse("tune", MODEL, "--template", str(file))
    assert result.returncode == 0, result.stderr
    return client


def ask(client: GatewayClient, path: str, body: dict[str, object]) -> tuple[int, str]:
    data = json.dumps({"model": MODEL, **body}).encode()
    request = urllib.request.Request(client.gateway.url + path, data, {"Content-Type": "application/json"})  # noqa: S310 -- loopback
    try:
        with urllib.request.urlopen(request, timeout=120) as reply:  # noqa: S310 -- loopback
            return reply.status, reply.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/chat/completions", {"messages": QUESTION, "tools": [{"type": "function", "function": FUNCTION}]}),
        (
            "/v1/messages",
            {"messages": QUESTION, "max_tokens": 40, "tools": [{"name": "get_weather", "input_schema": SCHEMA}]},
        ),
        ("/api/chat", {"messages": QUESTION, "tools": [{"type": "function", "function": FUNCTION}]}),
        ("/v1/responses", {"input": "What is Roundhouse?", "tools": [{"type": "function", **FUNCTION}]}),
        ("/v1/messages", {"messages": QUESTION, "max_tokens": 40}),
    ],
)
def test_an_answer_that_llama_cpp_cannot_read_is_an_answer(
    strange: GatewayClient, path: str, body: dict[str, object], *, stream: bool
) -> None:
    if "tools" not in body:  # a first whole answer is what tells of the model
        ask(strange, path, {**body, "stream": False})
    status, text = ask(strange, path, {**body, "stream": stream, "temperature": 0})
    assert status == 200, text
    assert "does not match" not in text
