import json
import re

from hypothesis import given
from hypothesis import strategies as st

from app.gateway.dialects.form import StreamEditor
from app.gateway.dialects.openai.answers import CHAT, ONE_CALL

TEXTS = st.text(alphabet='ab"\\\n,{}:é"\\', max_size=12) | st.just('"reasoning_content":"x"')


def whole(**message: object) -> bytes:
    choice = {"finish_reason": "stop", "index": 0, "message": {"role": "assistant", **message}}
    return compact({"choices": [choice], "id": "x"})


def compact(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def event(delta: dict[str, object]) -> bytes:
    return b"data: " + compact({"choices": [{"finish_reason": None, "index": 0, "delta": delta}]}) + b"\n\n"


def deltas(stream: bytes) -> list[dict[str, object]]:
    return [json.loads(data)["choices"][0]["delta"] for data in re.findall(rb"data: (.*)\n\n", stream)]


def feed_chunks(edit: StreamEditor, *chunks: bytes) -> bytes:
    return b"".join(edit(chunk) for chunk in chunks)


@given(text=TEXTS, thought=TEXTS)
def test_a_whole_answer_has_every_key_and_both_names(text: str, thought: str) -> None:
    choice = json.loads(CHAT.whole(whole(content=text, reasoning_content=thought)))["choices"][0]
    assert choice["logprobs"] is None
    assert choice["message"] == {
        "role": "assistant",
        "refusal": None,
        "content": text,
        "reasoning_content": thought,
        "reasoning": thought,
    }


def test_what_is_there_already_stays_as_it_is() -> None:
    body = compact({"choices": [{"finish_reason": "stop", "logprobs": {"content": []}, "message": {"refusal": "no"}}]})
    assert CHAT.whole(body) == body
    both = event({"reasoning_content": "a", "reasoning": "a"})
    assert feed_chunks(CHAT.editor(), both) == both
    plain = event({"content": "a"})
    assert feed_chunks(CHAT.editor(), plain) == plain


def test_the_first_delta_has_a_text() -> None:
    data = feed_chunks(CHAT.editor(), event({"role": "assistant", "content": None}), event({"content": "a"}))
    assert deltas(data) == [{"role": "assistant", "content": ""}, {"content": "a"}]


@given(thoughts=st.lists(TEXTS, min_size=1, max_size=3), text=TEXTS, cut=st.integers(0, 400))
def test_reasoning_has_both_names_wherever_the_network_cuts(thoughts: list[str], text: str, cut: int) -> None:
    stream = b"".join(event({"reasoning_content": thought}) for thought in thoughts) + event({"content": text})
    data = feed_chunks(CHAT.editor(), stream[:cut], stream[cut:])
    parts = deltas(data)
    assert [part["reasoning_content"] for part in parts[:-1]] == thoughts
    assert parts[-1] == {"content": text}
    for part in parts[:-1]:
        assert part.get("reasoning", part["reasoning_content"]) == part["reasoning_content"]
    in_a_key = any(match.start() < cut < match.end() for match in re.finditer(rb'"reasoning_content":"', stream))
    assert in_a_key or all("reasoning" in part for part in parts[:-1])


def call(index: int, **fields: object) -> dict[str, object]:
    return {"tool_calls": [{"index": index, **fields}]}


def test_a_client_that_takes_one_call_gets_one() -> None:
    body = json.loads(ONE_CALL.whole(whole(content=None, tool_calls=[{"id": "a"}, {"id": "b"}])))
    assert body["choices"][0]["message"]["tool_calls"] == [{"id": "a"}]
    assert json.loads(ONE_CALL.whole(whole(content="a")))["choices"][0]["message"]["content"] == "a"


@given(cut=st.integers(0, 600))
def test_later_calls_of_a_stream_are_left_out(cut: int) -> None:
    parts: list[dict[str, object]] = [
        {"reasoning_content": "a"},
        call(0, id="a"),
        call(0, function={"arguments": "{}"}),
        call(1, id="b"),
        {},
    ]
    stream = b"".join(event(part) for part in parts)
    edit = ONE_CALL.editor()
    remaining_deltas = deltas(edit(stream[:cut]) + edit(stream[cut:]))
    assert remaining_deltas == [{"reasoning_content": "a", "reasoning": "a"}, *parts[1:3], {}]
