"""Hostile requests, as tables: texts that are bad for matchers, where they are put, and shapes that are too much.

A `Case` is one request less its address. Small ones go to every address that reads a body, large ones to one address of
each kind.
"""

import json
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import msgspec
from msgspec import inspect

TEXTS: dict[str, Callable[[int], str]] = {
    "letters": lambda n: "a" * n,
    "digits": lambda n: "1" * n,
    "units": lambda n: "1m" * (n // 2),
    "colons": lambda n: "a::" * (n // 3),
    "open": lambda n: "[/" * (n // 2),
    "brackets": lambda n: "[" * n,
    "parentheses": lambda n: "(a" * (n // 2),
    "quotes": lambda n: '"a' * (n // 2),
    "slashes": lambda n: "a/" * (n // 2),
    "backslashes": lambda n: "\\" * n,
    "dots": lambda n: "../" * (n // 3),
    "blanks": lambda n: "a" + " " * n + "\x01",
    "lines": lambda n: "{{-" + " \n" * (n // 2),
    "actions": lambda n: "{{" + " " * n + "x",
    "blocks": lambda n: "{%" * (n // 2),
    "marks": lambda n: "<tool_call><think>[TOOL_CALLS]" * (n // 30),
    "ranges": lambda n: "{9,1" * (n // 4),
    "letters that grow": lambda n: "\ufdfa" * (n // 3),
    "accents": lambda n: "e" + "\u0301" * (n // 2),
    "addresses": lambda n: "http://1.1.1.1@[::1]:1/" * (n // 23),
}
"""Name -> a text of about n characters."""

FIELDS = (
    *("model", "prompt", "suffix", "system", "template", "input", "instructions", "format", "query", "content"),
    *(
        "keep_alive",
        "ttl",
        "max_tokens",
        "n",
        "seed",
        "temperature",
        "stop",
        "tool_choice",
        "reasoning_effort",
        "think",
    ),
    *("grammar", "json_schema", "response_format", "previous_response_id", "from", "name", "source", "destination"),
    *("input_prefix", "encoding_format", "truncation", "user", "license", "digest", "identifier", "quantization"),
)
"""Fields of requests in all dialects that take a text, or are refused when they are one."""

SKELETON = {
    "model": "guide",
    "from": "guide",
    "messages": [{"role": "user", "content": "text"}],
    "max_tokens": 4,
    "prompt": "text",
    "input": "text",
    "query": "text",
    "documents": ["text"],
    "content": "text",
    "tokens": [1],
    "input_prefix": "a",
    "input_suffix": "b",
    "stream": False,
}
"""What every address that asks a model something understands; each reads its own of it."""


class Case(NamedTuple):
    """A body, and what it is called in a failure."""

    name: str
    body: bytes
    headers: tuple[tuple[str, bytes], ...] = ()


def _with(**fields: object) -> bytes:
    return json.dumps({**SKELETON, **fields}).encode()


def _raw(**fields: str) -> bytes:
    """Return the skeleton with fields of JSON as it is given: `json` writes no number of 20,000 digits."""
    written_fields = ",".join(f'"{name}":{value}' for name, value in fields.items())
    rest = {name: value for name, value in SKELETON.items() if name not in fields}
    return json.dumps(rest)[:-1].encode() + b"," + written_fields.encode() + b"}"


SIZE = 10_000
"""Characters of a small case: a matcher of the square takes half a second for so many, and a linear one nothing."""


def fields_of_texts() -> Iterator[Case]:
    """Yield texts in fields: each field gets a quarter of the texts, and each text a quarter of the fields."""
    texts = list(TEXTS.items())
    for number, field in enumerate(FIELDS):
        for at in range(number % 4, len(texts), 4):
            name, make = texts[at]
            yield Case(f"{field}: {name}", _with(**{field: make(SIZE)}))


def _message(**fields: object) -> dict[str, object]:
    return {"role": "user", "content": "text", **fields}


def _tool(**fields: object) -> dict[str, object]:
    return {"type": "function", "name": "f", "function": {"name": "f", "parameters": {"type": "object"}, **fields}}


def places_of_texts() -> Iterator[Case]:
    """Yield texts where they stand deeper in a request."""
    for name, make in list(TEXTS.items())[::3]:
        text = make(SIZE)
        schema = {"type": "object", "properties": {text[:500]: {"type": "string", "pattern": text}}}
        yield Case(f"content: {name}", _with(messages=[_message(content=text)]))
        yield Case(f"role: {name}", _with(messages=[_message(role=text)]))
        yield Case(f"part: {name}", _with(messages=[_message(content=[{"type": text, "text": text}])]))
        image = {"type": "image_url", "image_url": {"url": text}}
        yield Case(f"image: {name}", _with(messages=[_message(content=[image])]))
        yield Case(f"tool name: {name}", _with(tools=[_tool(name=text)]))
        yield Case(f"schema: {name}", _with(tools=[_tool(parameters=schema)], response_format=schema))
        yield Case(f"json_schema: {name}", _with(json_schema=schema, format=schema))
        yield Case(f"option: {name}", _with(options={"num_ctx": text, text[:300]: text}, logit_bias={text: 1}))


def numbers() -> Iterator[Case]:
    """Yield numbers without end where numbers stand."""
    fields = ("ttl", "keep_alive", "n", "seed", "max_tokens", "temperature", "top_logprobs", "num_predict", "top_n")
    for field in fields:
        yield Case(f"{field}: digits", _raw(**{field: "1" * SIZE}))
        yield Case(f"{field}: decimals", _raw(**{field: "0." + "1" * SIZE}))
        yield Case(f"{field}: exponent", _raw(**{field: "1e" + "9" * 300}))
    yield Case("token", _raw(tokens=f"[{'1' * SIZE}]", input=f"[{'1' * SIZE}]"))


LISTS = ("messages", "tools", "input", "prompt", "stop", "documents", "tokens", "content", "options", "tool_choice")


def shapes(count: int) -> Iterator[Case]:
    """Yield lists and objects of about so many small values."""
    for field in LISTS:
        yield Case(f"{field}: objects", _raw(**{field: "[" + "{}," * (count - 1) + "{}]"}))
        yield Case(f"{field}: numbers", _raw(**{field: "[" + "1," * (count - 1) + "1]"}))
        yield Case(f"{field}: texts", _raw(**{field: "[" + '"",' * (count - 1) + '""]'}))
        keys = ",".join(f'"{number}":1' for number in range(count // 4))
        yield Case(f"{field}: keys", _raw(**{field: "{" + keys + "}"}))
        yield Case(f"{field}: depth", _raw(**{field: "[" * min(count, SIZE) + "]" * min(count, SIZE)}))
    yield Case("messages: whole", _with(messages=[_message()] * (count // 8)))
    yield Case("tools: whole", _with(tools=[_tool()] * (count // 16)))
    yield Case("bias", _with(logit_bias={str(number): 1 for number in range(count // 4)}))


def schemas() -> Iterator[Case]:
    """Yield what is hard to hold an answer to."""
    pattern = {"type": "string", "pattern": "(a|b){1,9}" * 200}
    many = {"type": "object", "properties": {f"p{number}": pattern for number in range(500)}}
    yield Case("patterns", _with(json_schema=many))
    yield Case("patterns of tools", _with(tools=[_tool(parameters=many)]))
    for name, text in (("literals", "[a" * SIZE), ("texts", '"a' * SIZE), ("ends", "[" * SIZE + "\\")):
        yield Case(f"grammar: {name}", _with(grammar=text))
    yield Case("counts", _with(json_schema={"minItems": 1, "x": [{"maxItems": 3}] * 5000}))


def bodies() -> Iterator[Case]:
    """Yield what is no JSON, or hardly."""
    for name, body in {
        "empty": b"",
        "null": b"null",
        "list": b"[]",
        "no text": b"\xff" * SIZE,
        "half": b'{"model":"' + b"a" * SIZE,
        "surrogates": b'{"model":"' + b"\\ud800" * (SIZE // 6) + b'"}',
        "escapes": b'{"model":"guide","x":"' + b"\\u0041" * (SIZE // 6) + b'"}',
        "blanks": b" " * SIZE,
        "twice": b'{"model":"guide",' + b'"model":"guide",' * 2000 + b'"a":1}',
        "names": b"{" + b",".join(b'"%d":1' % number for number in range(4000)) + b"}",
    }.items():
        yield Case(f"body: {name}", body)


def small_cases() -> list[Case]:
    """Return the cases that go to every address."""
    return [*fields_of_texts(), *places_of_texts(), *numbers(), *shapes(2_000), *schemas(), *bodies()]


def large_cases() -> Iterator[Case]:
    """Yield large cases one at a time, since together they would fill the memory."""
    millions = 5_000_000
    yield Case("15 MB of objects", _raw(tools="[" + "{}," * millions + "{}]"))
    yield Case("15 MB of numbers", _raw(input="[" + "1," * millions + "1]"))
    yield Case("15 MB of texts", _raw(stop="[" + '"",' * millions + '""]'))
    yield Case("a million names", _raw(options="{" + ",".join(f'"{number}":1' for number in range(10**6)) + "}"))
    just_allowed = 90_000
    yield Case("as many objects as are read", _raw(tools="[" + "{}," * just_allowed + "{}]"))
    yield Case("as many numbers as are read", _raw(input="[" + "1," * 4 * just_allowed + "1]"))
    for name in ("letters", "quotes", "accents", "blocks"):
        text = TEXTS[name](400_000)
        yield Case(f"content: {name}", _with(messages=[_message(content=text)], prompt=text, input=text, content=text))
    yield Case("model: colons", _with(model="a::" * 1_000_000))
    yield Case("schema: braces in a text", _with(json_schema={"description": "{[," * 1_000_000}))
    yield Case("grammar", _with(grammar="[a" * 1_000_000))


class Worst(NamedTuple):
    """A request that once took seconds to minutes, made when it is sent."""

    path: str
    body: Callable[[], bytes] = lambda: b""
    headers: tuple[tuple[str, bytes], ...] = ()

    def case(self) -> Case:
        """Return it as a case of the corpus."""
        return Case(self.path, self.body(), self.headers)


def _patterns() -> bytes:
    properties = {f"p{number}": {"pattern": f"{number}(a|b){{1,9}}" * 200} for number in range(2000)}
    return _with(json_schema={"type": "object", "properties": properties})


_CHAT, _CREATE, _LIST = "/v1/chat/completions", "/api/create", "/v1/models"
_RECORDING = "/v1/audio/transcriptions"
_FORM = (("Content-Type", b"multipart/form-data; boundary=x"),)


def _form(head: bytes) -> bytes:
    """Return a form of parts with this head, as many as are read in the event loop."""
    return (b"--x\r\n" + head[:8_000] + b"\r\n\r\n\r\n") * 31 + b"--x--"


WORST = {
    "a form of boundaries": Worst(_RECORDING, lambda: b"--x\r\n" * 40_000, _FORM),
    "a form without an end": Worst(_RECORDING, lambda: b"--x\r\n\r\n" + b"\r\n--" * 60_000, _FORM),
    "a form of large boundaries": Worst(_RECORDING, lambda: b"--x\r\n\r\n\r\n" * 3_000_000, _FORM),
    "a form of blanks": Worst(_RECORDING, lambda: _form(b"content-disposition:" + b" " * 7_000), _FORM),
    "a form of heads": Worst(_RECORDING, lambda: _form(b"content-disposition:\r\n" * 400), _FORM),
    "a form of parameters": Worst(
        _RECORDING, lambda: _form(b"content-disposition: form-data" + b';a="' * 2_000), _FORM
    ),
    "a form of escapes": Worst(
        _RECORDING, lambda: _form(b'content-disposition: form-data; a="' + b"\\\\" * 4_000), _FORM
    ),
    "a name of 30 kB": Worst(_CHAT, lambda: _with(model="a" * 30_000)),
    "a name of 1 MB": Worst(_CHAT, lambda: _with(model="a" * 1_000_000)),
    "a name of colons": Worst(_CHAT, lambda: _with(model="a::" * 10_000)),
    "a name of brackets": Worst(_CHAT, lambda: _with(model="[/" * 15_000)),
    "a name of digits": Worst(_CHAT, lambda: _with(model="1" * 30_000)),
    "a time without a unit": Worst("/api/chat", lambda: _with(keep_alive="1" * 20_000)),
    "a time without a unit, in OpenAI's dialect": Worst(_CHAT, lambda: _with(keep_alive="1" * 20_000)),
    "a time of 20,000 digits": Worst(_CHAT, lambda: _raw(ttl="1" * 20_000)),
    "a grammar that opens brackets": Worst(_CHAT, lambda: _with(grammar="[" * 20_000)),
    "two thousand patterns": Worst(_CHAT, _patterns),
    "a template of blanks": Worst(_CREATE, lambda: _with(model="made", template="{{" + " " * 700 + "x")),
    "a template of many blanks": Worst(_CREATE, lambda: _with(model="made", template="{{" + " " * 20_000 + "x")),
    "a template of lines": Worst(_CREATE, lambda: _with(model="made", template="{{-" + " \n" * 800)),
    "a template of blocks": Worst(_CREATE, lambda: _with(model="made", template="{%" * 800)),
    "15 MB of objects": Worst(_CHAT, lambda: _raw(tools="[" + "{}," * 5_000_000 + "{}]")),
    "a Host of colons": Worst(_LIST, headers=(("Host", b"[" + b":" * 7_800),)),
    "a Host of letters": Worst(_LIST, headers=(("Host", b"a" * 7_800),)),
    "an Origin of letters": Worst(_LIST, headers=(("Origin", b"http://" + b"a" * 7_800),)),
    "a User-Agent of parentheses": Worst(_CHAT, lambda: b"{}", headers=(("User-Agent", b"(" * 7_800),)),
}


def cases_of(kind: object) -> Iterator[Case]:
    """Yield bodies that can be decoded as a type of ours, each with a hostile text in one of its fields."""
    about = inspect.type_info(kind)
    if not isinstance(about, inspect.StructType):
        return
    plain = _sample_of(about)
    for field in about.fields:
        kinds = field.type.types if isinstance(field.type, inspect.UnionType) else (field.type,)
        for name in ("letters", "colons", "slashes", "blanks"):
            text = TEXTS[name](SIZE)
            value = [text] if any(isinstance(inner, inspect.ListType) for inner in kinds) else text
            body = msgspec.json.encode({**plain, field.encode_name: value})
            yield Case(f"{field.encode_name}: {name}", body)


def _sample_of(about: inspect.Type) -> Any:  # noqa: ANN401, PLR0911 -- a value of each type there is
    """Return a plain value of a type."""
    match about:
        case inspect.StructType(fields=fields):
            return {field.encode_name: _sample_of(field.type) for field in fields if field.required}
        case inspect.UnionType(types=types):
            return _sample_of(types[0])
        case inspect.EnumType(cls=cls):
            return next(iter(cls)).value
        case inspect.LiteralType(values=values):
            return values[0]
        case inspect.BoolType():
            return False
        case inspect.IntType() | inspect.FloatType():
            return 1
        case inspect.StrType():
            return "x"
        case inspect.DictType():
            return {}
        case inspect.ListType() | inspect.VarTupleType():
            return []
        case _:
            return None


HEADER_SIZE = 7_900
"""Below the 8,190 bytes that aiohttp reads of a line."""
_OTHERS = (
    *("User-Agent", "Accept", "Content-Type", "Cookie", "X-Api-Key", "Access-Control-Request-Headers"),
    *("Sec-Fetch-Site", "OpenAI-Beta", "anthropic-version", "anthropic-beta", "traceparent", "Range", "If-None-Match"),
)
_TOGETHER = ("Authorization", "Forwarded", "X-Forwarded-For", "Via")


def header_cases() -> list[Case]:
    """Return requests whose heads are hostile."""
    cases = []
    for name, make in TEXTS.items():
        text = make(HEADER_SIZE).encode("utf-8")[:HEADER_SIZE].replace(b"\n", b" ").replace(b"\x01", b"x")
        cases += [Case(f"{header}: {name}", b"{}", ((header, text),)) for header in ("Host", "Origin")]
        cases.append(Case(f"other headers: {name}", b"{}", tuple((header, text) for header in _OTHERS)))
        known_headers = tuple((header, b"Bearer " + text[:-7]) for header in _TOGETHER)
        cases.append(Case(f"keys and proxies: {name}", b"{}", (("Content-Encoding", text[:200]), *known_headers)))
    return cases


def hostile_names() -> list[str]:
    """Return what stands in an address in place of a name."""
    return [
        "a%3A%3A" * 1000,
        "%5B%2F" * 1200,
        "1" * 7000,
        "%2e%2e%2f" * 700,
        "%20" * 2000 + "x",
        "%25" * 2000,
        "sha256%3A" + "0" * 6000,
        "%EF%B7%BA" * 700,
    ]
