"""What is passed on to strangers tells no secret, no prompt and nobody's whereabouts, and still what went wrong."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from app.gateway.watching.bundle import LEFT_OUT, Scrubber
from app.hardware.redaction import PrivateNames

TOKEN = "7kq9-the-token-of-the-port-file"
SCRUBBER = Scrubber(
    secrets=[TOKEN],
    folders={"/srv/ada": "~", "/srv/ada/models": "<models 1>", "/": "(all)", "": "(none)"},
    private=PrivateNames(users=["lovelace"], hosts=["analytical.example", "analytical"]),
)


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        (f"port file has {TOKEN}.", TOKEN),
        ("key rh-abcDEF0123456789_-abcDEF refused", "abcDEF0123456789"),
        ("token hf_abcdefghijklmnop is invalid", "abcdefghijklmnop"),
        ("Authorization: Bearer abc.def-ghi_jkl", "abc.def-ghi_jkl"),
        ("authorization: basic dXNlcjpwYXNz", "dXNlcjpwYXNz"),
        ('{"api_key": "0123456789abcdef"}', "0123456789abcdef"),
        ("LLAMA_API_KEY=0123456789abcdef", "0123456789abcdef"),
        ("GET /x?access_token=0123456789abcdef&b=1", "0123456789abcdef"),
        ("Cookie: session=0123456789abcdef", "0123456789abcdef"),
        ("password = 'correct-horse'", "correct-horse"),
        ("proxy http://ada:pass@proxy.example:3128/", "pass"),
        ("said lovelace@analytical.example", "lovelace"),
        ("mail to countess@example.org, please", "countess"),
        ("from 192.168.1.23:51000", "192.168.1.23"),
        ("from [fe80::1ff:fe23:4567:890a%eth0]:80", "4567"),
        ("peer 2001:db8::8a2e:370:7334 left", "370:7334"),
        ("cannot read /home/lovelace/secret.gguf", "lovelace"),
        (r"cannot read C:\Users\Ada L\x.gguf", "Ada L"),
        ("read /srv/ada/models/a.gguf", "ada"),
        ("open /mnt/hidden/x/b.gguf failed", "hidden"),
        (r"open D:\hidden\b.safetensors", "hidden"),
        ("host analytical up", "analytical"),
    ],
)
def test_what_is_private_is_replaced(text: str, secret: str) -> None:
    assert secret in text
    assert secret not in SCRUBBER.scrub_text(text)
    assert secret not in SCRUBBER.engine_line(text)
    assert secret not in str(SCRUBBER.scrub_value({"a": [text]}))


@pytest.mark.parametrize(
    "text",
    [
        "Listening at http://127.0.0.1:11434 and [::1]:11434, not 0.0.0.0",
        "took 12:34:56 of 01:02",
        "llama.cpp b7000, driver 31.0.15.5222, CUDA 12.4",
        "EOS token        = 2 '</s>'",
        "llama_kv_cache: size = 256.00 MiB (  8192 cells,  32 layers,  4/1 seqs)",
        "slot 0: n_prompt_tokens = 1204, prompt eval time = 61.20 ms / 1204 tokens",
        "The model does not fit: 23.5 GiB are needed, 8.1 GiB are free.",
        "std::runtime_error::what()",
    ],
)
def test_what_tells_what_went_wrong_stays(text: str) -> None:
    assert SCRUBBER.scrub_text(text) == text
    assert SCRUBBER.engine_line(text) == text


@pytest.mark.parametrize(
    "line",
    [
        "INFO Received request cmpl-1: prompt: 'tell me of the treasure', params: SamplingParams(n=1)",
        "{'prompt': 'tell me of the treasure'}",
        'srv  parse: {"messages":[{"role":"user","content":"the treasure"}]}',
        'content="the treasure"',
        "Input: `the treasure`",
        "text = ['the', ' treasure']",
        'generated_text: "treasure"',
    ],
)
def test_words_that_an_engine_logs_are_left_out(line: str) -> None:
    assert "treasure" not in SCRUBBER.engine_line(line)
    assert SCRUBBER.engine_line(line).endswith(LEFT_OUT)


@given(st.text())
@example("::::")
@example("%" * 50)
def test_any_text_is_taken_and_cleaning_again_changes_nothing_more(text: str) -> None:
    once = SCRUBBER.engine_line(text)
    assert SCRUBBER.engine_line(once) == once


@given(st.text(max_size=20), st.text(max_size=20))
def test_a_known_secret_is_gone_wherever_it_stands(before: str, after: str) -> None:
    assert TOKEN not in SCRUBBER.scrub_text(before + TOKEN + after)


@pytest.mark.slow
def test_long_lines_cost_little() -> None:
    """Patterns that try every way to match would take minutes: an engine may write a tensor into its log."""
    for piece in ("a.", "key", "1.", ":0", "\"'", "://", "@", "/a", "/"):
        SCRUBBER.engine_line(piece * 20_000)
