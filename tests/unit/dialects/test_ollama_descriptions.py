"""How models are described, from what is known of them."""

import json
import re
from datetime import datetime
from typing import Any

import msgspec
import pytest

from app.core.capabilities import Capability
from app.core.engines import EngineState, EngineStatus
from app.core.errors import BadRequest, EngineFailed
from app.core.model_facts import Layer, ModelFacts
from app.core.models import ModelInfo
from app.core.thinking import ThinkingLevel
from app.gateway.canonical.request import (
    CompletionRequest,
    ConversationMessage,
    ConversationRequest,
    Image,
    MessageRole,
    Request,
    Text,
    ToolDefinition,
)
from app.gateway.dialects.ollama import requests
from app.gateway.dialects.ollama.descriptions import (
    capability_words,
    details_of,
    digest_of,
    format_time,
    longest_first,
    parameter_size,
    ps_entry,
    show_reply,
    tag_entry,
    with_tag,
)
from app.gateway.dialects.ollama.embeddings import read_input
from app.gateway.exchange.engine.vectors import encode_embeddings_request, normalise_vector, read_vectors

MODEL = ModelInfo(
    name="qwen",
    title="Qwen",
    path="/models/qwen.gguf",
    format="gguf",
    size_bytes=5_000,
    architecture="qwen3",
    quantization="Q4_K_M",
    parameters=8_030_000_000,
    trained_context=40_960,
    modified_at=1.7e9,
)
FACTS = ModelFacts(
    name="qwen",
    format="gguf",
    architecture="qwen3",
    quantization="Q4_K_M",
    layers=[Layer(heads=32, kv_heads=8, key_dim=128, value_dim=128, feed_forward=12_288), Layer(is_draft=True)],
    weights=[],
    hidden=4096,
    vocabulary=151_936,
    file_bytes=5_000,
    parameters=8_030_000_000,
    active_parameters=8_030_000_000,
    trained_context=40_960,
    chat_template="{{ messages }}",
    capabilities=["chat", "tools", "thinking", "vision", "infill", "rerank"],
)
STATUS = EngineStatus(model="qwen", engine="llama.cpp", state=EngineState.READY, context=8192, backend="cuda")


@pytest.mark.parametrize(
    ("name", "listed_as"),
    [("guide", "guide:latest"), ("qwen3:8b", "qwen3:8b"), ("host:80/a/b", "host:80/a/b:latest"), ("a@b", "a@b:latest")],
)
def test_a_listed_name_has_a_tag(name: str, listed_as: str) -> None:
    assert with_tag(name) == listed_as


@pytest.mark.parametrize(
    ("parameters", "size"),
    [
        (0, ""),
        (12, "12"),
        (3_967, "4K"),
        (494_030_000, "494.03M"),
        (8_030_000_000, "8.0B"),
        (671_000_000_000, "671.0B"),
    ],
)
def test_parameter_sizes(parameters: int, size: str) -> None:
    assert parameter_size(parameters) == size


def test_times_can_be_read_by_an_old_python_and_a_strict_parser() -> None:
    assert format_time(1.7e9) == "2023-11-14T22:13:20.000000+00:00"
    assert datetime.fromisoformat(format_time(0.1234567)).timestamp() == pytest.approx(0.123457)


def test_a_digest_is_stable_and_unique() -> None:
    assert re.fullmatch("[0-9a-f]{64}", digest_of(MODEL))
    assert digest_of(MODEL) == digest_of(msgspec.structs.replace(MODEL, title="other"))
    others: list[dict[str, Any]] = [{"name": "b"}, {"path": "/x"}, {"size_bytes": 1}, {"modified_at": 1.0}]
    assert len({digest_of(MODEL), *(digest_of(msgspec.structs.replace(MODEL, **entry)) for entry in others)}) == 5


def test_a_model_nothing_is_known_of_still_has_every_text() -> None:
    bare = ModelInfo(name="x", title="", path="", format="gguf", size_bytes=1)
    assert json.loads(msgspec.json.encode(details_of(bare))) == {
        "parent_model": "",
        "format": "gguf",
        "family": "",
        "families": [],
        "parameter_size": "",
        "quantization_level": "",
    }
    assert tag_entry(bare).size == 1


def test_what_is_loaded() -> None:
    kept_entry = ps_entry(MODEL, STATUS)
    assert (kept_entry.size, kept_entry.size_vram, kept_entry.context_length) == (5_000, 5_000, 8192)
    assert datetime.fromisoformat(kept_entry.expires_at).year == 2318
    soon = msgspec.structs.replace(STATUS, unload_at=1.7e9, memory_bytes=9_000, backend="cpu")
    assert ps_entry(MODEL, soon).expires_at == format_time(1.7e9)
    assert (ps_entry(MODEL, soon).size, ps_entry(MODEL, soon).size_vram) == (9_000, 0)
    assert sorted([soon, STATUS], key=longest_first) == [STATUS, soon]


def test_show_tells_editors_what_they_look_for() -> None:
    reply = show_reply(MODEL, FACTS, capabilities=["completion", "tools", "insert"], context=8192, copilot_name="Qwen")
    assert reply.model_info == {
        "general.architecture": "qwen3",
        "general.basename": "Qwen",
        "general.parameter_count": 8_030_000_000,
        "general.type": "model",
        "qwen3.context_length": 8192,
        "general.trained_context_length": 40_960,
        "qwen3.embedding_length": 4096,
        "qwen3.block_count": 1,
        "qwen3.vocab_size": 151_936,
        "qwen3.feed_forward_length": 12_288,
        "qwen3.attention.head_count": 32,
        "qwen3.attention.head_count_kv": 8,
        "qwen3.attention.key_length": 128,
        "qwen3.attention.value_length": 128,
        "tokenizer.chat_template": "{{ messages }}",
    }
    assert ".Suffix" in reply.template
    assert ".Tools" in reply.template
    assert reply.parameters.split() == ["num_ctx", "8192"]
    assert reply.details.embedding_length == 4096


def test_show_tells_others_what_the_model_was_trained_for() -> None:
    reply = show_reply(MODEL, FACTS, capabilities=["completion"], context=8192)
    assert reply.model_info["qwen3.context_length"] == 40_960
    assert reply.model_info["general.basename"] == MODEL.title


def test_show_of_a_model_whose_files_say_nothing() -> None:
    bare = ModelInfo(name="x", title="X", path="", format="gguf", size_bytes=1, chats=False, embeds=True)
    reply = show_reply(bare, None, capabilities=["embedding"], context=0)
    assert reply.model_info["general.architecture"] == "unknown"
    assert (reply.template, reply.parameters) == ("", "")


def test_capabilities_have_ollamas_names_and_order() -> None:
    every = [Capability.THINKING, Capability.CHAT, Capability.INFILL, Capability.COMPLETION, Capability.EMBEDDING]
    assert capability_words(every) == ["completion", "insert", "embedding", "thinking"]
    assert capability_words([Capability.RERANK]) == ["rerank"]


@pytest.mark.parametrize(
    ("request_", "ability"),
    [
        (ConversationRequest(messages=()), None),
        (ConversationRequest(messages=(), thinking=ThinkingLevel.OFF), None),
        (ConversationRequest(messages=(), tools=(ToolDefinition(name="f"),)), None),
        (ConversationRequest(messages=(), thinking=ThinkingLevel.LOW), "thinking"),
        (
            ConversationRequest(
                messages=(ConversationMessage(MessageRole.USER, (Text(""), Image(media_type="", data=""))),)
            ),
            "vision",
        ),
        (CompletionRequest(prompt="a"), None),
        (CompletionRequest(prompt="a", suffix="b"), "insert"),
    ],
)
def test_what_a_model_cannot_do_is_said_in_the_words_clients_know(request_: Request, ability: str | None) -> None:
    if ability is None:
        requests.check_abilities(request_, ["completion"], model="m")
        return
    with pytest.raises(BadRequest, match=f'^"m" does not support {ability}$'):
        requests.check_abilities(request_, ["completion"], model="m")
    requests.check_abilities(request_, ["completion", ability], model="m")


def test_vectors_come_in_the_order_asked_for_and_of_length_one() -> None:
    data = b'{"data":[{"index":1,"embedding":[0,0]},{"index":0,"embedding":[3,4]}],"usage":{"prompt_tokens":5}}'
    vectors = read_vectors(data)
    assert [vector.embedding for vector in vectors.data] == [[3.0, 4.0], [0.0, 0.0]]
    assert vectors.prompt_tokens == 5
    assert normalise_vector([3.0, 4.0]) == [0.6, 0.8]
    assert normalise_vector([3.0, 4.0], 1) == [1.0]
    assert normalise_vector([0.0, 0.0]) == [0.0, 0.0]
    with pytest.raises(EngineFailed):
        read_vectors(b'{"data": 3}')


@pytest.mark.parametrize(
    ("data", "texts"),
    [(b'"a"', ["a"]), (b'""', []), (b"null", []), (b"", []), (b"[]", []), (b'["a","b"]', ["a", "b"])],
)
def test_inputs(data: bytes, texts: list[str]) -> None:
    assert read_input(msgspec.Raw(data)) == texts
    assert json.loads(encode_embeddings_request(texts, model="m"))["input"] == texts


@pytest.mark.parametrize("data", [b"3", b"[1,2]", b'["a",null]', b'{"a":1}', b"true"])
def test_other_inputs_are_refused(data: bytes) -> None:
    with pytest.raises(BadRequest, match="invalid input type"):
        read_input(msgspec.Raw(data))
