"""Every listing says the same of what a model can do, whether its files lie here or an endpoint serves it."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from app.cli.library import _model_lines as listed_by_the_command_line
from app.core.capabilities import Capability
from app.core.events import ModelsChanged
from app.core.models import AttachEndpoint, ModelInfo
from app.gateway.library.attached_endpoints import attach, make_knowledge
from app.gateway.library.endpoint_cards import card_from_entry
from app.hub.library.attached import Attachment
from app.supervisor.remote import RemoteModel
from tests.gateway.far import Far
from tests.gateway.played import Gateway
from tests.gguf_files import TinyLlama, gguf_bytes, projector_for

_C = Capability
TOOLS_TEMPLATE = "{% if tools %}{{ tools }}{% endif %}<think>{% for m in messages %}{{ m.content }}{% endfor %}"
CHATS = [_C.COMPLETION, _C.CHAT]
EXPECTED = {
    "guide": CHATS,
    "bare": CHATS,
    "able": [*CHATS, _C.TOOLS, _C.INFILL, _C.THINKING],
    "seeing": [*CHATS, _C.VISION],
    "embedder": [_C.EMBEDDING],
    "encoder": [_C.EMBEDDING],
    "ranker": [_C.RERANK],
    "far/silent": [*CHATS, _C.TOOLS],
    "far/minilm": [_C.EMBEDDING],
    "far/router": [*CHATS, _C.VISION],
    "far/ranker": [_C.RERANK],
    "far/mistral": [*CHATS, _C.TOOLS],
}
LISTING = [
    {"id": "silent", "max_model_len": 4096},
    {"id": "minilm", "type": "embeddings"},
    {"id": "router", "capabilities": ["completion", "multimodal"]},
    {"id": "ranker", "type": "rerank"},
    {"id": "mistral", "capabilities": {"completion_chat": True, "completion_fim": True, "function_calling": True}},
]
OLLAMAS = {_C.INFILL: "insert"}
"""Ollama's words, where they are others; that a model chats it does not tell from its going on with a text."""


@pytest.fixture
async def models(near: Gateway, far: Far) -> dict[str, list[Capability]]:
    """Models of every kind, and what each can do."""
    folder = near.services.paths.models
    bare: dict[str, Any] = {"tokenizer.chat_template": ""}
    marks: dict[str, Any] = {f"tokenizer.ggml.fim_{part}_token_id": 1 for part in ("pre", "suf", "mid")}
    _write(folder / "bare", TinyLlama(values=bare))
    _write(folder / "able", TinyLlama(values={"tokenizer.chat_template": TOOLS_TEMPLATE, **marks}))
    _write(folder / "seeing", TinyLlama())
    projector_for(TinyLlama(), folder / "seeing" / "mmproj-seeing-f16.gguf")
    _write(folder / "embedder", TinyLlama(values={"llama.pooling_type": 3}))
    _write(folder / "ranker", TinyLlama(values={"llama.pooling_type": 4}))
    encoder = {"general.architecture": "bert"}
    (folder / "encoder").mkdir()
    (folder / "encoder" / "encoder.gguf").write_bytes(gguf_bytes(encoder, [("token_embd.weight", [32], b"\0" * 128)]))
    near.services.library.forget_model("distant")
    near.services.library.look_again()
    near.services.events.publish(ModelsChanged())
    far.listing = {"data": LISTING}
    await attach(near.services, AttachEndpoint(url=far.url, name="far", key="sk-far"))
    return EXPECTED


def _write(folder: Path, model: TinyLlama) -> None:
    folder.mkdir()
    model.write(folder / f"{folder.name}.gguf")


async def fetch(near: Gateway, path: str, **fields: object) -> Any:  # noqa: ANN401 -- JSON
    headers = {"Authorization": "Bearer token"} if path.startswith("/roundhouse") else {}
    method = "POST" if fields else "GET"
    async with near.http.request(method, near.url + path, headers=headers, json=fields or None) as reply:
        assert reply.status == 200, await reply.text()
        return await reply.json()


def in_ollamas_words(capabilities: list[Capability]) -> list[str]:
    return sorted(OLLAMAS.get(capability, capability.value) for capability in capabilities if capability is not _C.CHAT)


async def test_our_own_lists_and_openais(near: Gateway, models: dict[str, list[Capability]]) -> None:
    own = await fetch(near, "/roundhouse/v1/models")
    assert {entry["name"]: entry["capabilities"] for entry in own} == models
    assert {entry["name"]: entry["chats"] for entry in own} == {name: _C.CHAT in can for name, can in models.items()}
    cards = (await fetch(near, "/v1/models"))["data"]
    assert {entry["id"]: entry["capabilities"] for entry in cards} == models
    for name, capabilities in models.items():
        assert (await fetch(near, f"/v1/models/{name}"))["capabilities"] == capabilities


async def test_codexs_for_models_that_chat(near: Gateway, models: dict[str, list[Capability]]) -> None:
    cards = {card["slug"]: card for card in (await fetch(near, "/v1/models?client_version=0.169.0"))["models"]}
    openais = {card["id"]: card for card in (await fetch(near, "/v1/models"))["data"]}
    assert set(cards) == {name for name, can in models.items() if _C.CHAT in can}
    for name, card in cards.items():
        assert card["context_window"] == openais[name]["context_length"]
        assert card["max_context_window"] == openais[name]["max_context_length"]
        assert ("image" in card["input_modalities"]) == (_C.VISION in models[name])
        assert bool(card["supported_reasoning_levels"]) == (_C.THINKING in models[name])
        assert card["supports_parallel_tool_calls"] == (_C.TOOLS in models[name])


async def test_the_command_lines(near: Gateway, models: dict[str, list[Capability]]) -> None:
    own = msgspec.convert(await fetch(near, "/roundhouse/v1/models"), list[ModelInfo])
    lines = {line.split()[0]: line for line in listed_by_the_command_line(own)}
    assert "embedding" in lines["far/minilm"]
    assert "chat, tools, infill, thinking" in lines["able"]
    assert set(models) < set(lines)


async def test_ollamas(near: Gateway, models: dict[str, list[Capability]]) -> None:
    tags = {model["name"].removesuffix(":latest"): model for model in (await fetch(near, "/api/tags"))["models"]}
    for name, capabilities in models.items():
        words = in_ollamas_words(capabilities)
        assert sorted(tags[name]["capabilities"]) == words
        assert sorted((await fetch(near, "/api/show", model=name))["capabilities"]) == words


async def test_lm_studios(near: Gateway, models: dict[str, list[Capability]]) -> None:
    older = {entry["id"]: entry for entry in (await fetch(near, "/api/v0/models"))["data"]}
    newer = {entry["key"]: entry for entry in (await fetch(near, "/api/v1/models"))["models"]}
    for name, can in models.items():
        sees, writes = _C.VISION in can, _C.COMPLETION in can
        assert older[name]["type"] == ("vlm" if sees else "llm" if writes else "embeddings")
        assert ("tool_use" in older[name].get("capabilities", [])) == (_C.TOOLS in can)
        assert newer[name]["type"] == ("llm" if writes else "embedding")
        capabilities = newer[name].get("capabilities", {"vision": False, "trained_for_tool_use": False})
        assert (capabilities["vision"], capabilities["trained_for_tool_use"]) == (sees, _C.TOOLS in can)
        assert ("reasoning" in capabilities) == (_C.THINKING in can)


async def test_another_roundhouse_reads_them_as_they_are(near: Gateway, models: dict[str, list[Capability]]) -> None:
    """What is attached to one is known to the next without a question."""
    for card in msgspec.convert((await fetch(near, "/v1/models"))["data"], list[RemoteModel]):
        knowledge = make_knowledge(card, card_from_entry(card))
        attachment = Attachment(name=card.id, url="", served_as=card.id, known=knowledge)
        assert (card.id, attachment.capabilities) == (card.id, models[card.id])
        assert card_from_entry(card).says_kind
