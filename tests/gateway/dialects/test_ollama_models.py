"""Ollama's routes about models: what clients read before they ask anything."""

import json
import re
from datetime import datetime
from typing import Any, cast

import pytest

from app.core.errors import Conflict
from app.gateway.dialects.ollama.models import VERSION
from tests.gateway.played import Gateway


async def ask_gateway(gateway: Gateway, method: str, path: str, document: object = None) -> tuple[int, Any]:
    data = None if document is None else json.dumps(document).encode()
    async with gateway.http.request(method, gateway.url + path, data=data) as reply:
        text = await reply.text()
        return reply.status, json.loads(text) if text.startswith(("{", "[")) else text


@pytest.mark.parametrize("method", ["GET", "HEAD"])
@pytest.mark.parametrize("path", ["/", "/api/version", "/api/tags"])
async def test_clients_can_probe(gateway: Gateway, method: str, path: str) -> None:
    async with gateway.http.request(method, gateway.url + path) as reply:
        assert reply.status == 200
        body = await reply.text()
    assert bool(body) == (method == "GET")
    if path == "/" and body:
        assert body == "Ollama is running"


@pytest.mark.parametrize("path", ["/api/version", "/api/show", "/api/nothing"])
async def test_every_document_says_its_encoding(gateway: Gateway, path: str) -> None:
    async with gateway.http.get(gateway.url + path) as reply:
        assert reply.headers["Content-Type"] == "application/json; charset=utf-8"


async def test_the_version_is_three_bare_numbers_that_codex_and_copilot_accept(gateway: Gateway) -> None:
    assert await ask_gateway(gateway, "GET", "/api/version") == (200, {"version": VERSION})
    assert re.fullmatch(r"\d+\.\d+\.\d+", VERSION)
    assert tuple(map(int, VERSION.split("."))) >= (0, 13, 4)


async def test_tags_list_what_can_be_used_with_every_field_that_strict_parsers_want(gateway: Gateway) -> None:
    _, tags = await ask_gateway(gateway, "GET", "/api/tags")
    assert [model["name"] for model in tags["models"]] == ["guide:latest", "org/embed:q8"]
    for model in tags["models"]:
        assert model["name"] == model["model"]
        assert re.fullmatch("[0-9a-f]{64}", model["digest"])
        assert datetime.fromisoformat(model["modified_at"]).tzinfo is not None
        details = model["details"]
        for field in ("format", "family", "parameter_size", "quantization_level", "parent_model"):
            assert isinstance(details[field], str)
        assert isinstance(details["families"], list)
    assert len({model["digest"] for model in tags["models"]}) == 2


async def test_ps_says_what_is_loaded_and_until_when(gateway: Gateway) -> None:
    _, loaded_models = await ask_gateway(gateway, "GET", "/api/ps")
    (model,) = loaded_models["models"]
    assert (model["name"], model["context_length"], model["size_vram"]) == ("guide:latest", 4096, 0)
    assert datetime.fromisoformat(model["expires_at"]).year > 2300
    gateway.supervisor.is_loaded = False
    assert await ask_gateway(gateway, "GET", "/api/ps") == (200, {"models": []})


@pytest.mark.parametrize("body", [{"model": "guide"}, {"name": "GUIDE:latest"}, {"model": "", "name": "guide"}])
async def test_show_has_what_copilot_roo_continue_and_zed_look_into(gateway: Gateway, body: dict[str, str]) -> None:
    status, shown_model = await ask_gateway(gateway, "POST", "/api/show", body)
    assert status == 200
    assert "completion" in shown_model["capabilities"]
    architecture = shown_model["model_info"]["general.architecture"]
    assert shown_model["model_info"][f"{architecture}.context_length"] == 2048
    assert isinstance(shown_model["details"]["family"], str)
    assert isinstance(shown_model["details"]["parameter_size"], str)
    assert re.search(r"^num_ctx +4096$", shown_model["parameters"], re.MULTILINE)
    assert ".Suffix" not in shown_model["template"]


async def test_copilot_is_shown_the_name_it_asked_for(gateway: Gateway) -> None:
    headers = {"User-Agent": "GitHubCopilotChat/0.35"}
    async with gateway.http.post(f"{gateway.url}/api/show", json={"model": "guide"}, headers=headers) as reply:
        assert (await reply.json())["model_info"]["general.basename"] == "guide"


async def test_pulling_what_is_here_succeeds_at_once(gateway: Gateway) -> None:
    async with gateway.http.post(f"{gateway.url}/api/pull", json={"name": "guide"}) as reply:
        assert reply.content_type == "application/x-ndjson"
        lines = [json.loads(line) for line in (await reply.read()).splitlines()]
    assert [line["status"] for line in lines] == ["pulling manifest", "success"]
    pull_lines = await ask_gateway(gateway, "POST", "/api/pull", {"model": "Guide:latest", "stream": False})
    assert pull_lines == (200, {"status": "success"})


async def test_pulling_what_is_not_here_ends_in_an_error_line(gateway: Gateway) -> None:
    async with gateway.http.post(f"{gateway.url}/api/pull", json={"model": "nobody-has-this"}) as reply:
        assert reply.status == 200
        last = json.loads((await reply.read()).splitlines()[-1])
    assert "not in the catalogue" in last["error"]
    status, refusal = await ask_gateway(gateway, "POST", "/api/pull", {"model": "nobody-has-this", "stream": False})
    assert (status, list(refusal)) == (400, ["error"])


@pytest.mark.slow(cases=11)
@pytest.mark.parametrize(
    ("method", "path", "document", "status", "sentence"),
    [
        ("POST", "/api/show", {"model": "gpt-9"}, 404, "model 'gpt-9' not found"),
        ("POST", "/api/show", {"model": "gpt-9"}, 404, "guide"),
        ("POST", "/api/show", {"model": "broken"}, 400, "cut off"),
        ("POST", "/api/show", None, 400, "missing request body"),
        ("POST", "/api/push", {"model": "guide"}, 501, "not uploaded"),
        ("POST", "/api/push", {"model": "gpt-9"}, 404, "not found"),
        ("POST", "/api/create", {"model": "mine"}, 400, "neither 'from' or 'files' was specified"),
        ("POST", "/api/create", {"model": "mine", "from": "gpt-9"}, 404, "not found"),
        ("POST", "/api/create", {"model": "mine", "files": {"a.gguf": "sha256:00"}}, 400, "invalid digest format"),
        ("POST", "/api/copy", {"source": "gpt-9", "destination": "b"}, 404, "not found"),
        ("POST", "/api/copy", {"source": "guide"}, 400, "required"),
        ("POST", f"/api/blobs/sha256:{'0' * 64}", {"any": "bytes"}, 400, "digest mismatch"),
        ("POST", "/api/blobs/sha256:..%2f..%2fetc", {}, 400, "invalid digest format"),
        ("POST", "/api/me", {}, 401, "cloud"),
        ("POST", "/api/signout", {}, 401, "cloud"),
        ("POST", "/api/experimental/anything", {}, 404, "nothing at /api/experimental/anything"),
        ("GET", "/api/chat", None, 405, "POST"),
        ("DELETE", "/api/delete", {"model": "gpt-9"}, 404, "model 'gpt-9' not found"),
        ("DELETE", "/api/delete", {}, 400, "model is required"),
    ],
)
async def test_refusals_have_ollamas_shape(  # noqa: PLR0913, PLR0917 -- one row of the table
    gateway: Gateway, method: str, path: str, document: object, status: int, sentence: str
) -> None:
    answer = await ask_gateway(gateway, method, path, document)
    assert (answer[0], list(answer[1])) == (status, ["error"])
    assert sentence in answer[1]["error"]


async def test_there_are_no_blobs(gateway: Gateway) -> None:
    assert (await ask_gateway(gateway, "HEAD", f"/api/blobs/sha256:{'a' * 64}"))[0] == 404


async def test_no_cloud_is_promised(gateway: Gateway) -> None:
    _, answer = await ask_gateway(gateway, "GET", "/api/status")
    assert answer["cloud"]["disabled"] is True


class Registered:
    """A library with one registered file and one that lies in a folder."""

    def __init__(self, library: Any) -> None:  # noqa: ANN401 -- a stand-in
        self._library = library
        self.forgotten_names: list[str] = []

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 -- whatever the library has
        return getattr(self._library, name)

    def forget_model(self, name: str) -> None:
        if name != "guide":
            raise Conflict(f"{name} is in a model folder and would be found again.", hint="Move it elsewhere.")
        self.forgotten_names.append(name)


async def test_deleting_forgets_a_registered_file_and_refuses_the_rest(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = Registered(gateway.services.library)
    object.__setattr__(gateway.services, "library", cast("Any", library))
    assert (await ask_gateway(gateway, "DELETE", "/api/delete", {"name": "Guide:latest"}))[0] == 200
    assert library.forgotten_names == ["guide"]
    assert gateway.supervisor.expired_models == ["guide"]
    status, refusal = await ask_gateway(gateway, "DELETE", "/api/delete", {"model": "org/embed:q8"})
    assert status == 409
    assert "is in a model folder" in refusal["error"]
