"""Refuse grammars, schemas and biases that an engine would work on for longer than an answer is worth.

llama.cpp tries every way through a grammar at every token, so what may be left out costs most: of `[a-z]?` repeated 20
times 16 tokens take 0.1 s, of 40 more than 40 s. A list of 10,000 values does not either, 500 optional
properties take 3.5 s, and 100,000 entries of `logit_bias` 16 s (measured with b11549). A chain of parts that may be
left out costs as much where it is made by repeating, `([a-z]?){0,40}`, or by rules that name each other: 24 take 0.4 s,
32 7 s, 40 26 s. Other engines differ: one that hangs all the same is restarted.
"""

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from app.core.errors import BadRequest
from app.gateway.entry.bodies import decode_body
from app.gateway.exchange.grammar_chains import ChainReader, TooManyTokensError

MOST_GRAMMAR_CHARS = 64 * 1024
"""llama.cpp's own largest example has 4 kB."""
MOST_OPTIONAL = 16
"""Parts of one rule or pattern that may be left out. Of 16 `[a-z]*` 16 tokens take 3 s, of 24 more than 10."""
MOST_ALTERNATIVES = 5000
"""Of a grammar; so many take 0.2 s."""
MOST_TOKENS = 10_000
"""Names, signs and literals of all grammars and patterns together that are read here, each in a microsecond."""
MOST_VALUES = 2000
"""Of one list (`enum`, `anyOf`, ...) of a schema; so many take a second."""
MOST_OPTIONAL_PROPERTIES = 300
"""Of one object; the rules for them grow with the square."""
MOST_SCHEMA_PARTS = 100_000
"""Values of all schemas together, at any depth."""
MOST_BIASES = 10_000
"""So many take 0.15 s."""

SIGNS = re.compile(rb'grammar"|ebnf"|schema"|format"|tools"|logit_bias"|\\u00')
"""What a body has in it that holds an answer to something."""
_LISTS_OF_VALUES = ("enum", "anyOf", "oneOf", "allOf")
_OPTIONAL = re.compile(r"(?:(?<!\()\?|\*|\{\s{0,9}0?\s{0,9},)\??")
"""Not `(?:`, and once for what is optional and lazy."""
_ESCAPED = re.compile(r"\\.|[\"#]")
"""In patterns: what means itself, and what would begin a text or a comment in a grammar."""
_RULE = "::="


class _LimitedFields(msgspec.Struct, frozen=True, kw_only=True):
    """Where requests to engines keep what answers are held to, and how tokens are weighed."""

    tools: Any = None
    response_format: Any = None
    json_schema: Any = None
    output_config: Any = None
    output_format: Any = None
    grammar: Any = None
    ebnf: Any = None
    structured_outputs: Any = None
    """SGLang's and vLLM's places of a grammar."""
    logit_bias: Any = None


def refuse_large_constraints(body: bytes) -> None:
    """Return if an engine can work with it in reasonable time, as far as that can be told. Raises BadRequest.

    Bodies without any of `SIGNS` need not be looked at.
    """
    fields = decode_body(body, _LimitedFields)
    if isinstance(fields.logit_bias, dict | list) and len(fields.logit_bias) > MOST_BIASES:
        raise _limit_error("`logit_bias` has", MOST_BIASES, "entries")
    chains = ChainReader(MOST_TOKENS)
    for grammar in (fields.grammar, fields.ebnf):
        if isinstance(grammar, str):
            _check_grammar(grammar, chains)
    held_fields = [fields.tools, fields.response_format, fields.json_schema, fields.output_config, fields.output_format]
    for node in _iter_objects([*held_fields, fields.structured_outputs]):
        _check_node(node, chains)


def _check_grammar(grammar: str, chains: ChainReader) -> None:
    if len(grammar) > MOST_GRAMMAR_CHARS:
        raise _limit_error("The grammar has", MOST_GRAMMAR_CHARS, "characters")
    text = strip_literals(grammar)
    if text.count("|") > MOST_ALTERNATIVES:
        raise _limit_error("The grammar has", MOST_ALTERNATIVES, "alternatives")
    for rule in text.split(_RULE):
        _check_optional(rule, "A rule of the grammar")
    _check_chains(chains, text, "The grammar", has_rules=True)


def strip_literals(grammar: str) -> str:
    """Return a grammar with `_` for each text, set of characters and comment, in one pass."""
    kept_parts, closing_quote, skips = [], "", False
    for char in grammar:
        if skips:
            skips = False
        elif closing_quote:
            skips = char == "\\"
            closing_quote = "" if char == closing_quote else closing_quote
        elif char in _CLOSING:
            closing_quote = _CLOSING[char]
            kept_parts.append("_")
        else:
            kept_parts.append(char)
    return "".join(kept_parts)


_CLOSING = {'"': '"', "[": "]", "#": "\n"}


def _check_optional(text: str, place: str) -> None:
    if sum(1 for _ in _OPTIONAL.finditer(text)) > MOST_OPTIONAL:
        raise _limit_error(f"{place} has", MOST_OPTIONAL, "parts that may be left out (`?`, `*`, `{0,n}`)")


def _check_chains(chains: ChainReader, text: str, place: str, *, has_rules: bool) -> None:
    try:
        length = chains.longest_chain(text, has_rules=has_rules)
    except TooManyTokensError:
        raise _limit_error("The grammars and patterns have", MOST_TOKENS, "parts") from None
    if length > MOST_OPTIONAL:
        raise _limit_error(f"{place} has", MOST_OPTIONAL, "parts in a row that may be left out")


def _iter_objects(value: object) -> Iterator[dict[str, Any]]:
    """Yield every object in it. Raises BadRequest for more values than a schema may have."""
    values_left, count = [value], 0
    while values_left:
        node = values_left.pop()
        if isinstance(node, dict):
            yield node
        values = node.values() if isinstance(node, dict) else node if isinstance(node, list) else ()
        count += len(values)
        if count > MOST_SCHEMA_PARTS:
            raise _limit_error("The schemas have", MOST_SCHEMA_PARTS, "parts")
        values_left += values


def _check_node(node: dict[str, Any], chains: ChainReader) -> None:
    for name in _LISTS_OF_VALUES:
        if isinstance(values := node.get(name), list) and len(values) > MOST_VALUES:
            raise _limit_error(f"`{name}` of a schema has", MOST_VALUES, "values")
    properties, required_names = node.get("properties"), node.get("required")
    if isinstance(properties, dict):
        count = len(properties) - (len(required_names) if isinstance(required_names, list) else 0)
        if count > MOST_OPTIONAL_PROPERTIES:
            raise _limit_error("An object of a schema has", MOST_OPTIONAL_PROPERTIES, "optional properties")
    if isinstance(pattern := node.get("pattern"), str):
        text = strip_literals(_ESCAPED.sub("_", pattern)).replace("(?:", "(")
        _check_optional(text, "A pattern of a schema")
        _check_chains(chains, text, "A pattern of a schema", has_rules=False)
    if isinstance(grammar := node.get("grammar"), str):
        _check_grammar(grammar, chains)


def _limit_error(subject: str, limit: int, unit: str) -> BadRequest:
    return BadRequest(
        f"{subject} more than {limit:,} {unit}, which would keep the engine busy for too long.",
        hint="Simplify it, or split the request.",
        code="constraint_too_large",
    )
