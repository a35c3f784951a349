import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from app.gateway.dialects.openai.answers import OpenAICompletionForm, RawCompletionForm

COUNTS = {"prompt_tokens": 2, "completion_tokens": 2, "total_tokens": 4}


def likely(token: str) -> dict[str, object]:
    return {"id": 1, "token": token, "bytes": [], "logprob": -0.5, "top_logprobs": [{"token": token, "logprob": -0.5}]}


def piece(text: str, *, reason: str | None = None, **fields: object) -> dict[str, object]:
    choice = {"text": text, "index": 0, "logprobs": {"content": [likely(text)]} if text else None}
    return {"id": "chatcmpl-1", "model": "m", "choices": [{**choice, "finish_reason": reason}], **fields}


STREAM = b"".join(
    b"data: " + json.dumps(one).encode() + b"\n\n"
    for one in (piece("One "), piece("two"), piece("", reason="stop", usage=COUNTS))
)


def events(data: bytes) -> list[dict[str, Any]]:
    *frames, last, nothing = data.split(b"\n\n")
    assert (last, nothing) == (b"data: [DONE]", b"")
    return [json.loads(frame.removeprefix(b"data: ")) for frame in frames]


def test_a_whole_answer_has_the_old_lists_and_a_name_of_its_own() -> None:
    body = json.loads(OpenAICompletionForm().whole(json.dumps(piece("One ", reason="length", usage=COUNTS)).encode()))
    assert (body["id"], body["usage"], body["choices"][0]["finish_reason"]) == ("cmpl-1", COUNTS, "length")
    assert body["choices"][0]["logprobs"] == {
        "tokens": ["One "],
        "token_logprobs": [-0.5],
        "top_logprobs": [{"One ": -0.5}],
        "text_offset": [0],
    }


def test_with_no_others_only_the_token_that_was_written_has_its_probability() -> None:
    other = {"id": 2, "token": "Two", "bytes": [], "logprob": -0.1, "top_logprobs": []}
    document = piece("One ")
    document["choices"][0]["logprobs"]["content"][0]["top_logprobs"] = [other]  # type: ignore[index]
    body = json.loads(OpenAICompletionForm(is_only_chosen=True).whole(json.dumps(document).encode()))
    assert body["choices"][0]["logprobs"]["top_logprobs"] == [{"One ": -0.5}]


def test_what_is_no_completion_stays_as_it_is() -> None:
    assert OpenAICompletionForm().whole(b'{"other":1}') == b'{"other":1}'
    edit = OpenAICompletionForm().editor()
    assert edit(b': waiting\n\ndata: {"error":{}}\n\n') == b': waiting\n\ndata: {"error":{}}\n\n'


def test_an_event_of_nothing_is_not_passed_on() -> None:
    nothing = b"data: null\n\n"
    assert (
        events(OpenAICompletionForm().editor()(nothing + STREAM + b"data: [DONE]\n\n"))[0]["choices"][0]["text"]
        == "One "
    )
    assert RawCompletionForm().editor()(nothing + STREAM) == STREAM


@given(at=st.integers(0, len(STREAM)), asks=st.booleans())
def test_a_streams_counts_come_alone_and_only_when_asked_for(at: int, asks: bool) -> None:  # noqa: FBT001 -- drawn
    edit = OpenAICompletionForm(includes_usage=asks).editor()
    chunks = events(edit(STREAM[:at]) + edit(STREAM[at:]) + edit(b"data: [DONE]\n\n"))
    pieces, counts = chunks[:3], chunks[3:]
    assert [chunk["choices"][0]["text"] for chunk in pieces] == ["One ", "two", ""]
    assert [chunk["choices"][0]["logprobs"]["text_offset"] for chunk in pieces[:2]] == [[0], [4]]
    assert all("usage" not in chunk for chunk in pieces)
    assert [(chunk["choices"], chunk["usage"]) for chunk in counts] == ([([], COUNTS)] if asks else [])
