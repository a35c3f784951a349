"""Pure parts of OpenAI's dialect: engines' refusals, the middle of code, shorter vectors, ranked documents."""

import base64
import json
import math
import struct
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.errors import BadRequest
from app.gateway.canonical.events import Overflow
from app.gateway.dialects.llama_server.routes import LlamaDetokenizeForm, LlamaInfillForm
from app.gateway.dialects.openai import embeddings, infill, rerank
from app.gateway.dialects.openai.answers import OpenAICompletionForm
from app.gateway.dialects.openai.embeddings import OpenAIEmbeddingsForm
from app.gateway.dialects.openai.form import OPENAI, OpenAIForm
from app.gateway.exchange.engine.error_document import parse_refusal


@pytest.mark.parametrize(
    ("status", "message", "becomes", "code", "param"),
    [
        (500, "image input is not supported - hint: mmproj", 400, "unsupported_content", "messages"),
        (500, "audio input is not supported - hint: mmproj", 400, "unsupported_content", "messages"),
        (500, 'Failed to parse tools: Missing tool type: {"x":1}', 400, "invalid_tools", "tools"),
        (500, "Failed to parse messages: key 'text' not found", 400, "invalid_messages", "messages"),
        (500, "'messages' is required", 400, "invalid_messages", "messages"),
        (501, "Infill is not supported by this model: prefix token is missing.", 400, "model_cannot", "model"),
        (501, "This server does not support reranking. Start it with `--reranking`", 400, "model_cannot", "model"),
        (500, "Unknown reasoning format: bogus", 400, "invalid_value", "reasoning_format"),
        (500, "something else", 500, "engine_error", None),
        (400, "image input is not supported", 400, "invalid_value", None),
    ],
)
def test_the_callers_mistakes_are_told_from_the_engines(
    status: int, message: str, becomes: int, code: object, param: str | None
) -> None:
    error_document = {"error": {"code": status, "message": message, "type": "server_error"}}
    refusal = OPENAI.refusal(json.dumps(error_document).encode(), status)
    error = json.loads(refusal.body)["error"]
    assert (refusal.status, error["code"], error["param"], error["message"]) == (becomes, code, param, message)
    assert error["type"] == ("server_error" if becomes == 500 or status == 400 else "invalid_request_error")


@pytest.mark.parametrize(
    ("status", "message", "becomes", "sentence", "param"),
    [
        (
            400,
            "Field 'seed': [json.exception.type_error.302] type must be number, but is string",
            400,
            "`seed` must be of type number, and is of type string.",
            "seed",
        ),
        (
            500,
            "[json.exception.type_error.302] type must be array, but is string",
            400,
            "A value of the request must be of type array, and is of type string.",
            None,
        ),
        (
            500,
            "Failed to parse messages: [json.exception.out_of_range.403] key 'text' not found",
            400,
            "Failed to parse messages: `text` is missing.",
            "messages",
        ),
        (
            400,
            "[json.exception.parse_error.101] parse error at line 1",
            400,
            "A value of the request is not as expected: parse error at line 1",
            None,
        ),
        (500, "vector::_M_default_append", 500, "The engine could not understand the request.", None),
        (400, "Field 'n': Value must be between 1 and 4", 400, "Field 'n': Value must be between 1 and 4", "n"),
    ],
)
def test_what_a_library_threw_is_put_into_a_sentence(
    status: int, message: str, becomes: int, sentence: str, param: str | None
) -> None:
    refusal = OPENAI.refusal(json.dumps({"error": {"code": status, "message": message}}).encode(), status)
    error = json.loads(refusal.body)["error"]
    assert (refusal.status, error["message"], error["param"]) == (becomes, sentence, param)


@pytest.mark.parametrize(
    ("form", "param"),
    [
        (OPENAI, "messages"),
        (OpenAICompletionForm(), "prompt"),
        (infill.SuffixCompletionForm(model="m"), "prompt"),
        (LlamaInfillForm(), "input_prefix"),
        (embeddings.form_of(embeddings.OpenAIEmbeddingsRequest()), "input"),
        (rerank.form_of(rerank.RerankRequest(query="a", documents=["b"])), "documents"),
        (rerank.form_of(rerank.RerankRequest(query="a", texts=["b"])), "texts"),
    ],
)
def test_what_is_too_long_is_named_as_the_route_names_it(form: OpenAIForm, param: str) -> None:
    body = {"error": {"type": "exceed_context_size_error", "message": "x", "n_prompt_tokens": 9, "n_ctx": 4}}
    assert json.loads(form.refusal(json.dumps(body).encode(), 400).body)["error"]["param"] == param


SGLANGS = [
    {"score": 0.1, "document": "a", "index": 0, "meta_info": None},
    {"score": 0.9, "document": "b", "index": 1, "meta_info": None},
]


def test_an_engine_that_lists_its_ranking_is_put_as_it_was_asked_for() -> None:
    rerank_request = rerank.RerankRequest(query="q", documents=["a", "b"], return_documents=True)
    whole = json.loads(rerank.form_of(rerank_request).whole(json.dumps(SGLANGS).encode()))
    assert whole["results"] == [
        {"index": 1, "relevance_score": 0.9, "document": {"text": "b"}},
        {"index": 0, "relevance_score": 0.1, "document": {"text": "a"}},
    ]
    first = rerank.form_of(rerank.RerankRequest(query="q", documents=["a", "b"], top_n=1))
    assert json.loads(first.whole(json.dumps(SGLANGS).encode()))["results"] == [{"index": 1, "relevance_score": 0.9}]


def test_a_list_that_was_asked_for_stays_one() -> None:
    ranks = b'[{"index":0,"score":0.5}]'
    assert rerank.form_of(rerank.RerankRequest(query="q", texts=["a"])).whole(ranks) == ranks


def test_an_infill_is_over_when_its_last_event_says_so() -> None:
    assert not LlamaInfillForm().is_complete(piece('say "stop":true'))
    assert LlamaInfillForm().is_complete(piece("") + b'data: {"index":0,"content":"","stop":true}\n\n')


@pytest.mark.parametrize(
    "thrown",
    [
        "vector::_M_range_check: __n (which is 999999) >= this->size() (which is 320)",
        "invalid vector subscript",
        "vector",
    ],
)
def test_a_token_beyond_the_vocabulary_is_the_callers_mistake(thrown: str) -> None:
    body = json.dumps({"error": {"code": 500, "message": thrown}}).encode()
    refusal = LlamaDetokenizeForm().refusal(body, 500)
    error = json.loads(refusal.body)["error"]
    assert (refusal.status, error["param"], error["code"]) == (400, "tokens", "invalid_value")


def test_a_server_error_of_another_kind_is_not_blamed_on_the_tokens() -> None:
    body = json.dumps({"error": {"code": 500, "message": "out of memory"}}).encode()
    refusal = LlamaDetokenizeForm().refusal(body, 500)
    assert refusal.status >= 500
    assert json.loads(refusal.body)["error"]["param"] != "tokens"


@pytest.mark.parametrize(
    ("error", "tokens", "context"),
    [
        ({"type": "exceed_context_size_error", "message": "x", "n_prompt_tokens": 9, "n_ctx": 4}, 9, 4),
        (
            {
                "message": "input (4000 tokens) is too large to process. increase the physical batch size "
                "(current batch size: 600)"
            },
            4000,
            600,
        ),
    ],
)
def test_what_is_too_long_is_told_with_its_counts(error: dict[str, object], tokens: int, context: int) -> None:
    refusal = parse_refusal(json.dumps({"error": error}).encode(), 500)
    assert (refusal.status, refusal.code) == (400, "context_length_exceeded")
    assert refusal.overflow == Overflow(prompt=tokens, context=context)


@given(st.binary(max_size=200), st.sampled_from([400, 404, 500, 501, 503]))
def test_any_refusal_has_all_four_keys(body: bytes, status: int) -> None:
    error = json.loads(OPENAI.refusal(body, status).body)["error"]
    assert {"message", "type", "param", "code"} <= set(error)
    assert error["message"]


@pytest.mark.parametrize(("encoding", "expected_fields"), [(None, {}), ("float", {"encoding_format": "float"})])
def test_no_encoding_is_the_usual_one(encoding: str | None, expected_fields: dict[str, object]) -> None:
    body = json.dumps({"model": "m", "input": "a", "encoding_format": encoding}).encode()
    document = embeddings.for_engine(body, msgspec.json.decode(body, type=embeddings.OpenAIEmbeddingsRequest))
    assert json.loads(document) == {"model": "m", "input": "a", **expected_fields}


def infill_body(**fields: object) -> dict[str, Any]:
    body = json.dumps({"model": "m", "prompt": "a", "suffix": "b", **fields}).encode()
    document: dict[str, Any] = json.loads(infill.for_infill(body, fim_asked(body)))
    return document


def fim_asked(body: bytes) -> infill.SuffixCompletionRequest:
    return msgspec.json.decode(body, type=infill.SuffixCompletionRequest)


def test_a_suffix_is_asked_of_infill() -> None:
    document = infill_body(max_tokens=3, temperature=0.5, n=1, echo=False)
    assert document == {"model": "m", "input_prefix": "a", "input_suffix": "b", "n_predict": 3, "temperature": 0.5}
    assert infill_body(prompt=["a"])["input_prefix"] == "a"


@pytest.mark.parametrize("fields", [{"echo": True}, {"n": 2}, {"best_of": 2}, {"logprobs": 1}, {"prompt": ["a", "b"]}])
def test_what_infill_cannot_do_is_refused(fields: dict[str, object]) -> None:
    with pytest.raises(BadRequest) as error:
        infill_body(**fields)
    assert error.value.code == "unsupported_parameter"


def piece(content: str, **fields: object) -> bytes:
    return b"data: " + json.dumps({"content": content, "stop": False, **fields}).encode() + b"\n\n"


LAST = piece("", stop=True, stop_type="limit", tokens_predicted=2, tokens_evaluated=5, timings={"cache_n": 1})


@given(st.lists(st.text(min_size=1), max_size=5), st.integers(1, 99), st.booleans())
def test_any_pieces_make_a_valid_stream(texts: list[str], size: int, counts: bool) -> None:  # noqa: FBT001 -- drawn
    raw = b"".join(map(piece, texts)) + LAST
    edit = infill.SuffixCompletionForm(model="m", includes_usage=counts).editor()
    out = b"".join(edit(raw[at : at + size]) for at in range(0, len(raw), size))
    *events, done_line = out.decode().removesuffix("\n\n").split("\n\n")
    assert done_line == "data: [DONE]"
    chunks = [json.loads(event.removeprefix("data: ")) for event in events]
    choices = [chunk["choices"][0] for chunk in chunks if chunk["choices"]]
    assert "".join(choice["text"] for choice in choices) == "".join(texts)
    assert [choice["finish_reason"] for choice in choices] == [None] * len(texts) + ["length"]
    assert (chunks[-1].get("usage", {}).get("total_tokens") == 7) is counts
    assert len({(chunk["id"], chunk["created"], chunk["object"]) for chunk in chunks}) == 1


def test_an_error_in_the_middle_is_passed_on() -> None:
    data = b'data: {"error":{"code":500,"message":"no"}}\n\n'
    assert infill.SuffixCompletionForm(model="m").editor()(data) == data


VECTOR = [3.0, 4.0, 12.0]


@pytest.mark.parametrize("is_packed", [False, True])
def test_a_vector_is_cut_and_scaled(*, is_packed: bool) -> None:
    vector: Any = base64.b64encode(struct.pack("<3f", *VECTOR)).decode() if is_packed else VECTOR
    reply = {"object": "list", "model": "m", "usage": {"prompt_tokens": 1}, "data": [{"embedding": vector, "index": 0}]}
    (row,) = json.loads(OpenAIEmbeddingsForm(dimensions=2).whole(json.dumps(reply).encode()))["data"]
    cut = struct.unpack("<2f", base64.b64decode(row["embedding"])) if is_packed else row["embedding"]
    assert cut == pytest.approx((0.6, 0.8))
    assert math.hypot(*cut) == pytest.approx(1.0)
    with pytest.raises(BadRequest, match="3 dimensions"):
        OpenAIEmbeddingsForm(dimensions=4).whole(json.dumps(reply).encode())


def test_no_dimensions_is_no_number() -> None:
    assert embeddings.form_of(embeddings.OpenAIEmbeddingsRequest()).whole(b"{}") == b"{}"
    with pytest.raises(BadRequest):
        embeddings.form_of(embeddings.OpenAIEmbeddingsRequest(dimensions=0))


def test_documents_go_as_text_and_come_back_where_they_belong() -> None:
    rerank_request = rerank.RerankRequest(query="q", documents=["a", "b"], return_documents=True)
    assert json.loads(rerank.for_engine(b'{"query":"q","top_n":1}', rerank_request)) == {
        "query": "q",
        "top_n": 1,
        "documents": ["a", "b"],
    }
    reply = {"results": [{"index": 1, "relevance_score": 0.5}], "usage": {}}
    (row,) = json.loads(rerank.form_of(rerank_request).whole(json.dumps(reply).encode()))["results"]
    assert row == {"index": 1, "relevance_score": 0.5, "document": {"text": "b"}}
    texts = rerank.RerankRequest(query="q", texts=["a", "b"], return_text=True)
    (bare,) = json.loads(rerank.form_of(texts).whole(b'[{"index":1,"score":0.5}]'))
    assert bare == {"index": 1, "score": 0.5, "text": "b"}
    assert rerank.form_of(rerank.RerankRequest(query="q", documents=["a"])).whole(b"as it is") == b"as it is"
