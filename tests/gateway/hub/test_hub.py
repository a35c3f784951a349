"""Finding models through the gateway: cards with what they take here, the catalogue, and what is left offline."""

import base64
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import keyring
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from keyring.backends import fail

from app.hub.repositories import answers
from app.hub.repositories.catalogue import ModelCatalogue
from tests.fake_hub.hub import FakeHub
from tests.fake_hub.server import serve_hub
from tests.gateway.hub.test_downloads import call_admin
from tests.gateway.played import Gateway
from tests.gguf_files import TinyLlama

GGUF = {"model-Q4_K_M.gguf": b"g", "model-Q8_0.gguf": b"g"}
PLAIN = {"model.safetensors": b"s", "config.json": b"{}"}


@pytest.fixture(autouse=True)
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[FakeHub]:
    with serve_hub(FakeHub()) as served_hub:
        monkeypatch.setenv("HF_ENDPOINT", served_hub.url)
        monkeypatch.setenv("HF_TOKEN_PATH", str(tmp_path / "no-token"))
        monkeypatch.delenv("HF_TOKEN", raising=False)
        yield served_hub


def add(hub: FakeHub, name: str, files: dict[str, bytes], **about: Any) -> None:  # noqa: ANN401 -- JSON
    hub.add(name, files, about=about)


async def cards(gateway: Gateway, query: str = "") -> list[dict[str, Any]]:
    status, listing = await call_admin(gateway, "GET", f"/hub/search?{query}")
    assert status == 200, listing
    result: list[dict[str, Any]] = listing["cards"]
    return result


async def test_a_card_is_one_model_with_what_it_takes_here(gateway: Gateway, hub: FakeHub) -> None:
    quantised_tags = ["base_model:quantized:Qwen/Qwen3-0.6B"]
    add(hub, "unsloth/Qwen3-0.6B-GGUF", GGUF, tags=quantised_tags, downloads=9)
    add(hub, "mlx-community/Qwen3-0.6B-4bit", PLAIN, tags=quantised_tags, library_name="mlx", downloads=5)
    add(hub, "Qwen/Qwen3-0.6B", PLAIN, downloads=3)
    (card,) = await cards(gateway, "text=qwen3")
    assert (card["base"], card["title"], len(card["repositories"])) == ("Qwen/Qwen3-0.6B", "Qwen3-0.6B", 3)
    assert (card["format"], card["quantization"], card["engine_name"]) == ("gguf", "Q4_K_M", "llama.cpp")
    assert card["fits"] is True
    assert 300e6 < card["memory_bytes"] < 4e9
    assert "published shape" in card["basis"]


async def test_what_is_published_in_one_quantisation_is_judged_in_that(gateway: Gateway, hub: FakeHub) -> None:
    add(hub, "ggml-org/gpt-oss-20b-GGUF", {"gpt-oss-20b-mxfp4.gguf": b"g"})
    add(hub, "unsloth/Qwen3-4B-GGUF", {"q-Q8_0.gguf": b"g", "q-Q2_K.gguf": b"g"})
    quantizations = {card["title"]: card["quantization"] for card in await cards(gateway)}
    assert quantizations == {"gpt-oss-20b": "MXFP4", "Qwen3-4B": "Q8_0"}


async def test_a_model_nobody_knows_is_estimated_from_its_parameters(gateway: Gateway, hub: FakeHub) -> None:
    for name in ("Zebra-1b", "Zebra-2b", "Zebra-9000b", "Nameless"):
        add(hub, f"org/{name}-GGUF", GGUF)
    cards_by_title = {card["title"]: card for card in await cards(gateway)}
    small, large, vast = (cards_by_title[f"Zebra-{size}"] for size in ("1b", "2b", "9000b"))
    assert "parameters alone" in small["basis"]
    assert 1.5 < large["memory_bytes"] / small["memory_bytes"] < 3.5
    assert vast["fits"] is False
    assert vast["memory_bytes"] > 3e12
    assert (cards_by_title["Nameless"]["fits"], cards_by_title["Nameless"]["basis"]) == (None, "")


async def test_what_was_found_stands_for_a_while_and_is_all_there_is_offline(
    gateway: Gateway, hub: FakeHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    add(hub, "org/One-1b-GGUF", GGUF)
    await cards(gateway, "text=one")
    count = len(hub.requests)
    await cards(gateway, "text=one")
    assert len(hub.requests) == count
    then = time.time() + answers.FRESH_S + 60
    monkeypatch.setattr(time, "time", lambda: then)
    await call_admin(gateway, "PATCH", "/settings", {"network.offline": True})
    _, kept_results = await call_admin(gateway, "GET", "/hub/search?text=one")
    assert [card["title"] for card in kept_results["cards"]] == ["One-1b"]
    assert "11 min" in kept_results["note"]
    status, refusal = await call_admin(gateway, "GET", "/hub/search?text=other")
    assert (status, refusal["code"]) == (409, "offline")
    assert len(hub.requests) == count


async def test_a_hub_that_cannot_be_reached_leaves_what_it_said_before(
    gateway: Gateway, hub: FakeHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    add(hub, "org/One-1b-GGUF", GGUF, tags=[])
    await cards(gateway)
    then = time.time() + answers.FRESH_S + 60
    monkeypatch.setattr(time, "time", lambda: then)
    hub.repositories["org/One-1b-GGUF"].about["tags"] = "nonsense"
    _, kept_results = await call_admin(gateway, "GET", "/hub/search?")
    assert [card["title"] for card in kept_results["cards"]] == ["One-1b"]
    assert kept_results["note"].startswith("The hub's answer could not be understood.")


@pytest.mark.parametrize("query", ["sort=best", "days=0", "task=x", "min_parameters=-1", f"text={'x' * 300}"])
async def test_a_query_that_makes_no_sense_is_refused(gateway: Gateway, query: str) -> None:
    status, refusal = await call_admin(gateway, "GET", f"/hub/search?{query}")
    assert (status, refusal["code"]) == (400, "invalid_value")


async def test_a_description_is_kept_for_offline(gateway: Gateway, hub: FakeHub) -> None:
    hub.add("org/small", {"small-Q4_K_M.gguf": TinyLlama().content(), "small-Q8_0.gguf": TinyLlama(layers=3).content()})
    _, first = await call_admin(gateway, "GET", "/hub/model?name=org/small")
    count = len(hub.requests)
    await call_admin(gateway, "PATCH", "/settings", {"network.offline": True})
    status, again = await call_admin(gateway, "GET", "/hub/model?name=org/small")
    assert status == 200
    assert len(hub.requests) == count
    assert [variant["memory_bytes"] for variant in again["variants"]] == [
        variant["memory_bytes"] for variant in first["variants"]
    ]
    assert again["as_of"] == first["as_of"] > 0


async def test_bit_rates_on_branches_are_variants_and_can_be_pulled(gateway: Gateway, hub: FakeHub) -> None:
    config = json.dumps({"architectures": ["LlamaForCausalLM"], "quantization_config": {"quant_method": "exl3"}})
    stored_repository = hub.add("org/Model-exl3", {"README.md": b"#"}, about={"tags": ["exl3"]})
    for rate, size in (("3.0bpw", 3000), ("4.0bpw_H6", 4000)):
        stored_repository.branches[rate] = {"model.safetensors": b"w" * size, "config.json": config.encode()}
    stored_repository.branches["notes"] = {"README.md": b"#"}
    status, listing = await call_admin(gateway, "GET", "/hub/model?name=org/Model-exl3")
    assert status == 200
    branches = {variant["quantization"]: (variant["revision"], variant["format"]) for variant in listing["variants"]}
    assert branches == {"3.0bpw": ("3.0bpw", "exl3"), "4.0bpw": ("4.0bpw_H6", "exl3")}
    status, download = await call_admin(gateway, "POST", "/downloads", {"model": "org/Model-exl3:4.0bpw"})
    assert (status, download["revision"], download["quantization"]) == (200, "4.0bpw_H6", "4.0bpw")
    await call_admin(gateway, "DELETE", f"/downloads/{download['id']}")


async def test_a_gated_repository_says_what_to_accept_and_where(gateway: Gateway, hub: FakeHub) -> None:
    hub.add("org/gated", {"x-Q4_0.gguf": TinyLlama().content()}, gated="manual")
    _, listing = await call_admin(gateway, "GET", "/hub/model?name=org/gated")
    assert f"{hub.url}/org/gated" in listing["gate"]
    assert "roundhouse token set" in listing["gate"]
    status, refusal = await call_admin(gateway, "POST", "/downloads", {"model": "org/gated"})
    assert (status, refusal["code"]) == (403, "hub_gated")
    assert f"{hub.url}/org/gated" in refusal["hint"]
    assert (await call_admin(gateway, "GET", "/downloads"))[1] == []


async def test_who_was_let_in_may_pull(gateway: Gateway, hub: FakeHub, monkeypatch: pytest.MonkeyPatch) -> None:
    hub.add("org/gated", {"x-Q4_0.gguf": TinyLlama().content()}, gated="manual", readers={"hf_good"})
    monkeypatch.setenv("HF_TOKEN", "hf_bad")
    assert (await call_admin(gateway, "POST", "/downloads", {"model": "org/gated"}))[0] == 403
    monkeypatch.setenv("HF_TOKEN", "hf_good")
    status, download = await call_admin(gateway, "POST", "/downloads", {"model": "org/gated"})
    assert status == 200
    await call_admin(gateway, "DELETE", f"/downloads/{download['id']}")


async def test_a_short_name_is_what_the_catalogue_says(gateway: Gateway, hub: FakeHub) -> None:
    hub.add(
        "Qwen/Qwen3-8B-GGUF", {"a-Q4_K_M.gguf": TinyLlama().content(), "a-Q8_0.gguf": TinyLlama(layers=3).content()}
    )
    for name, quantization in (("qwen3:8b-q8_0", "Q8_0"), ("qwen3", None)):
        status, download = await call_admin(gateway, "POST", "/downloads", {"model": name})
        assert (status, download["repository"]) == (200, "Qwen/Qwen3-8B-GGUF")
        assert quantization in {None, download["quantization"]}
        await call_admin(gateway, "DELETE", f"/downloads/{download['id']}")


async def test_of_several_publishers_the_first_that_the_hub_has_is_taken(gateway: Gateway, hub: FakeHub) -> None:
    content = TinyLlama().content()
    hub.add("mradermacher/Qwen2.5-7B-Instruct-GGUF", {"a-Q4_K_M.gguf": content})
    hub.add("bartowski/Qwen2.5-7B-Instruct-GGUF", {"a-Q4_K_M.gguf": content})
    status, download = await call_admin(gateway, "POST", "/downloads", {"model": "qwen2.5:7b-instruct"})
    assert (status, download["repository"]) == (200, "bartowski/Qwen2.5-7B-Instruct-GGUF")
    assert download["reason"].startswith("gguf for llama.cpp, as planned for this computer; also in mlx, awq")
    await call_admin(gateway, "DELETE", f"/downloads/{download['id']}")
    _, listing = await call_admin(gateway, "GET", "/hub/model?name=qwen2.5:7b")
    assert listing["repository"] == "bartowski/Qwen2.5-7B-Instruct-GGUF"


async def test_a_name_that_is_not_known_is_answered_with_the_nearest_three(gateway: Gateway) -> None:
    status, refusal = await call_admin(gateway, "POST", "/downloads", {"model": "qwen3:7b"})
    assert (status, refusal["code"]) == (400, "model_not_found")
    assert "nearest names there are qwen3:1.7b, qwen3:4b, qwen3:8b." in refusal["hint"]


async def test_another_format_is_taken_where_it_is_asked_for(gateway: Gateway, hub: FakeHub) -> None:
    config = {"architectures": ["Qwen3ForCausalLM"], "quantization": {"bits": 4, "group_size": 64}}
    files = {"model.safetensors": b"w" * 400, "config.json": json.dumps(config).encode()}
    hub.add("lmstudio-community/Qwen3-8B-MLX-4bit", files)
    for body in ({"model": "qwen3:8b", "format": "MLX"}, {"model": "qwen3-8b-4bit"}):
        status, download = await call_admin(gateway, "POST", "/downloads", body)
        assert (status, download["repository"]) == (200, "lmstudio-community/Qwen3-8B-MLX-4bit"), download
        await call_admin(gateway, "DELETE", f"/downloads/{download['id']}")


async def test_a_format_that_there_is_not_is_refused_with_those_there_are(gateway: Gateway, hub: FakeHub) -> None:
    hub.add("org/small", {"small-Q4_K_M.gguf": TinyLlama().content()})
    for body, expected_status, code, hint in (
        ({"model": "qwen3:8b", "format": "zip"}, 400, "invalid_value", "gguf"),
        ({"model": "mistral-small-4:119b", "format": "openvino"}, 404, "format_not_found", "gguf"),
        ({"model": "org/small", "format": "mlx"}, 404, "format_not_found", ""),
    ):
        status, refusal = await call_admin(gateway, "POST", "/downloads", body)
        assert (status, refusal["code"]) == (expected_status, code)
        assert hint in refusal["hint"]
    status, download = await call_admin(gateway, "POST", "/downloads", {"model": "org/small", "format": "gguf"})
    assert status == 200
    await call_admin(gateway, "DELETE", f"/downloads/{download['id']}")


@pytest.mark.slow
@pytest.mark.parametrize("use", ["chat", "coding", "vision", "embedding", "rerank"])
async def test_the_best_is_advised_without_a_network(gateway: Gateway, hub: FakeHub, use: str) -> None:
    await call_admin(gateway, "PATCH", "/settings", {"network.offline": True})
    status, picks = await call_admin(gateway, "GET", f"/hub/best?use={use}")
    assert status == 200
    assert picks[0]["card"]["basis"]
    assert [pick["is_best"] for pick in picks[1:]] == [False] * (len(picks) - 1)
    if picks[0]["is_best"]:
        assert picks[0]["card"]["fits"]
        assert use in picks[0]["reason"]
    assert hub.requests == []


@pytest.mark.slow
async def test_all_of_the_catalogue_is_listed_without_a_network(gateway: Gateway, hub: FakeHub) -> None:
    await call_admin(gateway, "PATCH", "/settings", {"network.offline": True})
    _, best = await call_admin(gateway, "GET", "/hub/best?use=vision")
    status, picks = await call_admin(gateway, "GET", "/hub/catalogue?use=vision")
    assert status == 200
    known_pulls = {pick["pull"] for pick in best}  # their order may change with the memory that is free
    assert {pick["pull"] for pick in picks[: len(best)]} == known_pulls, "those whose quality is known come first"
    assert len(picks) > len(best)
    assert all("vision" in pick["good_for"] and pick["family"] for pick in picks)
    assert {pick["commercial"] for pick in picks} == {"yes", "no", "ask"}
    assert all(pick["card"]["download_bytes"] for pick in best)
    assert hub.requests == []


async def test_the_catalogue_is_searched_by_words_of_its_names(gateway: Gateway) -> None:
    for text, name in (
        ("whisper turbo", "whisper-large-v3-turbo"),
        ("QWEN3 8b", "qwen3:8b"),
        ("Qwen/Qwen3-8B", "qwen3:8b"),
    ):
        status, picks = await call_admin(gateway, "GET", "/hub/catalogue?" + urlencode({"text": text}))
        assert status == 200
        assert name in [pick["pull"] for pick in picks], text
    assert (await call_admin(gateway, "GET", "/hub/catalogue?text=no-such-model"))[1] == []
    assert (await call_admin(gateway, "GET", "/hub/catalogue?use=cooking"))[0] == 400
    assert (await call_admin(gateway, "GET", f"/hub/catalogue?text={'x' * 201}"))[0] == 400


async def test_what_came_since_the_last_look_is_new(gateway: Gateway, hub: FakeHub) -> None:
    async def list_new() -> list[str]:
        _, picks = await call_admin(gateway, "GET", "/hub/catalogue?text=1b")
        return [pick["pull"] for pick in picks if pick["is_new"]]

    assert await list_new() == [], "nothing is new to somebody who never looked"
    assert (await call_admin(gateway, "POST", "/hub/catalogue/look"))[0] == 204
    assert await list_new() == []
    signer = Signer()
    content = catalogue("2099-01-01")
    await publish(gateway, hub, content, signer.sign_content(content), signer.key)
    assert await list_new() == ["newest:1b"]
    await call_admin(gateway, "POST", "/hub/catalogue/look")
    assert await list_new() == []


class Signer:
    """Somebody with a key."""

    def __init__(self) -> None:
        self._private = Ed25519PrivateKey.generate()
        self.key = base64.b64encode(self._private.public_key().public_bytes_raw()).decode()

    def sign_content(self, content: bytes) -> bytes:
        return base64.b64encode(self._private.sign(content))


def catalogue(date: str) -> bytes:
    entry = {
        "title": "Newest 1B",
        "family": "Newest",
        "names": ["newest:1b", "newest"],
        "base": "org/Newest-1B",
        "repositories": {"gguf": ["org/Newest-1B-GGUF"]},
    }
    return json.dumps({"version": 2, "issued": date, "models": [entry]}).encode()


async def publish(gateway: Gateway, hub: FakeHub, content: bytes, signature: bytes, key: str) -> tuple[int, Any]:
    """Put a catalogue on the hub's server and have it fetched."""
    hub.add("org/lists", {"catalogue.json": content, "catalogue.json.sig": signature})
    url = f"{hub.url}/org/lists/resolve/main/catalogue.json"
    await call_admin(gateway, "PATCH", "/settings", {"catalogue.url": url, "catalogue.key": key})
    return await call_admin(gateway, "POST", "/hub/catalogue")


async def test_a_newer_catalogue_counts_when_its_owner_signed_it(gateway: Gateway, hub: FakeHub) -> None:
    signer, content = Signer(), catalogue("2030-01-01")
    status, answer = await publish(gateway, hub, content, signer.sign_content(content), signer.key)
    assert (status, answer) == (200, {"issued": "2030-01-01", "models": 1})
    hub.add("org/Newest-1B-GGUF", {"a-Q4_0.gguf": TinyLlama().content()})
    status, download = await call_admin(gateway, "POST", "/downloads", {"model": "newest"})
    assert (status, download["repository"]) == (200, "org/Newest-1B-GGUF")
    await call_admin(gateway, "DELETE", f"/downloads/{download['id']}")
    file = gateway.services.paths.hub_answers / "catalogue.json"
    assert ModelCatalogue(file).read_content(signer.key).issued == "2030-01-01"
    assert ModelCatalogue(file).read_content(Signer().key).issued != "2030-01-01"


async def test_a_tampered_unsigned_or_older_catalogue_is_refused(gateway: Gateway, hub: FakeHub) -> None:
    signer, content = Signer(), catalogue("2030-01-01")
    signature = signer.sign_content(content)
    old, odd, first = (
        catalogue("2001-01-01"),
        b'{"version": 2}',
        b'{"version": 1, "issued": "2031-01-01", "models": []}',
    )
    for changed_content, published_signature in (
        (content.replace(b"Newest-1B", b"Hostile-1B"), signature),
        (content, b""),
        (content, Signer().sign_content(content)),
        (old, signer.sign_content(old)),
        (odd, signer.sign_content(odd)),
        (first, signer.sign_content(first)),
    ):
        status, refusal = await publish(gateway, hub, changed_content, published_signature, signer.key)
        assert (status, refusal["code"]) == (409, "catalogue_refused")
    assert (await call_admin(gateway, "POST", "/downloads", {"model": "newest"}))[1]["code"] == "model_not_found"


async def test_without_an_address_there_is_nothing_to_refresh(gateway: Gateway) -> None:
    status, refusal = await call_admin(gateway, "POST", "/hub/catalogue")
    assert (status, refusal["code"]) == (400, "no_catalogue")


async def test_a_token_is_kept_and_used_and_never_told(
    gateway: Gateway, hub: FakeHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = keyring.get_keyring()
    keyring.set_keyring(fail.Keyring())  # type: ignore[no-untyped-call] # keyring has no types there
    monkeypatch.delenv("HUGGING_FACE_HUB_TOKEN", raising=False)
    hub.add("org/gated", {"x-Q4_0.gguf": TinyLlama().content()}, gated="manual", readers={"hf_goodgood"})
    try:
        assert (await call_admin(gateway, "GET", "/hub/token"))[1]["place"] is None
        status, token_state = await call_admin(gateway, "POST", "/hub/token", {"token": "hf_goodgood"})
        assert (status, token_state["place"]) == (200, "file")
        status, download = await call_admin(gateway, "POST", "/downloads", {"model": "org/gated"})
        assert status == 200
        assert "hf_goodgood" not in json.dumps(
            [token_state, download, (await call_admin(gateway, "GET", "/hub/token"))[1]]
        )
        await call_admin(gateway, "DELETE", f"/downloads/{download['id']}")
        await call_admin(gateway, "DELETE", "/hub/token")
        assert (await call_admin(gateway, "POST", "/downloads", {"model": "org/gated"}))[1]["code"] == "hub_gated"
        assert (await call_admin(gateway, "POST", "/hub/token", {"token": "no"}))[0] == 400
    finally:
        keyring.set_keyring(before)


@pytest.mark.slow
async def test_a_plan_without_a_model_is_for_the_best_of_the_catalogue(gateway: Gateway) -> None:
    machine = {"os": "linux", "cpu": "AMD Ryzen 9 7950X", "ram_gb": 64, "gpus": ["RTX 3090"]}
    status, advice = await call_admin(gateway, "POST", "/plan", {"machine": machine})
    assert status == 200
    first = advice["recommended"][0]
    assert (first["name"], first["pull"], first["use"]) == ("Qwen3.8 27B", "qwen3.8:27b", "chat")
    assert advice["model"] == first["name"]
    plan = advice["plans"][0]
    assert (plan["format"], plan["quantization"]) == (first["card"]["format"], first["card"]["quantization"])
    assert plan["estimate"]["decode"] == first["card"]["decode"]
    qualities = [
        pick["quality"] for pick in advice["recommended"][1:] if not pick["is_fast"] and not pick["is_quality_derived"]
    ]
    assert qualities == sorted(qualities, reverse=True)


async def test_a_plan_for_a_model_recommends_no_other(gateway: Gateway) -> None:
    status, advice = await call_admin(gateway, "POST", "/plan", {"model": "Qwen3 8B"})
    assert status == 200
    assert advice["recommended"] == []
    assert "8B" in advice["model"]


@pytest.mark.slow
async def test_where_the_memory_s_speed_is_unknown_the_answer_asks_for_it(gateway: Gateway) -> None:
    graphics = {"name": "Intel Arc Graphics", "integrated": True}
    machine = {"os": "windows", "cpu": "Intel Core Ultra 7 155H", "ram_gb": 32, "gpus": [graphics]}
    status, advice = await call_admin(gateway, "POST", "/plan", {"machine": machine})
    assert status == 200
    assert advice["recommended"] == []
    assert "ram_bandwidth_gb_s" in advice["note"]
    assert advice["plans"]
