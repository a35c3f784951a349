"""One Roundhouse behind another: attached with a key, asked in every dialect, and gone while it answers."""

import json
import stat
from collections.abc import Iterator
from typing import Any

import anthropic
import httpx
import ollama
import openai
import pytest

from app.client.discovery import ensure_gateway
from app.client.http import GatewayClient
from app.config.paths import Paths
from app.core.capabilities import Capability
from app.core.engines import EngineStatus
from app.core.errors import BadRequest, NotFound, Unavailable
from app.core.keys import KeyWithSecret, NewKey
from app.core.models import AttachEndpoint, ModelInfo
from tests.end_to_end.conftest import Roundhouse, stop
from tests.gguf_files import TinyLlama
from tests.written import contents_below

pytestmark = pytest.mark.real_engine

QUESTION = "What is Roundhouse?"
TOLD = [ollama.Message(role="user", content=QUESTION)]
ASKED: Any = [{"role": "user", "content": QUESTION}]


@pytest.fixture(scope="module")
def far(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayClient]:
    """Another installation's gateway, which asks everybody for a key."""
    base = tmp_path_factory.mktemp("far")
    paths = Paths(config=base / "config", data=base / "data", state=base / "state", logs=base / "logs")
    paths.create_folders()
    TinyLlama(name="Tiny Embedder", values={"llama.pooling_type": 3}).write(paths.models / "labse.gguf")
    extra = {"ROUNDHOUSE_HOME": str(base), "ROUNDHOUSE_GATEWAY_PORT": "18431", "ROUNDHOUSE_GATEWAY_REQUIRE_KEY": "1"}
    yield GatewayClient(ensure_gateway(paths, extra=extra), timeout_s=60)
    stop(paths)


@pytest.fixture(scope="module")
def key(far: GatewayClient) -> str:
    return far.post("/keys", NewKey(name="near"), KeyWithSecret).key


@pytest.fixture(scope="module")
def distant(client: GatewayClient, far: GatewayClient, key: str) -> str:
    """The other one's Guide under a name of its own here."""
    body = AttachEndpoint(url=far.gateway.url, name="distant", key=key, models=["guide"])
    (model,) = client.post("/attached", body, list[ModelInfo])
    assert (model.name, model.served_as) == ("distant", "guide")
    assert model.attached == far.gateway.url + "/v1"
    assert model.trained_context
    return model.name


def list_running(client: GatewayClient) -> dict[str, EngineStatus]:
    return {status.model: status for status in client.get("/running", list[EngineStatus])}


def test_openais_client_is_answered_by_the_other_one(client: GatewayClient, far: GatewayClient, distant: str) -> None:
    with openai.OpenAI(base_url=f"{client.gateway.url}/v1", api_key="x") as api:
        whole = api.chat.completions.create(model=distant, messages=ASKED, temperature=0, max_tokens=8)
        assert whole.choices[0].message.content
        chunks: Any = api.chat.completions.create(
            model=distant,
            messages=ASKED,
            temperature=0,
            max_tokens=8,
            stream=True,
        )
        text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
        assert text == whole.choices[0].message.content
        assert api.completions.create(model=distant, prompt="GGUF is", max_tokens=4).usage
    assert list_running(far)["guide"].engine == "llama.cpp"
    status = list_running(client)[distant]
    assert (status.engine, status.pid, status.memory_bytes) == ("attached", None, None)
    assert "guide" not in list_running(client)


def test_ollamas_client_is_too(client: GatewayClient, distant: str) -> None:
    with ollama.Client(host=client.gateway.url, timeout=60) as api:
        options = {"temperature": 0, "num_predict": 8}
        whole = api.chat(distant, TOLD, options=options)
        assert whole.message.content
        stream = api.chat(distant, TOLD, options=options, stream=True)
        assert "".join(chunk.message.content or "" for chunk in stream) == whole.message.content
        assert "completion" in (api.show(distant).capabilities or [])
        assert f"{distant}:latest" in [model.model for model in api.list().models]
        api.create("far-terse", from_=distant, system="One word.", parameters={"num_predict": 3, "temperature": 0})
        assert api.chat("far-terse", TOLD).eval_count == 3
        api.delete("far-terse")


def test_anthropics_client_is_too(client: GatewayClient, distant: str) -> None:
    with anthropic.Anthropic(base_url=client.gateway.url, api_key="x") as api:
        reply = api.messages.create(model=distant, messages=ASKED, max_tokens=8)
        assert reply.content[0].type == "text"
        assert reply.content[0].text


@pytest.mark.slow
def test_the_window_and_the_other_lists_show_it(client: GatewayClient, distant: str) -> None:
    assert distant in [model.name for model in client.get("/attached", list[ModelInfo])]
    cards = httpx.get(client.gateway.url + "/v1/models").json()["data"]
    (card,) = [card for card in cards if card["id"] == distant]
    assert card["max_context_length"]


def test_what_the_other_one_says_it_can_do_is_said_here(
    client: GatewayClient, far: GatewayClient, distant: str
) -> None:
    (theirs,) = [model for model in far.get("/models", list[ModelInfo]) if model.name == "guide"]
    (ours,) = [model for model in client.get("/models", list[ModelInfo]) if model.name == distant]
    assert ours.capabilities == theirs.capabilities
    assert httpx.post(f"{client.gateway.url}/v1/embeddings", json={"model": distant, "input": "x"}).status_code == 400


def test_its_tokenizer_and_its_counts_are_used(
    client: GatewayClient, far: GatewayClient, distant: str, key: str
) -> None:
    here, there = client.gateway.url, far.gateway.url
    headers = {"Authorization": f"Bearer {key}"}
    for path, fields in (
        ("/tokenize", {"content": "GGUF is"}),
        ("/apply-template", {"messages": ASKED}),
        ("/v1/messages/count_tokens", {"messages": ASKED}),
    ):
        ours = httpx.post(here + path, json={"model": distant, **fields}, timeout=60)
        theirs = httpx.post(there + path, json={"model": "guide", **fields}, headers=headers, timeout=60)
        assert (ours.status_code, ours.json()) == (200, theirs.json())


def test_an_embedder_there_embeds_here_for_openais_and_ollamas_clients(
    client: GatewayClient, far: GatewayClient, key: str
) -> None:
    body = AttachEndpoint(url=far.gateway.url, name="vectors", key=key, models=["labse"])
    (model,) = client.post("/attached", body, list[ModelInfo])
    assert (model.capabilities, model.chats) == ([Capability.EMBEDDING], False)
    with openai.OpenAI(base_url=f"{client.gateway.url}/v1", api_key="x") as api:
        vector = api.embeddings.create(model="vectors", input="a train").data[0].embedding
        with pytest.raises(openai.BadRequestError, match="does not write text"):
            api.chat.completions.create(model="vectors", messages=ASKED)
    with ollama.Client(host=client.gateway.url, timeout=60) as other:
        assert [*other.embeddings("vectors", "a train").embedding] == pytest.approx(vector, abs=1e-4)
        assert other.show("vectors").capabilities == ["embedding"]
    client.delete("/attached/vectors")


def test_attaching_all_of_it_gives_each_a_name_that_nobody_has(
    client: GatewayClient, far: GatewayClient, key: str
) -> None:
    attached_models = client.post("/attached", AttachEndpoint(url=far.gateway.url, key=key), list[ModelInfo])
    assert sorted(model.name for model in attached_models) == ["guide@127.0.0.1", "labse"]
    again = client.post("/attached", AttachEndpoint(url=far.gateway.url + "/v1/", key=key), list[ModelInfo])
    assert sorted(model.name for model in again) == ["guide@127.0.0.1", "labse"], "attached anew they keep their names"
    client.delete("/attached/labse")
    client.delete("/attached/guide@127.0.0.1")
    with pytest.raises(NotFound):
        client.delete("/attached/guide@127.0.0.1")
    with pytest.raises(NotFound, match="not attached"):
        client.delete("/attached/guide")


def test_the_key_is_in_one_private_file_and_nowhere_else(home: Paths, distant: str, key: str) -> None:
    holding_files = [file for file, content in contents_below(home.data.parent).items() if key.encode() in content]
    assert [file.suffix for file in holding_files] == [".key"]
    assert stat.S_IMODE(holding_files[0].stat().st_mode) == 0o600
    assert distant


@pytest.mark.parametrize(
    ("url", "sentence"),
    [
        ("http://169.254.169.254/v1", "never contacted"),
        ("http://[fd00:ec2::254]/v1", "never contacted"),
        ("ftp://127.0.0.1/v1", "not the address of an endpoint"),
        ("http://user:pass@127.0.0.1/v1", "not the address of an endpoint"),
        ("http://127.0.0.1:99999/v1", "not the address of an endpoint"),
        ("http://127.0.0.1/v1?x=1", "not the address of an endpoint"),
        ("file:///etc/passwd", "not the address of an endpoint"),
        ("", "not the address of an endpoint"),
    ],
)
def test_addresses_that_are_none_or_must_not_be_called_are_refused(
    client: GatewayClient, url: str, sentence: str
) -> None:
    with pytest.raises(BadRequest, match=sentence):
        client.post("/attached", AttachEndpoint(url=url), list[ModelInfo])


def test_what_cannot_be_attached_is_said(client: GatewayClient, far: GatewayClient, key: str) -> None:
    with pytest.raises(BadRequest, match="does not accept the key"):
        client.post("/attached", AttachEndpoint(url=far.gateway.url, key="wrong"), list[ModelInfo])
    with pytest.raises(NotFound, match="no model 'gpt-9'"):
        client.post("/attached", AttachEndpoint(url=far.gateway.url, key=key, models=["gpt-9"]), list[ModelInfo])
    with pytest.raises(Unavailable, match="does not answer"):
        client.post("/attached", AttachEndpoint(url="http://127.0.0.1:9"), list[ModelInfo])
    with pytest.raises(BadRequest, match="Roundhouse's own endpoint"):
        client.post("/attached", AttachEndpoint(url=client.gateway.url), list[ModelInfo])


@pytest.mark.slow
def test_the_commands_do_it_without_the_key_on_the_line(
    roundhouse: Roundhouse, far: GatewayClient, key: str, client: GatewayClient
) -> None:
    attach_result = roundhouse(
        "attach", far.gateway.url, "--name", "by-hand", "--model", "guide", "--key-stdin", stdin=key + "\n"
    )
    assert attach_result.stdout == "by-hand was added, from Roundhouse.\n", attach_result.stderr
    assert "unencrypted" in attach_result.stderr
    assert key not in attach_result.stdout + attach_result.stderr
    listing = roundhouse("attach", "list", "--json")
    assert "by-hand" in [endpoint["name"] for endpoint in json.loads(listing.stdout)["attached"]]
    assert key not in listing.stdout
    assert "attached: 127.0.0.1:" in roundhouse("list").stdout
    assert roundhouse("attach", "by-hand", "--can", "chat,vision", "--context", "512").returncode == 0
    assert "chat, vision" in roundhouse("attach", "list").stdout
    assert "chat, vision" in roundhouse("show", "by-hand").stdout
    assert roundhouse("attach", "by-hand", "--can", "auto", "--context", "0").returncode == 0
    result = roundhouse("run", "by-hand", "What is Roundhouse?", "--temperature", "0")
    assert (result.returncode, bool(result.stdout)) == (0, True), result.stderr
    assert roundhouse("detach", "by-hand").stdout == "by-hand is no longer attached.\n"
    environ = {"ROUNDHOUSE_ATTACH_KEY": key}
    assert roundhouse("attach", far.gateway.url, "--name", "by-env", "--model", "guide", env=environ).returncode == 0
    assert roundhouse("detach", "by-env").returncode == 0
    assert roundhouse("detach", "by-env").returncode == 2


def test_a_key_that_is_taken_back_is_told_in_each_dialects_form(client: GatewayClient, far: GatewayClient) -> None:
    secret = far.post("/keys", NewKey(name="brief"), KeyWithSecret).key
    body = AttachEndpoint(url=far.gateway.url, name="brief", key=secret, models=["guide"])
    client.post("/attached", body, list[ModelInfo])
    far.delete("/keys/brief")
    with (
        openai.OpenAI(base_url=f"{client.gateway.url}/v1", api_key="x", max_retries=0) as api,
        pytest.raises(openai.APIStatusError, match="does not accept the key"),
    ):
        api.chat.completions.create(model="brief", messages=ASKED)
    with ollama.Client(host=client.gateway.url) as other, pytest.raises(ollama.ResponseError, match="accept the key"):
        other.chat("brief", TOLD)
    client.delete("/attached/brief")
