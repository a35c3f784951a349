"""What the cards of an endpoint's models say, in the words of each server, and what they leave open."""

from typing import Any

import msgspec
import pytest

from app.core.capabilities import Capability, parse_capabilities
from app.core.errors import BadRequest
from app.gateway.library.attached_endpoints import make_knowledge
from app.gateway.library.endpoint_cards import EndpointCard, card_from_entry, cards_of, digest_of
from app.hub.library.attached import Attachment
from app.supervisor.readiness import EngineEndpoint
from app.supervisor.remote import RemoteModel
from tests.gateway.far import Far

NAMED_LIKE_OTHERS = ["nomic-embed-text", "all-minilm", "sentence-transformers/LaBSE", "bge-reranker", "qwen3"]


def taken_for(card: dict[str, Any]) -> list[str]:
    """Return what a model is taken to do whose entry in the list is this one."""
    model = msgspec.convert({"id": "x", **card}, RemoteModel)
    return [
        *Attachment(name="x", url="", served_as="x", known=make_knowledge(model, card_from_entry(model))).capabilities
    ]


@pytest.mark.parametrize(
    ("card", "capabilities"),
    [
        ({}, ["completion", "chat", "tools"]),
        ({"type": "model"}, ["completion", "chat", "tools"]),
        ({"type": "llm"}, ["completion", "chat", "tools"]),
        ({"type": "vlm"}, ["completion", "chat", "tools", "vision"]),
        ({"type": "embeddings"}, ["embedding"]),
        ({"type": "rerank"}, ["rerank"]),
        ({"capabilities": ["completion"]}, ["completion", "chat", "tools"]),
        ({"capabilities": ["completion", "multimodal"]}, ["completion", "chat", "vision"]),
        ({"capabilities": ["embedding"]}, ["embedding"]),
        ({"capabilities": ["completion", "chat"], "owned_by": "roundhouse"}, ["completion", "chat"]),
        ({"capabilities": ["completion", "chat", "rerank"]}, ["completion", "chat", "tools", "rerank"]),
        (
            {"capabilities": {"completion_chat": True, "completion_fim": True, "function_calling": True}},
            ["completion", "chat", "tools"],  # in Mistral's own way, which is not spoken here
        ),
        (
            {"capabilities": {"completion_chat": True, "function_calling": False, "vision": False}},
            ["completion", "chat"],
        ),
        (
            {"architecture": {"input_modalities": ["text", "image"], "output_modalities": ["text"]}},
            ["completion", "chat", "tools", "vision"],
        ),
        ({"architecture": {"input_modalities": ["text"], "output_modalities": ["embeddings"]}}, ["embedding"]),
        (
            {"supported_parameters": ["temperature", "reasoning"]},
            ["completion", "chat", "thinking"],
        ),
        ({"capabilities": "all", "architecture": ["odd"], "supported_parameters": 3}, ["completion", "chat", "tools"]),
    ],
)
def test_a_card_is_believed_and_the_rest_is_what_most_can(card: dict[str, Any], capabilities: list[str]) -> None:
    assert taken_for(card) == capabilities


@pytest.mark.parametrize("name", NAMED_LIKE_OTHERS)
def test_nothing_is_guessed_by_a_name(name: str) -> None:
    assert card_from_entry(RemoteModel(id=name)) == EndpointCard()


def test_a_person_goes_before_every_card() -> None:
    model = RemoteModel(id="x", type="llm", max_model_len=4096)
    stated_attachment = Attachment(
        name="x",
        url="",
        served_as="x",
        can=[Capability.EMBEDDING],
        stated_context=512,
        known=make_knowledge(model, card_from_entry(model)),
    )
    assert (stated_attachment.capabilities, stated_attachment.context) == ([Capability.EMBEDDING], 512)
    assert Capability.CHAT in stated_attachment.impossible_capabilities


def test_the_digest_is_of_what_a_model_is_and_not_of_its_being_loaded() -> None:
    model = RemoteModel(id="x", max_model_len=4096, loaded_context_length=1)
    assert digest_of(model) == digest_of(msgspec.structs.replace(model, loaded_context_length=None))
    assert digest_of(model) != digest_of(msgspec.structs.replace(model, max_model_len=8192))


def test_words_are_taken_as_people_say_them_and_bring_what_they_imply() -> None:
    assert parse_capabilities("Embeddings, rerank") == [Capability.EMBEDDING, Capability.RERANK]
    assert parse_capabilities("vision") == [Capability.COMPLETION, Capability.CHAT, Capability.VISION]
    with pytest.raises(BadRequest, match="'fly'"):
        parse_capabilities("chat,fly")


async def card_of(far: Far, model: str) -> EndpointCard:
    """Return what the played endpoint says of its model beside the list."""
    remote_model = RemoteModel(id=model)
    return (await cards_of(EngineEndpoint(base_url=f"{far.url}/v1", key="k", served_name=""), [remote_model]))[model]


async def test_lm_studios_lists_tell_its_kinds_and_what_they_can(far: Far) -> None:
    capabilities = {"vision": True, "trained_for_tool_use": False, "reasoning": {"allowed_options": ["on"]}}
    model = {"type": "llm", "key": "a", "capabilities": capabilities, "max_context_length": 9000}
    far.pages["/api/v1/models"] = {"models": [model, {"type": "embedding", "key": "b"}]}
    card = await card_of(far, "a")
    assert (card.answers[Capability.VISION], card.answers[Capability.TOOLS], card.context) == (True, False, 9000)
    assert card.answers[Capability.THINKING]
    assert not card.answers[Capability.EMBEDDING]
    assert (await card_of(far, "b")).answers[Capability.EMBEDDING]


@pytest.mark.parametrize(
    ("owner", "server"),
    [
        ("vllm", "vLLM"),
        ("sglang", "SGLang"),
        ("llamacpp", "llama-server"),
        ("tabbyAPI", "TabbyAPI"),
        ("OVMS", "OpenVINO Model Server"),
        ("roundhouse", "Roundhouse"),
        ("organization_owner", ""),
        (None, ""),
        (["vllm"], ""),
    ],
)
def test_a_list_that_names_its_program_tells_which_it_is(owner: object, server: str) -> None:
    assert card_from_entry(RemoteModel(id="x", owned_by=owner)).server == server


async def test_tabby_tells_of_the_model_it_has_loaded_and_of_no_other(far: Far) -> None:
    parameters = {"max_seq_len": 8192, "use_vision": True, "prompt_template_content": "{% if tools %}x{% endif %}"}
    far.pages["/v1/model"] = {"id": "loaded", "owned_by": "tabbyAPI", "parameters": parameters}
    models = [RemoteModel(id=name, owned_by="tabbyAPI") for name in ("loaded", "folder")]
    cards = await cards_of(EngineEndpoint(base_url=f"{far.url}/v1", key="k", served_name=""), models)
    assert (cards["loaded"].context, cards["loaded"].server) == (8192, "TabbyAPI")
    assert cards["loaded"].answers[Capability.VISION]
    assert cards["loaded"].answers[Capability.TOOLS]
    assert cards["folder"] == EndpointCard(server="TabbyAPI")


@pytest.mark.parametrize("name", ["phi-4:3", "phi-4"])
async def test_foundry_local_s_catalogue_tells_of_tools_and_its_kinds(far: Far, name: str) -> None:
    speech = {"name": "whisper:1", "task": "automatic-speech-recognition"}
    phi = {"name": "phi-4:4", "task": "chat-completion", "supportsToolCalling": False}
    far.pages["/foundry/list"] = {"models": [phi, speech]}
    card = await card_of(far, name)
    assert (card.server, card.answers[Capability.CHAT], card.answers[Capability.TOOLS]) == (
        "Foundry Local",
        True,
        False,
    )
    assert (await card_of(far, "whisper")).answers[Capability.TRANSCRIPTION]
    assert not (await card_of(far, "another")).server


async def test_tabby_s_answer_that_makes_no_sense_tells_nothing(far: Far) -> None:
    far.pages["/v1/model"] = {"id": 3, "parameters": []}
    models = [RemoteModel(id="a", owned_by="tabbyAPI")]
    cards = await cards_of(EngineEndpoint(base_url=f"{far.url}/v1", key="k", served_name=""), models)
    assert cards["a"] == EndpointCard(server="TabbyAPI")


async def test_its_older_list_does_too(far: Far) -> None:
    far.pages["/api/v0/models"] = {"data": [{"id": "a", "type": "vlm", "capabilities": ["tool_use"]}]}
    answers = (await card_of(far, "a")).answers
    assert (answers[Capability.VISION], answers[Capability.TOOLS]) == (True, True)


async def test_a_llama_servers_properties_tell_of_pictures_and_its_template(far: Far) -> None:
    far.pages["/props"] = {
        "default_generation_settings": {"n_ctx": 1234},
        "modalities": {"vision": True, "audio": False},
        "chat_template": "{% if tools %}<think>",
    }
    card = await card_of(far, "a")
    assert card.context == 1234
    assert card.answers == {
        Capability.VISION: True,
        Capability.AUDIO: False,
        Capability.TOOLS: True,
        Capability.THINKING: True,
    }
