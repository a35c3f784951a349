"""Downloads through the gateway: chosen, queued, paused, gone on with after anything, and found by name afterwards."""

import asyncio
import json
import threading
from collections.abc import Iterator
from typing import Any

import aiohttp
import pytest

from app.config.paths import Paths
from app.core.downloads import DownloadState
from app.core.models import ModelSampling
from app.gateway.hub.downloads import SMOOTHING_S, DownloadQueue, DownloadTarget, _TransferRate
from app.gateway.loading.model_tuning import find_recommendation
from app.hub.download.job import DownloadJob
from app.hub.library.library import Library
from app.hub.repositories.generation import NOTHING
from app.hub.repositories.repository import RepoFile, Repository
from tests.fake_hub import faults
from tests.fake_hub.faults import first
from tests.fake_hub.hub import FakeHub
from tests.fake_hub.server import serve_hub
from tests.fake_hub.uploading import keep_in_xet
from tests.gateway.played import Gateway
from tests.gguf_files import TinyLlama, gguf_bytes
from tests.patience import PATIENCE_S, until

NAME = "org/Model-GGUF"
API = "/roundhouse/v1"


@pytest.fixture(autouse=True)
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeHub]:
    with serve_hub(FakeHub()) as served_hub:
        monkeypatch.setenv("HF_ENDPOINT", served_hub.url)
        monkeypatch.delenv("HF_TOKEN", raising=False)
        served_hub.add(
            NAME,
            {
                "Model-Q4_K_M.gguf": TinyLlama(name="Four").content(),
                "Model-Q8_0.gguf": TinyLlama(name="Eight", layers=3).content(),
                "README.md": b"#",
            },
        )
        yield served_hub


async def call_admin(gateway: Gateway, method: str, path: str, body: object = None) -> tuple[int, Any]:
    headers = {"Authorization": "Bearer token"}
    async with gateway.http.request(method, f"{gateway.url}{API}{path}", json=body, headers=headers) as reply:
        return reply.status, await reply.json(content_type=None) if reply.status != 204 else None


async def over(gateway: Gateway, download_id: str) -> dict[str, Any]:
    """Return a download once nothing more happens to it."""

    async def is_over() -> bool:
        return (await find_download(gateway, download_id))["state"] in {"done", "failed", "paused"}

    await until(is_over)
    return await find_download(gateway, download_id)


async def find_download(gateway: Gateway, download_id: str) -> dict[str, Any]:
    _, there = await call_admin(gateway, "GET", "/downloads")
    entry_found: dict[str, Any] = next(entry for entry in there if entry["id"] == download_id)
    return entry_found


async def test_what_was_pulled_lies_where_every_program_looks(gateway: Gateway, paths: Paths, hub: FakeHub) -> None:
    status, download = await call_admin(gateway, "POST", "/downloads", {"model": f"{NAME}:Q4_K_M"})
    assert (status, download["title"], download["files"]) == (200, f"{NAME}:Q4_K_M", ["Model-Q4_K_M.gguf"])
    ended_download = await over(gateway, download["id"])
    assert (ended_download["state"], ended_download["present_bytes"]) == ("done", ended_download["total_bytes"])
    content = hub.repositories[NAME].branches["main"]["Model-Q4_K_M.gguf"]
    (file,) = paths.hub_cache.glob("models--org--Model-GGUF/snapshots/*/Model-Q4_K_M.gguf")
    assert file.read_bytes() == content
    library = Library(lambda: [paths.hub_cache], paths.data / "models.json", paths.data / "none.gguf")
    for name in ("Model-Q4_K_M", f"{NAME}:q4_k_m", f"hf.co/{NAME}:Q4_K_M", NAME, f"https://huggingface.co/{NAME}"):
        assert library.find_model(name).path == str(file)


async def test_asking_twice_is_one_download(gateway: Gateway) -> None:
    _, first = await call_admin(gateway, "POST", "/downloads", {"model": f"{NAME}:Q8_0"})
    _, second = await call_admin(gateway, "POST", "/downloads", {"model": f"hf.co/{NAME}", "quantization": "q8_0"})
    assert first["id"] == second["id"]
    await over(gateway, first["id"])


async def test_without_a_quantisation_one_is_chosen_and_said_why(gateway: Gateway) -> None:
    status, download = await call_admin(gateway, "POST", "/downloads", {"model": NAME})
    assert status == 200
    assert download["quantization"] in {"Q4_K_M", "Q8_0"}
    assert download["reason"]
    await over(gateway, download["id"])


REFUSED: list[tuple[dict[str, object], int, str]] = [
    ({"model": ""}, 400, "bad_model_name"),
    ({"model": "../../etc"}, 400, "bad_model_name"),
    ({"model": "https://example.org/x/y"}, 400, "bad_model_name"),
    ({"model": "nobody:8b"}, 400, "model_not_found"),
    ({"model": f"{NAME}:Q9_Z"}, 404, "variant_not_found"),
    ({"model": f"{NAME}@nowhere"}, 404, "revision_not_found"),
    ({"model": "org/nothing"}, 404, "hub_unauthorized"),
    ({"model": "org/pickles"}, 400, "pickle_only"),
    ({"model": "org/empty"}, 404, "no_model_files"),
    ({}, 400, "invalid_value"),
]


@pytest.mark.parametrize(("body", "status", "code"), REFUSED)
async def test_what_cannot_be_pulled_is_refused(
    gateway: Gateway, hub: FakeHub, body: dict[str, object], status: int, code: str
) -> None:
    hub.add("org/pickles", {"pytorch_model.bin": b"x", "config.json": b"{}"})
    hub.add("org/empty", {"README.md": b"#"})
    reply_status, refusal = await call_admin(gateway, "POST", "/downloads", body)
    assert (reply_status, refusal["code"]) == (status, code)
    assert (await call_admin(gateway, "GET", "/downloads"))[1] == []


ABSENT: list[tuple[str, bool, str]] = [
    ("org/nothing", False, "There is no repository org/nothing at 127.0.0.1, or it is private. Check the spelling."),
    ("org/nothing", True, "There is no repository org/nothing at 127.0.0.1. Check the spelling."),
    ("org/nothing@4.0bpw", True, "There is no repository org/nothing at 127.0.0.1. Check the spelling."),
    (f"{NAME}@nowhere", True, f"{NAME} has no revision 'nowhere'. Its branches are main."),
]


@pytest.mark.slow(cases=2)
@pytest.mark.parametrize(("model", "is_frank", "sentence"), ABSENT)
async def test_what_is_not_on_the_hub_is_named_in_every_dialect(
    gateway: Gateway, hub: FakeHub, model: str, *, is_frank: bool, sentence: str
) -> None:
    hub.is_frank = is_frank
    status, refusal = await call_admin(gateway, "POST", "/downloads", {"model": model})
    assert status == 404
    assert f"{refusal['sentence']} {refusal['hint']}".startswith(sentence)
    pull = f"{gateway.url}/api/pull"
    async with gateway.http.post(pull, json={"model": model, "stream": False}) as reply:
        assert reply.status == 404
        assert (await reply.json())["error"].startswith(sentence)
    async with gateway.http.post(pull, json={"model": model}) as reply:
        assert json.loads((await reply.read()).splitlines()[-1])["error"].startswith(sentence)


async def test_offline_means_offline(gateway: Gateway, hub: FakeHub) -> None:
    await call_admin(gateway, "PATCH", "/settings", {"network.offline": True})
    before = len(hub.requests)
    status, refusal = await call_admin(gateway, "POST", "/downloads", {"model": NAME})
    assert (status, refusal["code"]) == (409, "offline")
    assert len(hub.requests) == before


async def test_a_repository_is_described_before_a_byte_is_fetched(gateway: Gateway, hub: FakeHub) -> None:
    status, listing = await call_admin(gateway, "GET", f"/hub/model?name={NAME}")
    assert status == 200
    sizes = {variant["quantization"]: variant["size_bytes"] for variant in listing["variants"]}
    files = hub.repositories[NAME].branches["main"]
    assert sizes == {"Q4_K_M": len(files["Model-Q4_K_M.gguf"]), "Q8_0": len(files["Model-Q8_0.gguf"])}
    assert [variant["is_recommended"] for variant in listing["variants"]].count(True) == 1
    for variant in listing["variants"]:
        assert variant["engine"] == "llama.cpp"
        assert variant["fits"] is True
        assert variant["memory_bytes"] > variant["size_bytes"]
        assert variant["quality"]
    assert listing["note"] == ""


async def test_sizes_are_shown_even_if_a_header_cannot_be_read(gateway: Gateway, hub: FakeHub) -> None:
    hub.add("org/broken", {"x-Q4_0.gguf": b"no model at all" * 1000, "x-Q8_0.gguf": b"nor this" * 5000})
    status, listing = await call_admin(gateway, "GET", "/hub/model?name=org/broken")
    assert status == 200
    assert [variant["size_bytes"] for variant in listing["variants"]] == [40_000, 15_000]
    assert listing["note"]
    assert {variant["fits"] for variant in listing["variants"]} == {None}


async def test_going_offline_sends_what_runs_back_into_the_queue(gateway: Gateway, hub: FakeHub) -> None:
    stall_event = threading.Event()
    hub.faults["Model-Q8_0.gguf"] = first(2, faults.stalls(stall_event))
    _, download = await call_admin(gateway, "POST", "/downloads", {"model": f"{NAME}:Q8_0"})
    await call_admin(gateway, "PATCH", "/settings", {"network.offline": True})
    assert (await find_download(gateway, download["id"]))["state"] == "queued"
    stall_event.set()
    await call_admin(gateway, "PATCH", "/settings", {"network.offline": False})
    assert (await over(gateway, download["id"]))["state"] == "done"


@pytest.mark.slow
async def test_a_download_is_paused_resumed_and_taken_off_the_list(
    gateway: Gateway, hub: FakeHub, paths: Paths
) -> None:
    stall_event = threading.Event()
    hub.faults["Model-Q8_0.gguf"] = faults.stalls(stall_event)
    _, download = await call_admin(gateway, "POST", "/downloads", {"model": f"{NAME}:Q8_0"})
    address = f"/downloads/{download['id']}"

    async def moves() -> bool:
        return bool((await find_download(gateway, download["id"]))["state"] == "running")

    await until(moves)
    assert (await call_admin(gateway, "POST", f"{address}/pause"))[1]["state"] == "paused"
    hub.faults.clear()
    stall_event.set()
    assert (await call_admin(gateway, "POST", f"{address}/resume"))[1]["state"] in {"queued", "running"}
    assert (await over(gateway, download["id"]))["state"] == "done"
    assert (await call_admin(gateway, "POST", f"{address}/pause"))[0] == 409
    assert (await call_admin(gateway, "DELETE", address))[0] == 204
    assert (await call_admin(gateway, "DELETE", address))[0] == 404
    assert list(paths.hub_cache.glob("models--*/snapshots/*/*.gguf"))


@pytest.mark.slow
async def test_why_it_failed_is_kept_and_another_try_goes_on(gateway: Gateway, hub: FakeHub) -> None:
    hub.faults["Model-Q4_K_M.gguf"] = faults.status(403)
    _, download = await call_admin(gateway, "POST", "/downloads", {"model": f"{NAME}:Q4_K_M"})
    ended_download = await over(gateway, download["id"])
    assert (ended_download["state"], ended_download["error"]["code"]) == ("failed", "hub_forbidden")
    hub.faults.clear()
    _, again = await call_admin(gateway, "POST", "/downloads", {"model": f"{NAME}:Q4_K_M"})
    assert again["id"] == download["id"]
    assert (await over(gateway, download["id"]))["state"] == "done"


FROM_XET: dict[str, tuple[dict[str, object], bool]] = {
    "as it is": ({}, True),
    "off": ({"downloads.xet": "off"}, False),
    "several at once": ({"downloads.at_once": 2}, False),
    "limited": ({"downloads.limit_mb_s": 1000}, False),
}


@pytest.mark.slow(cases=1)
@pytest.mark.parametrize(("settings", "is_from_there"), FROM_XET.values(), ids=FROM_XET)
async def test_what_the_hub_keeps_in_xet_comes_from_there(
    gateway: Gateway,
    hub: FakeHub,
    monkeypatch: pytest.MonkeyPatch,
    settings: dict[str, object],
    is_from_there: bool,  # noqa: FBT001
) -> None:
    monkeypatch.delenv("HF_HUB_DISABLE_XET", raising=False)
    keep_in_xet(hub, hub.repositories[NAME].branches["main"]["Model-Q8_0.gguf"])
    await call_admin(gateway, "PATCH", "/settings", settings)
    _, download = await call_admin(gateway, "POST", "/downloads", {"model": f"{NAME}:Q8_0"})
    ended_download = await over(gateway, download["id"])
    assert (ended_download["state"], ended_download["note"]) == ("done", "")
    assert bool(hub.cas.asked_for("xorb")) is is_from_there


@pytest.mark.slow
async def test_that_xet_was_no_use_is_said_in_a_line(
    gateway: Gateway, hub: FakeHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HF_HUB_DISABLE_XET", raising=False)
    keep_in_xet(hub, hub.repositories[NAME].branches["main"]["Model-Q8_0.gguf"])
    hub.cas.faults["grant"] = faults.status(403)
    _, download = await call_admin(gateway, "POST", "/downloads", {"model": f"{NAME}:Q8_0"})
    ended_download = await over(gateway, download["id"])
    assert ended_download["state"] == "done"
    assert ended_download["note"].startswith("Model-Q8_0.gguf is downloaded over plain HTTP: ")


async def test_ollamas_clients_see_it_come(gateway: Gateway) -> None:
    async with gateway.http.post(f"{gateway.url}/api/pull", json={"model": f"hf.co/{NAME}:Q8_0"}) as reply:
        lines = [json.loads(line) async for line in reply.content]
    assert lines[0] == {"status": "pulling manifest"}
    assert [line["status"] for line in lines[-3:]] == ["verifying sha256 digest", "writing manifest", "success"]
    last = lines[-4]
    assert last["completed"] == last["total"] > 0
    assert last["digest"].startswith("sha256:")


@pytest.mark.slow
async def test_ollamas_clients_are_told_what_went_wrong(gateway: Gateway, hub: FakeHub) -> None:
    hub.faults["Model-Q8_0.gguf"] = faults.status(403)
    async with gateway.http.post(f"{gateway.url}/api/pull", json={"model": f"{NAME}:Q8_0"}) as reply:
        lines = [json.loads(line) async for line in reply.content]
    assert "licence" in lines[-1]["error"]
    async with gateway.http.post(f"{gateway.url}/api/pull", json={"model": f"{NAME}:Q8_0", "stream": False}) as reply:
        assert reply.status == 503
        assert "error" in await reply.json()


async def test_lm_studios_clients_ask_after_a_job(gateway: Gateway) -> None:
    url = f"{gateway.url}/api/v1/models/download"
    async with gateway.http.post(url, json={"model": NAME, "quantization": "Q4_K_M"}) as reply:
        download = await reply.json()
    assert (reply.status, download["status"]) == (200, "downloading")
    assert download["total_size_bytes"] > 0
    assert download["started_at"].endswith("Z")
    ended_download = await over(gateway, download["job_id"])
    async with gateway.http.get(f"{url}/status/{download['job_id']}") as reply:
        body = await reply.json()
    assert (body["status"], body["downloaded_bytes"]) == ("completed", ended_download["total_bytes"])
    assert body["completed_at"] >= body["started_at"]


async def test_an_ollama_client_that_leaves_pauses_what_it_began(gateway: Gateway, hub: FakeHub) -> None:
    stall_event = threading.Event()
    hub.faults["Model-Q8_0.gguf"] = faults.stalls(stall_event)
    async with aiohttp.ClientSession() as leaving_client:
        reply = await leaving_client.post(f"{gateway.url}/api/pull", json={"model": f"{NAME}:Q8_0"})
        await reply.content.readline()
        await reply.content.readline()
        reply.close()

    async def is_paused() -> bool:
        _, there = await call_admin(gateway, "GET", "/downloads")
        return [entry["state"] for entry in there] == ["paused"]

    await until(is_paused)
    stall_event.set()


def test_speed_is_known_on_a_line_where_news_is_rare() -> None:
    pace = _TransferRate()
    assert pace.note_reading(0, 0.0) is None
    assert pace.note_reading(8_000_000, 3 * SMOOTHING_S) == pytest.approx(8_000_000 / (3 * SMOOTHING_S))


def make_repository(number: int) -> tuple[Repository, list[RepoFile]]:
    files = [RepoFile(path="m.gguf", size=10, oid=f"{number:040x}")]
    return Repository(name=f"org/m{number}", revision="main", commit=f"{number:040x}", files=files), files


async def test_the_queue_has_an_order_and_outlives_the_gateway(paths: Paths) -> None:
    nowhere = DownloadTarget("http://127.0.0.1:1", paths.hub_cache, "", 0.0, 0)  # nothing runs
    queue = DownloadQueue(paths.downloads_file, lambda: nowhere, lambda _event: None)
    ids = [queue.add(*make_repository(number), title=f"m{number}").id for number in range(3)]
    assert [entry.id for entry in queue.move(ids[2], 0)] == [ids[2], ids[0], ids[1]]
    await queue.close()
    again = DownloadQueue(paths.downloads_file, lambda: nowhere, lambda _event: None)
    await again.start()
    assert [entry.id for entry in again.all()] == [ids[2], ids[0], ids[1]]
    assert {entry.state for entry in again.all()} == {DownloadState.QUEUED}
    await again.remove(ids[0])
    await again.close()


async def test_what_began_before_has_its_room(paths: Paths, monkeypatch: pytest.MonkeyPatch) -> None:
    jobs: list[DownloadJob] = []

    class Waiting:
        def __init__(self, job: DownloadJob, _report: object) -> None:
            jobs.append(job)

        async def run(self) -> None:
            await asyncio.Event().wait()

    async def have_begun() -> bool:
        return len(jobs) == 2

    monkeypatch.setattr("app.gateway.hub.downloads.DownloadChild", Waiting)
    both = DownloadTarget("http://127.0.0.1:1", paths.hub_cache, "", 0.0, 2)
    queue = DownloadQueue(paths.downloads_file, lambda: both, lambda _event: None)
    for number in range(3):
        queue.add(*make_repository(number), title=f"m{number}")
    await until(have_begun)
    assert [job.reserved_bytes for job in jobs] == [0, 10]
    await queue.close()


async def test_following_ends_when_a_download_is_taken_off_the_list(paths: Paths) -> None:
    nowhere = DownloadTarget("http://127.0.0.1:1", paths.hub_cache, "", 0.0, 0)
    queue = DownloadQueue(paths.downloads_file, lambda: nowhere, lambda _event: None)
    added_download = queue.add(*make_repository(1), title="m")
    states = queue.follow(added_download.id)
    assert (await anext(states)).state is DownloadState.QUEUED
    next_state = asyncio.create_task(anext(states, None))
    await queue.remove(added_download.id)
    assert await asyncio.wait_for(next_state, PATIENCE_S) is None
    await queue.close()


SEEING = "org/Seeing-GGUF"


@pytest.fixture
def vision_hub(hub: FakeHub) -> FakeHub:
    model = TinyLlama(name="Seeing")
    hub.add(
        SEEING,
        {
            "Seeing-Q4_K_M.gguf": model.content(),
            "mmproj-Seeing-F16.gguf": gguf_bytes({"general.architecture": "clip", "general.type": "mmproj"}),
            "Seeing-draft-Q8_0.gguf": TinyLlama(layers=1).content(),
            "style-lora-f16.gguf": gguf_bytes({"general.type": "adapter", "general.architecture": "llama"}),
        },
        about={"cardData": {"base_model": "org/Seeing"}},
    )
    return hub


@pytest.mark.slow
async def test_a_projector_comes_along_and_the_rest_is_offered(gateway: Gateway, vision_hub: FakeHub) -> None:
    _, download = await call_admin(gateway, "POST", "/downloads", {"model": SEEING})
    assert download["files"] == ["Seeing-Q4_K_M.gguf", "mmproj-Seeing-F16.gguf"]
    assert "which lets it see" in download["reason"]
    assert download["could_have"] == ["Seeing-draft-Q8_0.gguf", "style-lora-f16.gguf"]
    await over(gateway, download["id"])
    document = {"model": SEEING, "projector": False, "companions": ["style-lora-f16.gguf"]}
    _, download = await call_admin(gateway, "POST", "/downloads", document)
    assert download["files"] == ["Seeing-Q4_K_M.gguf", "style-lora-f16.gguf"]
    assert (await over(gateway, download["id"]))["state"] == "done"
    _, download = await call_admin(gateway, "POST", "/downloads", {"model": f"{SEEING}/Seeing-draft-Q8_0.gguf"})
    assert (download["title"], download["files"]) == (f"{SEEING}/Seeing-draft-Q8_0.gguf", ["Seeing-draft-Q8_0.gguf"])
    await over(gateway, download["id"])
    refused_pull = {"model": SEEING, "companions": ["nothing.gguf"]}
    status, body = await call_admin(gateway, "POST", "/downloads", refused_pull)
    assert (status, body["code"]) == (404, "companion_not_found")
    assert "style-lora-f16.gguf" in body["hint"]


async def test_what_could_go_with_a_model_is_shown_before(gateway: Gateway, vision_hub: FakeHub) -> None:
    _, listing = await call_admin(gateway, "GET", f"/hub/model?name={SEEING}")
    assert [entry["path"] for entry in listing["companions"]] == ["Seeing-draft-Q8_0.gguf", "style-lora-f16.gguf"]
    assert [entry["projector"] for entry in listing["variants"]] == ["mmproj-Seeing-F16.gguf"]


async def test_the_sampling_of_the_model_it_was_made_of_is_asked_for(
    gateway: Gateway, vision_hub: FakeHub, paths: Paths
) -> None:
    vision_hub.add("org/Seeing", {"generation_config.json": b'{"temperature": 0.6, "top_k": 20}'})
    _, download = await call_admin(gateway, "POST", "/downloads", {"model": SEEING})
    await over(gateway, download["id"])
    library = Library(lambda: [paths.hub_cache], paths.data / "models.json", paths.data / "none.gguf")
    recommendation = find_recommendation(gateway.services.hub, library.find_model(SEEING))
    assert (recommendation.sampling, recommendation.source) == (ModelSampling(temperature=0.6, top_k=20), "org/Seeing")


async def test_a_model_comes_without_the_sampling_nobody_tells(
    gateway: Gateway, vision_hub: FakeHub, paths: Paths
) -> None:
    _, download = await call_admin(gateway, "POST", "/downloads", {"model": SEEING})
    assert (await over(gateway, download["id"]))["state"] == "done"
    library = Library(lambda: [paths.hub_cache], paths.data / "models.json", paths.data / "none.gguf")
    assert find_recommendation(gateway.services.hub, library.find_model(SEEING)) == NOTHING
