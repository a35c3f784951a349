"""How long the chains of parts are that a grammar leaves out at will."""

import time

import pytest

from app.gateway.exchange.constraint_limits import strip_literals
from app.gateway.exchange.grammar_chains import ChainReader, TooManyTokensError
from tests.gateway.exchange.test_constraint_limits import JSON_GRAMMAR


def longest_chain(text: str, *, has_rules: bool = True) -> int:
    return ChainReader(100_000).longest_chain(text, has_rules=has_rules)


@pytest.mark.parametrize(
    ("grammar", "length"),
    [
        ('root ::= "a" "b"', 0),
        ('root ::= "a"? "b"', 1),
        ('root ::= "a"? "b"? "c"*', 3),
        ('root ::= "a"? "b" "c"?', 1),
        ('root ::= ("a"?){0,40}', 40),
        ('root ::= ("a"?){7}', 7),
        ('root ::= ("a" "b"?){7}', 1),
        ("root ::= [a-z]{0,40}", 1),
        ('root ::= ("a"? "b"?){3}', 6),
        ('root ::= ("a"? | "b"? "c"?) "d"?', 4),
        ('root ::= ("a"?)*', 2),
        ('root ::= ("a"?)+', 1),
        ('root ::= "x" ("a"? "b")? "c"?', 2),
        ('root ::= a a a\na ::= "x"?', 3),
        ('root ::= a "y" a\na ::= "x"?', 1),
        ('root ::= a{5}\na ::= b b\nb ::= "x"?', 10),
        ('root ::= "x" root | ""?', 1),
        ("a ::= b?\nb ::= a?", 2),
        ("root ::= missing missing", 0),
        ("", 0),
        ("root ::= ) ) ? * {", 0),
    ],
)
def test_a_chain_is_what_may_be_left_out_in_a_row(grammar: str, length: int) -> None:
    assert longest_chain(strip_literals(grammar)) == length


def test_in_a_pattern_letters_are_no_rules() -> None:
    assert longest_chain("^a?b?c$", has_rules=False) == 2
    assert longest_chain("(a?){9}", has_rules=False) == 9


def test_grammars_that_programs_write_have_short_ones() -> None:
    assert longest_chain(strip_literals(JSON_GRAMMAR)) <= 10


@pytest.mark.parametrize(
    "text",
    [
        "(" * 30_000,
        "a?" * 30_000,
        "a ::= " * 10_000,
        "(a|" * 20_000,
        "\n".join(f"a{n} ::= a{n + 1}" for n in range(5000)),
    ],
)
def test_no_text_is_too_deep_or_takes_long(text: str) -> None:
    began = time.process_time()
    longest_chain(text)
    assert time.process_time() - began < 2.0, "a tenth of that is usual"


def test_so_many_tokens_are_read_of_all_texts_together_and_no_more() -> None:
    reader = ChainReader(10)
    assert reader.longest_chain("a? b?") == 2
    assert reader.longest_chain("(a?){3}") == 3
    assert reader.longest_chain("a") == 0
    with pytest.raises(TooManyTokensError):
        reader.longest_chain("a")
