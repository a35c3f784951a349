"""Attacks on what is kept here: models changed or carried off, files outside our folders, doors engines leave open.

Each is named after a published class; the numbers are of advisories about Ollama, where that is known.
"""

import hashlib
import json
from pathlib import Path

import pytest

from app.core.keys import NewKey, Scope
from app.gateway.entry.keys import KeyStore
from tests.gateway.played import Gateway

CHANGES = [
    ("POST", "/api/pull", {"model": "guide"}),
    ("POST", "/api/push", {"model": "guide"}),
    ("POST", "/api/create", {"model": "mine", "from": "guide"}),
    ("POST", "/api/copy", {"source": "guide", "destination": "mine"}),
    ("DELETE", "/api/delete", {"model": "guide"}),
    ("POST", "/api/blobs/sha256:" + "0" * 64, {}),
    ("POST", "/api/v1/models/download", {"model": "guide"}),
    ("POST", "/api/v1/models/load", {"model": "guide"}),
    ("POST", "/api/v1/models/unload", {"instance_id": "guide"}),
]
EVIL = {"Origin": "https://evil.example"}


async def ask_gateway(gateway: Gateway, method: str, path: str, body: object, **headers: str) -> tuple[int, bytes]:
    async with gateway.http.request(method, gateway.url + path, json=body, headers=headers) as reply:
        return reply.status, await reply.read()


def list_files(folder: Path) -> set[Path]:
    return {file for file in folder.rglob("*") if file.is_file() and file.suffix not in {".db", ".db-wal", ".db-shm"}}


@pytest.mark.parametrize(("method", "path", "body"), CHANGES)
async def test_models_changed_or_carried_off_by_a_foreign_page(
    gateway: Gateway, method: str, path: str, body: object
) -> None:
    assert (await ask_gateway(gateway, method, path, body, **EVIL))[0] == 403
    assert (await ask_gateway(gateway, method, path, body, Host="evil.example"))[0] == 403


@pytest.mark.parametrize(("method", "path", "body"), CHANGES)
async def test_models_changed_or_carried_off_without_a_key(
    gateway: Gateway, method: str, path: str, body: object
) -> None:
    """Servers of Ollama's that anybody can reach lose their models so: it asks nobody for a key."""
    gateway.services.settings.change_values({"gateway.require_key": True})
    assert (await ask_gateway(gateway, method, path, body))[0] == 401
    assert (await ask_gateway(gateway, method, path, body, Authorization="Bearer rh-wrong"))[0] == 401


NOT_HERE = ("POST", "/api/pull", {"model": "hf.co/nobody/nothing"})


@pytest.mark.parametrize(("method", "path", "body"), [NOT_HERE, *CHANGES[2:6], *CHANGES[-2:]])
async def test_models_changed_with_a_key_that_may_only_ask(
    gateway: Gateway, method: str, path: str, body: object
) -> None:
    gateway.services.settings.change_values({"gateway.require_key": True})
    key = gateway.services.keys.make_key(NewKey(name="asker", scopes=[Scope.INFERENCE])).key
    assert (await ask_gateway(gateway, method, path, body, Authorization=f"Bearer {key}"))[0] == 403


DIGESTS = [
    "sha256:../../../../etc/passwd",
    "sha256:..%2f..%2f..%2fetc%2fpasswd",
    "..%2f..%2fkeys.json",
    "sha256-" + "../" * 3 + "x",
    "sha256:" + "0" * 63,
    "sha256:" + "0" * 64 + "%00",
    "sha256:" + "G" * 64,
    "md5:" + "0" * 32,
]


@pytest.mark.parametrize("digest", DIGESTS)
@pytest.mark.parametrize("method", ["HEAD", "POST"])
async def test_path_traversal_in_digests_of_blobs(gateway: Gateway, tmp_path: Path, method: str, digest: str) -> None:
    """CVE-2024-37032 wrote anywhere by a digest that was a path."""
    before = list_files(tmp_path)
    async with gateway.http.request(method, f"{gateway.url}/api/blobs/{digest}", data=b"x") as reply:
        assert reply.status in {400, 404}
    assert list_files(tmp_path) == before


async def test_a_blob_that_is_not_what_its_digest_says(gateway: Gateway, tmp_path: Path) -> None:
    before = list_files(tmp_path)
    digest = f"sha256:{hashlib.sha256(b'good').hexdigest()}"
    async with gateway.http.post(f"{gateway.url}/api/blobs/{digest}", data=b"evil") as reply:
        assert reply.status == 400
    assert list_files(tmp_path) == before


@pytest.mark.parametrize(
    "name",
    ["../evil.gguf", "/evil.gguf", "a/../../evil.gguf", "..\\evil.gguf", "C:\\evil.gguf", "evil\x00.gguf", ".."],
)
async def test_path_traversal_in_names_of_files(gateway: Gateway, tmp_path: Path, name: str) -> None:
    """CVE-2024-45436 is of this kind: members of an upload that land outside its folder."""
    data = b"GGUF" + bytes(60)
    digest = f"sha256:{hashlib.sha256(data).hexdigest()}"
    async with gateway.http.post(f"{gateway.url}/api/blobs/{digest}", data=data) as reply:
        assert reply.status == 201
    before = list_files(tmp_path)
    status, _ = await ask_gateway(gateway, "POST", "/api/create", {"model": "mine", "files": {name: digest}})
    assert status == 400
    assert list_files(tmp_path) <= before


@pytest.mark.parametrize("path", ["/etc/passwd", "/dev/random", "/proc/self/environ", "file:///etc/passwd", "../x"])
async def test_existence_of_files_told_by_create(gateway: Gateway, path: str) -> None:
    """CVE-2024-39719 told by its error whether a file is there; CVE-2024-39721 read /dev/random without end."""
    bodies = [
        {"model": "mine", "from": path},
        {"model": "mine", "modelfile": f"FROM {path}"},
        {"name": "mine", "path": path},
    ]
    for body in bodies:
        status, answer = await ask_gateway(gateway, "POST", "/api/create", body)
        assert status in {400, 404}
        there = (
            await ask_gateway(gateway, "POST", "/api/create", json.loads(json.dumps(body).replace(path, "/no/such")))
        )[1]
        assert answer.replace(path.encode(), b"?") == there.replace(b"/no/such", b"?")


@pytest.mark.parametrize(
    "path",
    [
        "/slots",
        "/slots/0?action=save",
        "/slots/0?action=restore",
        "/lora-adapters",
        "/apply-lora",
        "/cors-proxy?url=http://169.254.169.254/",
        "/v1/load_lora_adapter",
        "/v1/internal/model/load",
        "/invocations",
        "/collective_rpc",
        "/update_weights_from_disk",
    ],
)
async def test_doors_of_engines_that_are_not_ours(gateway: Gateway, path: str) -> None:
    """What an engine offers beside answering (saving slots to files, loading adapters by path) is reached by nobody."""
    for method in ("GET", "POST"):
        status, _ = await ask_gateway(gateway, method, path, {"model": "guide", "filename": "../../x"})
        assert status in {404, 405}
    assert gateway.upstream.bodies == []


async def test_websockets_of_a_foreign_page(gateway: Gateway) -> None:
    """A browser lets any page open one; only the Origin tells whose it is. There is none to open here anyway."""
    headers = {
        "Upgrade": "websocket",
        "Connection": "Upgrade",
        "Sec-WebSocket-Key": "a" * 22 + "==",
        "Sec-WebSocket-Version": "13",
    }
    for path in ("/v1/models", "/v1/chat/completions", "/roundhouse/v1/events", "/ws"):
        async with gateway.http.get(gateway.url + path, headers={**headers, **EVIL}) as reply:
            assert reply.status == 403
        async with gateway.http.get(gateway.url + path, headers=headers) as reply:
            assert reply.status != 101


async def test_event_streams_of_a_foreign_page(gateway: Gateway) -> None:
    url = f"{gateway.url}/roundhouse/v1/events"
    async with gateway.http.get(url, headers=EVIL) as reply:
        assert reply.status == 403
    cross_site = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "cors"}
    for headers in ({}, cross_site):
        async with gateway.http.get(url, headers=headers) as reply:
            assert reply.status in {401, 403}


def test_keys_guessed_by_the_time_a_refusal_takes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every key is compared whole and in constant time, whether an earlier one was right or not."""
    keys = KeyStore(tmp_path / "keys.json")
    made_keys = [keys.make_key(NewKey(name=f"key {number}")).key for number in range(5)]
    compared_pairs: list[tuple[object, object]] = []
    real = keys.find_key.__globals__["secrets"].compare_digest

    def count_comparison(digest: str, other: str) -> bool:
        compared_pairs.append((len(digest), len(other)))
        return bool(real(digest, other))

    monkeypatch.setattr("app.gateway.entry.keys.secrets.compare_digest", count_comparison)
    for secret in (*made_keys, "rh-" + "x" * 43, "", "x"):
        compared_pairs.clear()
        keys.find_key(secret)
        assert compared_pairs == [(64, 64)] * 5, secret
