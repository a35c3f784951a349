"""Attacks that need the real engine: by what a downloaded model carries, and past the gateway."""

import http.client
import json
from pathlib import Path

import psutil
import pytest

from app.client.http import Client
from app.config.paths import Paths
from app.core.engines import EngineStatus
from app.core.models import LoadModel
from tests.scripted_gguf import ScriptedLlama

pytestmark = pytest.mark.real_engine

EVIL_TEMPLATES = {
    "globals": "{{{{ cycler.__init__.__globals__.os.popen('touch {file}').read() }}}}",
    "subclasses": "{{{{ ''.__class__.__mro__[1].__subclasses__() }}}}{{{{ self.__init__.__globals__ }}}}",
    "builtins": "{{{{ lipsum.__globals__['__builtins__']['open']('{file}', 'w').write('x') }}}}",
    "include": "{{% include '/etc/passwd' %}}{{% import 'os' as os %}}{{{{ os.system('touch {file}') }}}}",
}


def asked(
    client: Client, path: str, body: object, *, port: int | None = None, timeout_s: float = 60
) -> tuple[int, bytes]:
    address = port or int(client.gateway.url.rpartition(":")[2])
    connection = http.client.HTTPConnection("127.0.0.1", address, timeout=timeout_s)
    try:
        connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
        reply = connection.getresponse()
        return reply.status, reply.read()
    finally:
        connection.close()


@pytest.mark.parametrize("name", EVIL_TEMPLATES)
def test_template_injection(client: Client, home: Paths, tmp_path: Path, name: str) -> None:
    """CVE-2024-34359: a chat template came with the weights and was run as a program by llama-cpp-python."""
    file = tmp_path / "owned"
    template = EVIL_TEMPLATES[name].format(file=file)
    ScriptedLlama(["The answer"], template=template).write(home.models / f"evil-{name}.gguf")
    messages = [{"role": "user", "content": "Hi"}]
    status, said = asked(
        client, "/v1/chat/completions", {"model": f"evil-{name}", "messages": messages, "max_tokens": 4}
    )
    assert (status, json.loads(said)["error"]["code"]) == (502, "bad_template")
    assert not file.exists()
    assert asked(client, "/v1/chat/completions", {"model": "guide", "messages": messages, "max_tokens": 1})[0] == 200


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/completion", "/slots/0?action=save", "/props", "/tokenize"])
def test_an_engine_reached_past_the_gateway(client: Client, path: str) -> None:
    """Any page could ask llama-server, which reflects every Origin; ours answers nobody without its key."""
    status = client.post("/load", LoadModel(model="guide"), EngineStatus)
    assert status.pid is not None
    family = [psutil.Process(status.pid), *psutil.Process(status.pid).children(recursive=True)]
    listening = [end.laddr for one in family for end in one.net_connections("inet") if end.status == psutil.CONN_LISTEN]
    assert listening
    assert {end.ip for end in listening} == {"127.0.0.1"}
    for end in listening:
        assert asked(client, path, {"prompt": "Hi", "content": "Hi"}, port=end.port)[0] in {401, 403, 404}
