"""Grammars that answers can be held to, and in which line others are wrong."""

import pytest

from app.core.errors import BadRequest
from app.core.grammars import check_grammar
from app.core.json_schemas import MOST_FORM_CHARS

RIGHT = [
    'root ::= "a"',
    '# a comment\nroot ::= (\n "a" # another\n | y )* z{2,3}\ny ::= [^"\\\\]+\nz ::= .',
    'root ::= "a" | | "b"',
    'root ::=\n "a" |\n "b"\n\nx ::= root',
    'root ::= "a"\r\nx ::= "b"\r\n',
    'root ::= "\\x41\\u0041\\U00000041" [\\]a]',
    "root ::= <[1]> !<[2]>",
    "root ::= ()",
    'root ::= x x\nx ::= "a" x | "b"',
    'root ::= "a"{2000} ("b"?){2,5}',
    'root ::= ws "a"\nws ::= [ \\t\\n]*',
    'root ::= a-b\na-b ::= "two\nlines"',
]
WRONG = [
    ('x ::= "a"', "wrong: it has no rule named root"),
    ("# only words", "no rule named root"),
    ("\nroot ::= y", "line 2: there is no rule 'y'"),
    ('root ::= root "a" | "b"', "line 1: a rule may not begin with itself"),
    ('root ::= x "b"\nx ::= y?\ny ::= root', "line 3: a rule may not begin with itself"),
    ('root ::= ws root "b"\nws ::= " "*', "line 1: a rule may not begin with itself"),
    ('root ::= "x"\n("a" | "b"', "line 2: a rule begins with a name"),
    ('root ::=\n("a" | "b"\n', "line 2: this parenthesis is not closed"),
    ('root ::= "a', "a text ends with a quotation mark"),
    ("root ::= [a-", "a set of characters ends with `]`"),
    ('root ::= "\\q"', "\\q is no escape"),
    ('root := "a"', "after the name 'root' comes `::=`"),
    ('root ::= "a" }', "'}' does not belong here"),
    ('root ::= "a" x ::= "b"', "':' does not belong here"),
    ('root ::= "a"{,3}', "a count is written as {3}, {3,} or {3,5}"),
    ('root ::= "a"{3,1}', "{3,1} repeats more often than allowed"),
    ('root ::= "a"{2001}', "more than 2,000 times"),
    ("root ::= <one two>", "a token is written as"),
    ('root ::= "a"* *', "cannot be repeated without end"),
    ('root ::= ("a"?)+', "cannot be repeated without end"),
    ('root ::= x{1,}\nx ::= "a"?', "cannot be repeated without end"),
    ("root ::= " + "(" * 200, "nested more than 100 levels deep"),
    ("root ::= " + '"a" ' * MOST_FORM_CHARS, "more than 65,536 characters"),
]


@pytest.mark.parametrize("grammar", RIGHT)
def test_what_answers_can_be_held_to(grammar: str) -> None:
    check_grammar(grammar)


@pytest.mark.parametrize(("grammar", "words"), WRONG, ids=range(len(WRONG)))
def test_what_is_wrong_is_told_with_its_line(grammar: str, words: str) -> None:
    with pytest.raises(BadRequest) as refusal:
        check_grammar(grammar)
    assert words in str(refusal.value)
    assert refusal.value.code == "invalid_value"


def test_long_chains_of_rules_end() -> None:
    count = 3000
    rules = [f"r{at} ::= r{at + 1}" for at in range(count)]
    check_grammar("\n".join(["root ::= r0", *reversed(rules), f'r{count} ::= "a"?']))
