"""Laws of an exchange: a limit holds at its very figure, frames end where they say, words keep their sense."""

import json
from collections.abc import Callable
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.errors import BadRequest, EngineFailed, RoundhouseError, TooManyRequests, Unavailable
from app.gateway.canonical.events import ContextOverflow, Overflow
from app.gateway.canonical.request import ConversationMessage, MessageRole, Text
from app.gateway.exchange import constraint_limits as limits
from app.gateway.exchange.constraint_limits import refuse_large_constraints
from app.gateway.exchange.engine.error_document import error_from_refusal, overflow_in, parse_refusal, plain_sentence
from app.gateway.exchange.engine.request import in_order, nest_grammar, wire_messages
from app.gateway.exchange.framing import MOST_HEAD_BYTES, ChunkedBody, CountedBody, read_head
from app.gateway.exchange.grammar_chains import ChainReader, TooManyTokensError
from app.gateway.exchange.infilling import _find_marks
from app.gateway.exchange.observer import ExchangeSink, Observation, Observers
from app.gateway.exchange.passing import LineLimit
from app.gateway.exchange.upstream import EngineAnswer, StuckChecks

# ----- limits


def schema_body(schema: dict[str, object]) -> dict[str, object]:
    return {"json_schema": schema}


AT_THE_LIMIT: list[tuple[Callable[[int], dict[str, object]], int, str]] = [
    (lambda n: {"grammar": "r ::= " + "x" * (n - 6)}, 65_536, "characters"),
    (lambda n: {"grammar": "r::=" + "|" * n}, 5000, "alternatives"),
    (lambda n: {"grammar": "r ::= " + "a? " * n}, 16, "A rule of the grammar"),
    (lambda n: {"ebnf": "r ::= " + "a? " * n}, 16, "A rule of the grammar"),
    (lambda n: {"structured_outputs": {"grammar": "r ::= " + "a? " * n}}, 16, "A rule of the grammar"),
    (lambda n: {"grammar": f"r ::= ([a]?){{0,{n}}}"}, 16, "parts in a row"),
    (lambda n: {"grammar": "r::=" + "a " * (n - 1)}, 10_000, "The grammars and patterns"),
    (lambda n: {"logit_bias": {str(at): 1 for at in range(n)}}, 10_000, "entries"),
    (lambda n: {"logit_bias": [[1, 1]] * n}, 10_000, "entries"),
    (lambda n: schema_body({"enum": list(range(n))}), 2000, "`enum`"),
    (lambda n: schema_body({"items": {"oneOf": [{}] * n}}), 2000, "`oneOf`"),
    (lambda n: schema_body({"properties": {f"p{at}": {} for at in range(n)}}), 300, "optional properties"),
    (
        lambda n: schema_body({"properties": {f"p{at}": {} for at in range(n + 5)}, "required": ["a"] * 5}),
        300,
        "optional properties",
    ),
    (lambda n: schema_body({"pattern": "a?" * n}), 16, "A pattern of a schema"),
    (lambda n: schema_body({"pattern": f"(a?){{{n}}}"}), 16, "parts in a row"),
    (lambda n: {"tools": [0] * (n - 6)}, 100_000, "The schemas have"),
]
"""What makes a body with so many, the limit, and what is said of one more."""


@pytest.mark.parametrize(("make", "limit", "sentence"), AT_THE_LIMIT, ids=range(len(AT_THE_LIMIT)))
def test_a_limit_is_the_last_that_passes(make: Callable[[int], dict[str, object]], limit: int, sentence: str) -> None:
    refuse_large_constraints(json.dumps(make(limit)).encode())
    with pytest.raises(BadRequest) as refusal:
        refuse_large_constraints(json.dumps(make(limit + 1)).encode())
    assert sentence in str(refusal.value)
    assert f"{limit:,}" in str(refusal.value)
    assert (refusal.value.code, bool(refusal.value.hint)) == ("constraint_too_large", True)


def test_figures_of_limits_are_what_was_measured() -> None:
    assert (limits.MOST_GRAMMAR_CHARS, limits.MOST_ALTERNATIVES, limits.MOST_TOKENS) == (64 * 1024, 5000, 10_000)
    assert (limits.MOST_OPTIONAL, limits.MOST_VALUES, limits.MOST_OPTIONAL_PROPERTIES) == (16, 2000, 300)
    assert (limits.MOST_SCHEMA_PARTS, limits.MOST_BIASES) == (100_000, 10_000)


@pytest.mark.parametrize(
    ("grammar", "length"),
    [
        ("", 0),
        ("a", 0),
        ("_?", 1),
        ("_* _+ _?", 1),
        ("_? _?", 2),
        ("_? _ _? _?", 2),
        ("_?+", 1),
        ("(_?)?", 2),
        ("(_ _?)?", 1),
        ("(_?){3}", 3),
        ("(_?){0,3}", 3),
        ("(_?){3,}", 1),
        ("(_?){2,5}", 5),
        ("_{0,3}", 1),
        ("_{2,3}", 0),
        ("_{0}", 1),
        ("(_? _?){2} _?", 5),
        ("_? | _?", 2),
        ("_? | _", 1),
        ("(_? | _ _?) _?", 2),
        ("(_ _? | _) _?", 2),
        ("_? (_ | _? _)", 2),
        ("r ::= a a\na ::= _? b\nb ::= _?", 4),
        ("r ::= r _?", 1),
        ("? *", 0),
    ],
)
def test_a_chain_is_what_may_be_left_out_in_a_row(grammar: str, length: int) -> None:
    assert ChainReader(1000).longest_chain(grammar) == length


def test_all_grammars_of_a_request_share_what_is_looked_at() -> None:
    reader = ChainReader(5)
    assert reader.longest_chain("_? _") == 1
    assert reader.longest_chain("_ _") == 0
    with pytest.raises(TooManyTokensError):
        reader.longest_chain("_")


# ----- frames


@pytest.mark.parametrize(("length", "is_refused"), [(MOST_HEAD_BYTES, False), (MOST_HEAD_BYTES + 1, True)])
def test_a_head_without_end_is_read_up_to_its_bound(length: int, *, is_refused: bool) -> None:
    assert MOST_HEAD_BYTES == 64 * 1024
    if is_refused:
        with pytest.raises(ValueError, match="without end"):
            read_head(b"x" * length)
    else:
        assert read_head(b"x" * length) is None


@pytest.mark.parametrize(("begin", "most"), [(b"", 1024), (b"0\r\n", 16 * 1024)])
def test_a_line_between_chunks_is_read_up_to_its_bound(begin: bytes, most: int) -> None:
    for whole in (True, False):
        body = ChunkedBody()
        pieces = [begin + b"1" * most] if whole else [begin, b"1" * most]
        assert b"".join(map(body.feed, pieces)) == b""
        with pytest.raises(ValueError, match="line without end"):
            body.feed(b"1")


@given(length=st.integers(0, 30), pieces=st.lists(st.binary(max_size=12), max_size=8))
def test_a_counted_body_ends_at_its_last_byte(length: int, pieces: list[bytes]) -> None:
    body, received_bytes, piece_sent = CountedBody(length), b"", b""
    assert body.is_over == (length == 0)
    for piece in pieces:
        if body.is_over:
            break
        received_bytes, piece_sent = received_bytes + body.feed(piece), piece_sent + piece
        assert received_bytes == piece_sent[:length]
        assert body.surplus == piece_sent[length:]
        assert body.is_over == body.ends_with_connection() == (len(piece_sent) >= length)


@pytest.mark.parametrize(("status", "is_final"), [(100, False), (103, False), (199, False), (200, True), (599, True)])
def test_an_answer_is_final_from_two_hundred_on(status: int, *, is_final: bool) -> None:
    read = read_head(b"HTTP/1.1 %d X\r\nA:  b\t\r\na: c\r\n\r\nrest" % status)
    assert (read is not None) == is_final
    if read is not None:
        assert (read[0].status, dict(read[0].headers), read[1]) == (status, {"a": "c"}, b"rest")


# ----- what engines say


@pytest.mark.parametrize(
    ("status", "kind", "code"),
    [
        (400, BadRequest, "engine_refused"),
        (404, BadRequest, "engine_refused"),
        (499, BadRequest, "engine_refused"),
        (500, EngineFailed, "engine_error"),
        (501, BadRequest, "engine_refused"),
        (502, EngineFailed, "engine_error"),
        (503, Unavailable, "engine_busy"),
        (429, TooManyRequests, "engine_busy"),
    ],
)
def test_a_status_tells_whose_mistake_it_is(status: int, kind: type[RoundhouseError], code: str) -> None:
    for body, answered_status in (
        (b'{"error": {"message": "No."}}', status),
        (b'{"error": {"message": "No.", "code": %d}}' % status, 500),
        (b"No.", status),
        (b'{"detail": "No."}', status),
        (b'{"error": "No."}', status),
        (b'{"message": "No."}', status),
    ):
        error = error_from_refusal(body, answered_status, retry_after="7")
        assert (type(error), error.code, str(error)) == (kind, code, "No.")


@pytest.mark.parametrize(
    ("message", "code", "param"),
    [
        ("image input is not supported", "unsupported_content", "messages"),
        ("audio input is not supported", "unsupported_content", "messages"),
        ("Failed to parse tools: x", "invalid_tools", "tools"),
        ("Failed to parse messages: x", "invalid_messages", "messages"),
        ("'messages' is required", "invalid_messages", "messages"),
        ("this is not supported by this model", "model_cannot", "model"),
        ("Unknown reasoning format: x", "invalid_value", "reasoning_format"),
        ("[json.exception.type_error.302] type must be number, but is string", "invalid_value", None),
    ],
)
def test_a_mistake_of_the_callers_is_one_whatever_status_it_comes_with(
    message: str, code: str, param: str | None
) -> None:
    body = json.dumps({"error": {"message": message, "type": "server_error"}}).encode()
    for status in (500, 501, 599):
        refusal = parse_refusal(body, status)
        assert (refusal.status, refusal.code, refusal.param, refusal.kind) == (400, code, param, "")
    kept_refusal = parse_refusal(body, 499)
    assert (kept_refusal.status, kept_refusal.code, kept_refusal.kind) == (499, None, "server_error")


@pytest.mark.parametrize(
    ("error", "overflow"),
    [
        ({"type": "exceed_context_size_error", "n_prompt_tokens": 9, "n_ctx": 5}, Overflow(prompt=9, context=5)),
        ({"code": "context_length_exceeded"}, Overflow()),
        (
            {"message": "request (9 tokens) exceeds the available context size (5 tokens)"},
            Overflow(prompt=9, context=5),
        ),
        (
            {"type": "exceed_context_size_error", "message": "maximum context length is 4,096 tokens", "n_ctx": 0},
            Overflow(context=4096),
        ),
    ],
)
def test_a_prompt_that_is_too_long_is_that_with_all_counts_that_were_told(
    error: dict[str, object], overflow: Overflow
) -> None:
    body = json.dumps({"error": {"message": "Too long.", **error}}).encode()
    refusal = parse_refusal(body, 500)
    assert (refusal.overflow, refusal.status, refusal.code) == (overflow, 400, ContextOverflow.default_code)
    assert isinstance(error_from_refusal(body), ContextOverflow)


def test_the_answers_share_is_told_only_where_a_shorter_answer_would_help() -> None:
    words = (
        "maximum context length is 100 tokens. However, you requested 60 output tokens and your prompt contains {} "
        "input tokens"
    )
    assert overflow_in(words.format(100)) == Overflow(context=100, prompt=100, answer=60)
    assert overflow_in(words.format(101)) == Overflow(context=100, prompt=101)
    assert overflow_in("x" * 2000 + words.format(50)) is None
    assert overflow_in("max_tokens must be at most 100") is None


@pytest.mark.parametrize(
    ("message", "sentence"),
    [
        (
            "[json.exception.type_error.302] type must be number, but is string",
            "A value of the request must be of type number, and is of type string.",
        ),
        (
            "Field 'seed': [json.exception.type_error.302] type must be number, but is string",
            "`seed` must be of type number, and is of type string.",
        ),
        ("[json.exception.out_of_range.403] key 'prompt' not found", "`prompt` is missing."),
        ("Oh: [json.exception.other.1] something", "Oh: A value of the request is not as expected: something"),
        ("basic_string::substr", "The engine could not understand the request."),
        ("unsupported content[].type", "A part of a message is of a type that the engine cannot read."),
        ("The prompt is empty.", "The prompt is empty."),
    ],
)
def test_what_no_caller_can_read_is_a_sentence(message: str, sentence: str) -> None:
    assert plain_sentence(message) == sentence


@pytest.mark.parametrize("body", [b"", b"null", b'{"error": null}', b"[1]", b'{"error": {"message": null}}'])
def test_an_engine_that_says_nothing_refuses_without_a_reason(body: bytes) -> None:
    assert parse_refusal(body, 500).text in {"The engine refused the request and did not say why.", body.decode()}


# ----- the middle of a text


class PlayedInfillEngine:
    """Sets marks around nothing, and has `tokens` for them."""

    def __init__(self, tokens: list[int], tokens_evaluated: int) -> None:
        self._tokens, self._tokens_evaluated = tokens, tokens_evaluated

    async def ask(self, _route: object, _question: object, kind: type[Any]) -> Any:  # noqa: ANN401 -- as the real one
        return kind(prompt="marks", tokens_evaluated=self._tokens_evaluated)

    async def tokenize(
        self, written_parts: list[str], *, reads_marks: bool = False, adds_first: bool = False
    ) -> list[int]:
        assert reads_marks != adds_first == (written_parts == [""])
        return [1] if adds_first else self._tokens

    async def find_mark(self, _names: object, *, apart: int) -> int | None:
        return apart + 10


@pytest.mark.parametrize(
    ("tokens", "tokens_evaluated", "marks"),
    [
        ([7, 8, 9], 3, ((), 7, 8, 9)),
        ([1, 7, 8, 9], 4, ((1,), 7, 8, 9)),
        ([2, 7, 8, 9], 4, ((), 7, 8, 9)),
        ([1, 7, 8, 9], 5, None),
        ([8, 9], 2, None),
    ],
)
async def test_the_marks_of_a_gap_are_the_last_three_and_what_all_begins_with(
    tokens: list[int], tokens_evaluated: int, marks: tuple[tuple[int, ...], int, int, int] | None
) -> None:
    found_marks = await _find_marks(cast("Any", PlayedInfillEngine(tokens, tokens_evaluated)))
    if marks is None:
        assert found_marks is None
        return
    assert found_marks is not None
    assert (tuple(found_marks.first), found_marks.before, found_marks.after, found_marks.gap) == marks
    assert (found_marks.repository, found_marks.file) == (19, 19)


# ----- conversations


def make_message(role: MessageRole, text: str) -> ConversationMessage:
    return ConversationMessage(role, (Text(text),))


ROLES = st.sampled_from([MessageRole.SYSTEM, MessageRole.USER, MessageRole.ASSISTANT])


@given(roles=st.lists(ROLES, max_size=8))
def test_all_that_was_said_is_sent_once_and_in_order_with_one_system_message_at_the_top(
    roles: list[MessageRole],
) -> None:
    messages = [make_message(role, f"t{at}") for at, role in enumerate(roles)]
    ordered_messages = in_order(messages)
    text = "".join(message.text for message in ordered_messages)
    places = [text.index(f"t{at}") for at in range(len(roles))]
    assert places == sorted(places)
    systems = [at for at, message in enumerate(ordered_messages) if message.role is MessageRole.SYSTEM]
    leading_count = next((at for at, role in enumerate(roles) if role is not MessageRole.SYSTEM), len(roles))
    assert systems == ([0] if leading_count else [])
    later = [at for at, role in enumerate(roles) if role is MessageRole.SYSTEM and at >= leading_count]
    assert text.count("<system-reminder>") == len(later)
    for at in later:
        assert f"<system-reminder>\nt{at}\n</system-reminder>\n" in text
    if leading_count:
        assert ordered_messages[0].text == "\n\n".join(f"t{at}" for at in range(leading_count))
    assistants = [message.text for message in ordered_messages if message.role is MessageRole.ASSISTANT]
    assert assistants == [f"t{at}" for at, role in enumerate(roles) if role is MessageRole.ASSISTANT]
    assert [wire["role"] for wire in wire_messages(messages)] == [message.role for message in ordered_messages]


@pytest.mark.parametrize(
    ("field", "fields"),
    [("grammar", {"grammar": "g"}), ("structured_outputs.grammar", {"structured_outputs": {"grammar": "g"}})],
)
def test_a_grammar_goes_where_its_engine_reads_it(field: str, fields: dict[str, object]) -> None:
    assert nest_grammar("g", field) == fields


# ----- what is looked at while bytes pass


@pytest.mark.parametrize(
    ("pieces", "is_open"), [([], False), ([b"a"], True), ([b"a", b"b\n"], False), ([b"a\nb"], True), ([b""], False)]
)
def test_a_line_is_open_from_its_first_byte_to_its_end(pieces: list[bytes], *, is_open: bool) -> None:
    limit = LineLimit()
    for piece in pieces:
        limit.check_piece(piece)
    assert limit.is_open is is_open


class ChangeSink(ExchangeSink):
    """Listens to changes, and to nothing else."""

    def on_change(self, exchange: Observation) -> None:
        """Hear it."""


class EndSink(ExchangeSink):
    """Listens to ends, and to nothing else."""

    def on_end(self, exchange: Observation) -> None:
        """Hear it."""


def test_sinks_are_told_of_what_they_listen_to_and_of_nothing_else() -> None:
    change, end = ChangeSink(), EndSink()
    observers = Observers((change, end, ExchangeSink()))
    assert (observers.change_sinks, observers.end_sinks) == ([change.on_change], [end.on_end])
    assert (observers.request_sinks, observers.answer_sinks) == ([], [])


async def test_lasting_answers_are_looked_at_from_the_first_until_all_are_closed() -> None:
    checks = StuckChecks()
    assert checks._timer is None
    checks.watch_answer(cast("EngineAnswer", object()))
    timer = checks._timer
    assert timer is not None
    checks.watch_answer(cast("EngineAnswer", object()))
    assert checks._timer is timer, "one look serves all"
    await checks.close()
    assert timer.cancelled()
    closed_checks = StuckChecks()
    await closed_checks.close()
    closed_checks.watch_answer(cast("EngineAnswer", object()))
    assert closed_checks._timer is None
