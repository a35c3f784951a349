"""Creating, copying and deleting models, and uploading what they are made of, with files on a real disk."""

import asyncio
import hashlib
import io
import json
import pickle
from pathlib import Path
from typing import Any, cast

import pytest
from aiohttp import web

from app.core.keys import NewKey, Scope
from app.hub.library.library import Library
from tests.gateway.played import Gateway
from tests.gguf_files import TinyLlama
from tests.patience import until

ASKED = [{"role": "user", "content": "Why?"}]
FIRST = {"model": "mario", "from": "base", "system": "Be a plumber.", "parameters": {"temperature": 0.1, "stop": "X"}}


@pytest.fixture
def library(gateway: Gateway, tmp_path: Path) -> Library:
    """The real library, with one file and a Guide."""
    TinyLlama().write(gateway.services.paths.models / "base.gguf")
    new_library = Library(
        lambda: [gateway.services.paths.models],
        gateway.services.paths.data / "models.json",
        TinyLlama().write(tmp_path / "guide.gguf"),
    )
    object.__setattr__(gateway.services, "library", cast("Any", new_library))
    gateway.supervisor.served_name = "served"
    return new_library


async def post(gateway: Gateway, path: str, body: object, method: str = "POST", **more: Any) -> tuple[int, Any]:  # noqa: ANN401 -- aiohttp's
    async with gateway.http.request(method, gateway.url + path, data=json.dumps(body).encode(), **more) as reply:
        text = await reply.text()
        return reply.status, [json.loads(line) for line in text.splitlines()]


async def put_blob(gateway: Gateway, data: bytes, digest: str = "") -> tuple[int, str]:
    name = digest or "sha256:" + hashlib.sha256(data).hexdigest()
    async with gateway.http.post(f"{gateway.url}/api/blobs/{name}", data=io.BytesIO(data)) as reply:
        await reply.read()
        return reply.status, name


def names(library: Library) -> list[str]:
    return [model.name for model in library.list_models()]


async def test_a_created_model_is_told_in_ollamas_lines_and_listed(gateway: Gateway, library: Library) -> None:
    status, lines = await post(gateway, "/api/create", FIRST)
    assert status == 200
    assert lines[0]["status"].startswith("using existing layer sha256:")
    assert [line["status"] for line in lines[-2:]] == ["writing manifest", "success"]
    assert await post(gateway, "/api/create", {**FIRST, "stream": False}) == (200, [{"status": "success"}])
    assert names(library) == ["guide", "base", "mario"]
    _, (shown_model,) = await post(gateway, "/api/show", {"model": "mario"})
    assert shown_model["system"] == "Be a plumber."
    assert 'stop                           "X"' in shown_model["parameters"]
    assert "FROM base:latest" in shown_model["modelfile"]
    assert shown_model["details"]["parent_model"] == "base:latest"


async def play_chat(request: web.Request) -> web.StreamResponse:
    if request.path.endswith("/chat/completions") and b'"stream":true' in await request.read():
        end = {"choices": [{"index": 0, "delta": {"content": "ok"}, "finish_reason": "stop"}]}
        return web.Response(body=f"data: {json.dumps(end)}\n\ndata: [DONE]\n\n", content_type="text/event-stream")
    return web.json_response({"choices": [{"message": {"role": "assistant", "content": "ok"}}]})


@pytest.mark.slow(cases=1)
@pytest.mark.parametrize(
    ("path", "more"),
    [
        ("/v1/chat/completions", {}),
        ("/api/chat", {"stream": False}),
        ("/api/v0/chat/completions", {}),
        ("/v1/messages", {"max_tokens": 9}),
        ("/v1/responses", {"input": "Why?"}),
        ("/api/v1/chat", {"input": "Why?"}),
    ],
)
async def test_every_dialect_gets_its_settings(
    gateway: Gateway, library: Library, path: str, more: dict[str, object]
) -> None:
    await post(gateway, "/api/create", FIRST)
    gateway.upstream.play = play_chat
    request = more if "input" in more else {"messages": ASKED, **more}
    await post(gateway, path, {"model": "mario", **request})
    body = json.loads(gateway.upstream.bodies[-1])
    system = body.get("system") or body["messages"][0]["content"]
    assert "Be a plumber." in json.dumps(system)
    assert body["temperature"] == 0.1
    assert body["model"] == "served"
    assert gateway.supervisor.load_requests[-1].source.name == "base", "the engine of its base answers"
    await post(gateway, path, {"model": "base", **request})
    assert b"plumber" not in gateway.upstream.bodies[-1]


async def test_a_requests_own_options_win_in_ollamas_dialect(gateway: Gateway, library: Library) -> None:
    await post(gateway, "/api/create", FIRST)
    gateway.upstream.play = play_chat
    own = [{"role": "system", "content": "Be a king."}, *ASKED]
    await post(gateway, "/api/chat", {"model": "mario", "messages": own, "options": {"temperature": 0.9}})
    body = json.loads(gateway.upstream.bodies[-1])
    assert body["temperature"] == 0.9
    assert [turn["content"] for turn in body["messages"]] == ["Be a king.", "Why?"]


async def test_context_and_template_are_what_it_is_loaded_with(gateway: Gateway, library: Library) -> None:
    body = {"model": "own", "from": "base", "parameters": {"num_ctx": 32}, "template": "{{ .Prompt }}"}
    await post(gateway, "/api/create", body)
    gateway.upstream.play = play_chat
    await post(gateway, "/v1/chat/completions", {"model": "own", "messages": ASKED})
    load = gateway.supervisor.load_requests[-1]
    assert (load.source.name, load.options.context) == ("own", 32)
    assert "exchange(" in (load.options.chat_template or "")
    assert "own" in gateway.supervisor.expired_models, "one that was loaded with other settings goes"


@pytest.mark.parametrize(
    ("changes", "status", "sentence"),
    [
        ({"from": "gpt-9"}, 404, "model 'gpt-9' not found"),
        ({"from": "", "modelfile": "FROM base"}, 400, "neither 'from' or 'files' was specified"),
        ({"model": "base"}, 409, "already"),
        ({"model": "../../etc"}, 400, "invalid model name"),
        ({"model": ""}, 400, "invalid model name"),
        ({"quantize": "q4_0"}, 501, "not quantised"),
        ({"adapters": {"a": "sha256:" + "0" * 64}}, 501, "LoRA"),
        ({"parameters": {"temperature": "hot"}}, 400, 'option "temperature"'),
        ({"template": "{{ .Prompt }}{{ call .X }}"}, 400, "cannot be turned"),
        ({"messages": [{"role": "tool", "content": "x"}]}, 400, "messages"),
        ({"files": {"a.gguf": "sha256:" + "0" * 64}}, 400, "Both"),
    ],
)
async def test_what_cannot_be_created_is_said_before_anything_is_kept(
    gateway: Gateway, library: Library, changes: dict[str, object], status: int, sentence: str
) -> None:
    reply_status, (refusal,) = await post(gateway, "/api/create", {**FIRST, **changes})
    assert (reply_status, list(refusal)) == (status, ["error"])
    assert sentence in refusal["error"]
    assert names(library) == ["guide", "base"]


PASSED = {"renderer": "qwen3", "requires": "0.14.0", "info": {"a": 1}, "parser": "", "draft_files": None}


async def test_options_without_effect_are_named(gateway: Gateway, library: Library) -> None:
    _, lines = await post(
        gateway, "/api/create", {**FIRST, "parameters": {"num_gpu": 1, "top_k": None, "x": 1}, **PASSED}
    )
    status = [line["status"] for line in lines]
    assert "parameter num_gpu has no effect here" in status
    assert "parameter x has no effect here" in status
    assert {"renderer has no effect here", "requires has no effect here", "info has no effect here"} <= {*status}
    assert not any(name.startswith(("parser", "draft_files")) for name in status)


async def test_copies_and_deletions(gateway: Gateway, library: Library) -> None:
    await post(gateway, "/api/create", FIRST)
    assert (await post(gateway, "/api/copy", {"source": "mario", "destination": "luigi"}))[0] == 200
    assert (await post(gateway, "/api/copy", {"source": "base", "destination": "plain:v1"}))[0] == 200
    assert names(library) == ["guide", "base", "luigi", "mario", "plain:v1"]
    assert (await post(gateway, "/api/copy", {"source": "mario", "destination": "base"}))[0] == 409
    assert (await post(gateway, "/api/delete", {"model": "mario"}, "DELETE"))[0] == 200
    assert names(library) == ["guide", "base", "luigi", "plain:v1"]
    _, (shown_model,) = await post(gateway, "/api/show", {"model": "luigi"})
    assert shown_model["system"] == "Be a plumber.", "a copy does not hang on what it was copied from"
    assert (gateway.services.paths.models / "base.gguf").is_file()


async def test_a_model_of_an_uploaded_file(gateway: Gateway, library: Library, tmp_path: Path) -> None:
    data = TinyLlama(name="Uploaded").write(tmp_path / "up.gguf").read_bytes()
    digest = "sha256:" + hashlib.sha256(data).hexdigest()
    async with gateway.http.head(f"{gateway.url}/api/blobs/{digest}") as reply:
        assert reply.status == 404
    assert await put_blob(gateway, data) == (201, digest)
    assert await put_blob(gateway, data) == (200, digest)
    async with gateway.http.head(f"{gateway.url}/api/blobs/{digest}") as reply:
        assert reply.status == 200
    status, lines = await post(gateway, "/api/create", {"model": "mine:v1", "files": {"./up.gguf": digest}})
    assert status == 200, lines
    assert lines[0]["status"] == "parsing GGUF"
    assert names(library) == ["guide", "base", "mine:v1"]
    mine = library.find_model("mine:v1")
    assert await asyncio.to_thread(Path(mine.path).read_bytes) == data
    assert mine.runs_as == "mine:v1"
    assert (await post(gateway, "/api/delete", {"model": "mine:v1"}, "DELETE"))[0] == 200
    assert names(library) == ["guide", "base"]
    assert not await asyncio.to_thread(Path(mine.path).exists)
    assert (await post(gateway, "/api/create", {"model": "mine", "files": {"up": digest}}))[0] == 200


async def test_an_upload_may_be_larger_than_a_request(gateway: Gateway, library: Library) -> None:
    assert gateway.services.settings.get_int("gateway.max_body_mib") == 1
    data = bytes(3 << 20)
    assert (await put_blob(gateway, data))[0] == 201
    assert (await put_blob(gateway, data))[0] == 200, "sent again it is read to its end, and nothing breaks"


async def test_many_are_made_at_once(gateway: Gateway, library: Library, tmp_path: Path) -> None:
    async def make(number: int) -> int:
        file = tmp_path / f"{number}.gguf"
        data = await asyncio.to_thread(lambda: TinyLlama(name=f"N{number}").write(file).read_bytes())
        _, digest = await put_blob(gateway, data)
        return (await post(gateway, "/api/create", {"model": f"m{number}", "files": {"w.gguf": digest}}))[0]

    assert await asyncio.gather(*map(make, range(6))) == [200] * 6
    assert names(library) == ["guide", "base", *(f"m{number}" for number in range(6))]
    assert not [model for model in library.list_models() if model.problem]


@pytest.mark.parametrize(
    ("name", "data", "code"),
    [
        ("model.bin", pickle.dumps({"a": 1}), "can carry programs"),
        ("model.gguf", pickle.dumps({"a": 1}), "can carry programs"),
        ("model.gguf", b"PK\x03\x04archive/data.pkl", "can carry programs"),
        ("model.safetensors", b"\x08\0\0\0\0\0\0\0{}      ", "safetensors"),
        ("model.gguf", b"neither", "no GGUF file"),
        ("model.gguf", b"GGUF" + bytes(60), ""),
        ("../model.gguf", b"GGUF" + bytes(60), "no name for a file"),
        ("/etc/model.gguf", b"GGUF" + bytes(60), "no name for a file"),
        ("..\\up.gguf", b"GGUF" + bytes(60), "no name for a file"),
    ],
)
async def test_files_that_are_no_whole_gguf_are_refused(  # noqa: PLR0913, PLR0917 -- one row of the table
    gateway: Gateway, library: Library, tmp_path: Path, name: str, data: bytes, code: str
) -> None:
    _, digest = await put_blob(gateway, data)
    status, (refusal,) = await post(gateway, "/api/create", {"model": "bad", "files": {name: digest}})
    assert status == 400
    assert code in refusal["error"]
    assert names(library) == ["guide", "base"]
    assert not list((gateway.services.paths.data / "created").glob("*/*"))


async def test_a_file_cut_short_is_refused_with_what_is_missing(
    gateway: Gateway, library: Library, tmp_path: Path
) -> None:
    _, digest = await put_blob(gateway, TinyLlama().write(tmp_path / "up.gguf").read_bytes()[:-1000])
    status, (refusal,) = await post(gateway, "/api/create", {"model": "bad", "files": {"up.gguf": digest}})
    assert status == 400
    assert "incomplete" in refusal["error"]


async def test_an_upload_of_other_bytes_leaves_nothing(gateway: Gateway, library: Library) -> None:
    assert (await put_blob(gateway, b"other", "sha256:" + "0" * 64))[0] == 400
    assert not list((gateway.services.paths.data / "blobs").iterdir())


async def test_an_upload_that_goes_away_leaves_nothing(gateway: Gateway, library: Library) -> None:
    folder = gateway.services.paths.data / "blobs"

    def files() -> int:
        return len(list(folder.iterdir())) if folder.is_dir() else 0

    _, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
    head = f"POST /api/blobs/sha256:{'0' * 64} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 5000\r\n\r\n"
    writer.write(head.encode() + b"x" * 1000)
    await until(lambda: files() == 1)
    writer.close()
    await until(lambda: files() == 0)


async def test_a_key_that_may_only_ask_may_not_change_models(gateway: Gateway, library: Library) -> None:
    settings = gateway.services.settings
    asking_key = gateway.services.keys.make_key(NewKey(name="asks", scopes=[Scope.INFERENCE])).key
    managing_key = gateway.services.keys.make_key(NewKey(name="manages", scopes=[Scope.MANAGE])).key
    settings.change_values({"gateway.require_key": True})
    for key, status in ((asking_key, 403), (managing_key, 200)):
        headers = {"Authorization": f"Bearer {key}"}
        assert (await post(gateway, "/api/create", FIRST, headers=headers))[0] == status
        assert (await post(gateway, "/api/copy", {"source": "base", "destination": "b"}, headers=headers))[0] == status
    headers = {"Authorization": f"Bearer {asking_key}"}
    assert (await post(gateway, "/api/delete", {"model": "mario"}, "DELETE", headers=headers))[0] == 403
    async with gateway.http.post(f"{gateway.url}/api/blobs/sha256:{'0' * 64}", data=b"x", headers=headers) as reply:
        assert reply.status == 403


async def test_a_made_model_is_unloaded_as_what_it_shares_and_can_be_made_by_the_window(
    gateway: Gateway, library: Library
) -> None:
    headers = {"Authorization": "Bearer token"}
    own = f"{gateway.url}/roundhouse/v1"
    body = {"name": "mario", "base": "base", "preset": {"system": "Be a plumber."}}
    async with gateway.http.post(f"{own}/made", json=body, headers=headers) as reply:
        assert (reply.status, (await reply.json())["preset"]["base"]) == (200, "base")
    async with gateway.http.post(f"{own}/unload", json={"model": "mario"}, headers=headers) as reply:
        assert reply.status == 200
    assert gateway.supervisor.unloads == [("base", False)]
    async with gateway.http.post(f"{own}/made", json={**body, "base": "gone"}, headers=headers) as reply:
        assert reply.status == 404
