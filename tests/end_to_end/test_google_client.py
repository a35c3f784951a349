"""Google's own client and the real engine: the Guide, and models with a script."""

from collections.abc import Iterator

import pytest
from google import genai
from google.genai import errors, types

from app.client.http import GatewayClient
from app.config.paths import Paths
from tests.gguf_files import TinyLlama
from tests.scripted_gguf import ScriptedLlama

pytestmark = pytest.mark.real_engine

QUESTION = "What is Roundhouse?"
THINKS = ["<think>\n", "They want the weather.", "\n</think>\n\n"]
CALLS = ['<tool_call>\n{"name": "weather", "arguments": {"town"', ': "Bern"}}\n</tool_call>']


@pytest.fixture(scope="module", autouse=True)
def models(client: GatewayClient, home: Paths) -> None:
    """Models of which it is known what they say."""
    ScriptedLlama([*THINKS, *CALLS]).write(home.models / "agent.gguf")
    TinyLlama(values={"llama.pooling_type": 1}).write(home.models / "vectors.gguf")


@pytest.fixture(params=["v1", "v1beta"])
def api(client: GatewayClient, request: pytest.FixtureRequest) -> Iterator[genai.Client]:
    options = types.HttpOptions(base_url=client.gateway.url, api_version=request.param, timeout=60_000)
    with genai.Client(api_key="any", http_options=options) as client_api:
        yield client_api


def certain(**more: object) -> types.GenerateContentConfig:
    return types.GenerateContentConfig.model_validate({"temperature": 0, "max_output_tokens": 16, **more})


def test_an_answer_is_the_same_whole_and_streamed(api: genai.Client) -> None:
    whole = api.models.generate_content(model="guide", contents=QUESTION, config=certain())
    pieces = list(api.models.generate_content_stream(model="guide", contents=QUESTION, config=certain()))
    assert whole.text
    assert "".join(piece.text or "" for piece in pieces) == whole.text
    assert len(pieces) > 2
    last = pieces[-1]
    assert last.candidates is not None
    assert last.candidates[0].finish_reason is types.FinishReason.MAX_TOKENS
    assert whole.usage_metadata is not None
    assert whole.usage_metadata.candidates_token_count == 16
    assert whole.model_version == "guide"


def test_a_chat_goes_on(api: genai.Client) -> None:
    chat = api.chats.create(model="guide", config=certain(system_instruction="Be short."))
    chat.send_message("Hello")
    assert chat.send_message("And what is a GPU?").text
    assert len(chat.get_history()) == 4


def test_models_and_tokens(api: genai.Client) -> None:
    model_list = {model.name: model for model in api.models.list()}
    assert {"models/guide", "models/agent", "models/vectors"} <= set(model_list)
    assert model_list["models/vectors"].supported_actions == ["embedContent", "batchEmbedContents"]
    assert api.models.get(model="guide").input_token_limit
    count = api.models.count_tokens(model="guide", contents=QUESTION).total_tokens
    whole = api.models.generate_content(model="guide", contents=QUESTION, config=certain())
    assert whole.usage_metadata is not None
    assert count == whole.usage_metadata.prompt_token_count


def test_a_function_is_called_with_thoughts_apart(api: genai.Client) -> None:
    weather = types.FunctionDeclaration(
        name="weather",
        description="Tell the weather.",
        parameters=types.Schema(type=types.Type.OBJECT, properties={"town": types.Schema(type=types.Type.STRING)}),
    )
    config = certain(
        tools=[types.Tool(function_declarations=[weather])],
        max_output_tokens=100,
        thinking_config=types.ThinkingConfig(include_thoughts=True),
    )
    reply = api.models.generate_content(model="agent", contents="Weather in Bern?", config=config)
    assert reply.function_calls is not None
    (call,) = reply.function_calls
    assert (call.name, call.args) == ("weather", {"town": "Bern"})
    assert reply.parts is not None
    assert reply.parts[0].thought
    assert (reply.parts[0].text or "").strip() == "They want the weather."


def test_an_answer_in_a_schema(api: genai.Client) -> None:
    legs = types.Schema(type=types.Type.BOOLEAN)
    schema = types.Schema(type=types.Type.OBJECT, properties={"legs": legs}, required=["legs"])
    config = certain(response_mime_type="application/json", response_schema=schema, max_output_tokens=60)
    reply = api.models.generate_content(model="guide", contents="Has it legs?", config=config)
    assert isinstance(reply.parsed, dict)
    assert reply.parsed["legs"] in {True, False}


def test_vectors(api: genai.Client) -> None:
    texts: list[types.PartUnionDict] = ["hello", "world"]
    both = api.models.embed_content(model="vectors", contents=texts).embeddings
    assert both is not None
    assert [len(vector.values or []) > 1 for vector in both] == [True, True]


def test_errors_are_googles(api: genai.Client) -> None:
    with pytest.raises(errors.ClientError) as unknown:
        api.models.generate_content(model="gpt-9", contents="Hi")
    assert (unknown.value.code, unknown.value.status) == (404, "NOT_FOUND")
    for ask in (api.models.generate_content, lambda **what: list(api.models.generate_content_stream(**what))):
        with pytest.raises(errors.ClientError, match="exceeds the maximum number of tokens allowed"):
            ask(model="guide", contents="word " * 9000)
