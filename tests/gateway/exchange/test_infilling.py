"""The middle of a text with all that is around it, in front of a played engine that tokenises letter by letter."""

import json
from typing import Any

import pytest
from aiohttp import web

from tests.gateway.played import Gateway

FIRST, BEFORE, AFTER, GAP, REPOSITORY, FILE = range(1000, 1006)
NAMES = {"<s>": FIRST, "<pre>": BEFORE, "<suf>": AFTER, "<mid>": GAP, "<|repo_name|>": REPOSITORY, "<|file_sep|>": FILE}
LONG = "x" * 1600
"""More than three quarters of llama.cpp's batch."""


class Speller:
    """llama-server, as far as middles are concerned. `evaluated_tokens` is how many tokens it says nothing is."""

    def __init__(
        self, *, evaluated_tokens: int = 4, names: dict[str, int] = NAMES, nothing: str = "<s><pre><suf><mid>"
    ) -> None:
        self.evaluated_tokens, self.names, self.nothing = evaluated_tokens, names, nothing
        self.requests: list[tuple[str, dict[str, Any]]] = []

    async def play(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        self.requests.append((request.path, body))
        if request.path == "/tokenize":
            return web.json_response({"tokens": self.tokens(body)})
        nothing = {"prompt": self.nothing, "tokens_evaluated": self.evaluated_tokens}
        return web.json_response({"content": "x", "stop": True, **nothing})

    def tokens(self, body: dict[str, Any]) -> list[int]:
        token_ids = [FIRST] if body["add_special"] else []
        for part in body["content"]:
            token_ids += [part] if isinstance(part, int) else self.spelt(part, reads_marks=body["parse_special"])
        return token_ids

    def spelt(self, text: str, *, reads_marks: bool) -> list[int]:
        if not text:
            return []
        name = next((name for name in self.names if text.startswith(name)), "") if reads_marks else ""
        token = self.names[name] if name else ord(text[0])
        return (
            [token, *self.spelt(text[len(name) or 1 :], reads_marks=reads_marks)]
            if len(text) < 100
            else [ord(letter) for letter in text]
        )


def plays(gateway: Gateway, engine: Speller) -> Speller:
    gateway.upstream.play, gateway.upstream.key = engine.play, f"key-{id(engine)}"
    return engine


async def post(gateway: Gateway, path: str = "/infill", **body: object) -> tuple[int, Any]:
    async with gateway.http.post(gateway.url + path, json={"model": "guide", **body}) as reply:
        return reply.status, await reply.json(content_type=None)


def spelt(*parts: str | int) -> list[int]:
    return [token for part in parts for token in ([part] if isinstance(part, int) else map(ord, part))]


async def test_what_is_short_goes_as_it_came(gateway: Gateway) -> None:
    engine = plays(gateway, Speller())
    assert (await post(gateway, input_prefix="x" * 1500, input_suffix="y" * 500))[0] == 200
    assert [path for path, _ in engine.requests] == ["/infill"]


@pytest.mark.parametrize(
    ("around", "tokens"),
    [
        ({"input_prefix": LONG, "input_suffix": "<mid>"}, (BEFORE, LONG, AFTER, "<mid>", GAP)),
        ({"input_prefix": "", "input_suffix": "y" * 520}, (BEFORE, AFTER, "y" * 520, GAP)),
        ({"input_prefix": LONG, "input_suffix": "y", "prompt": "a<s>"}, (BEFORE, LONG, "a", FIRST, AFTER, "y", GAP)),
    ],
)
async def test_what_is_long_is_written_out(gateway: Gateway, around: dict[str, str], tokens: tuple[str | int]) -> None:
    engine = plays(gateway, Speller())
    assert (await post(gateway, **around, n_predict=3))[0] == 200
    path, body = engine.requests[-1]
    written_prompt = spelt(REPOSITORY, "myproject\n", FILE, "filename\n", FIRST, *tokens)
    assert (path, body) == ("/completion", {"model": "guide", "n_predict": 3, "prompt": written_prompt})


async def test_other_files_come_first_and_marks_are_asked_for_once(gateway: Gateway) -> None:
    engine = plays(gateway, Speller(names={name: NAMES[name] for name in ("<s>", "<pre>", "<suf>", "<mid>")}))
    extra = [{"filename": "a.py", "text": "one"}, {"text": "two"}]
    for _ in range(2):
        await post(gateway, input_prefix="p", input_suffix="s", input_extra=extra)
    snippet = "\n\n--- snippet ---\n\n"
    written_prompt = spelt(snippet, "one", snippet, "two", FIRST, BEFORE, "p", AFTER, "s", GAP)
    assert engine.requests[-1][1]["prompt"] == written_prompt
    assert [path for path, _ in engine.requests].count("/infill") == 1
    named_plays = plays(gateway, Speller())
    await post(gateway, input_prefix="p", input_suffix="s", input_extra=extra)
    files = spelt(REPOSITORY, "myproject\n", FILE, "a.py\none", FILE, "tmp\ntwo", FILE, "filename\n")
    assert named_plays.requests[-1][1]["prompt"][: len(files)] == files


async def test_completions_and_generate_are_written_out_too(gateway: Gateway) -> None:
    engine = plays(gateway, Speller())
    status, answer = await post(gateway, "/v1/completions", prompt=LONG, suffix="y", max_tokens=3)
    assert (status, answer["object"], engine.requests[-1][0]) == (200, "text_completion", "/completion")


@pytest.mark.parametrize(
    ("around", "counts"),
    [
        ({"input_prefix": LONG, "input_suffix": ""}, "1536 tokens before the gap, and there are 1600"),
        ({"input_prefix": "", "input_suffix": "y" * 520}, "510 tokens after the gap, and there are 520"),
        (
            {"input_prefix": "", "input_suffix": "y" * 505, "prompt": "z" * 10},
            "500 tokens after the gap, and there are 505",
        ),
        (
            {"input_prefix": "", "input_suffix": "", "input_extra": [{"text": "abc"}]},
            "0 tokens in other files, and there are 3",
        ),
    ],
)
async def test_what_cannot_be_written_out_is_refused_with_counts(
    gateway: Gateway, around: dict[str, Any], counts: str
) -> None:
    engine = plays(gateway, Speller(evaluated_tokens=5))
    status, answer = await post(gateway, **around)
    assert (status, answer["error"]["code"]) == (400, "context_length_exceeded")
    assert counts in answer["error"]["message"]
    engine.requests.clear()
    assert (await post(gateway, input_prefix="\u00e4" * 800, input_suffix=""))[0] == 200
    assert engine.requests[-1][0] == "/infill"


async def test_what_is_too_little_for_three_marks_is_none(gateway: Gateway) -> None:
    plays(gateway, Speller(evaluated_tokens=2, nothing="<pre><mid>"))
    status, answer = await post(gateway, input_prefix=LONG, input_suffix="")
    assert (status, answer["error"]["code"]) == (400, "context_length_exceeded")


async def test_a_model_without_marks_is_refused_by_its_engine(gateway: Gateway) -> None:
    async def play(_request: web.Request) -> web.StreamResponse:
        error = {"code": 501, "message": "Infill is not supported by this model: prefix token is missing."}
        return web.json_response({"error": error}, status=501)

    gateway.upstream.play, gateway.upstream.key = play, "key-none"
    status, answer = await post(gateway, input_prefix=LONG, input_suffix="")
    assert (status, answer["error"]["code"]) == (400, "model_cannot")
    assert [json.loads(body)["input_prefix"] for body in gateway.upstream.bodies] == ["", LONG]
