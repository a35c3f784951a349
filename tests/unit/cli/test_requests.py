"""`roundhouse requests` and `usage` as a person reads them."""

import click
import msgspec
from click.testing import CliRunner

from app.cli import main
from app.cli.requests import key_usage_lines, request_lines, usage_lines
from app.core.requests import KeyDay, Peer, RequestInfo, RequestState, Usage, UsageRow

DONE = RequestInfo(
    id="req_1",
    at=0.0,
    client="aider",
    peer=Peer.THIS_COMPUTER,
    dialect="openai",
    path="/v1/chat/completions",
    route="chat",
    model="guide",
    state=RequestState.DONE,
    queue_s=0.0,
    load_s=1.5,
    prefill_s=0.25,
    decode_s=2.0,
    total_s=3.75,
    tokens_per_s=38.2,
    prompt_tokens=12,
    completion_tokens=80,
)


def plain(lines: object) -> list[list[str]]:
    return [click.unstyle(line).split() for line in lines]  # type: ignore[attr-defined]


def test_a_request_is_a_line_with_its_times() -> None:
    head, line = plain(request_lines([DONE]))
    assert head[:4] == ["TIME", "CLIENT", "MODEL", "ROUTE"]
    assert " ".join(line[1:]) == "aider guide chat done 0.00 s 1.50 s 0.25 s 2.00 s 38 tok/s 12 + 80 -"


def test_it_says_what_the_cache_saved() -> None:
    warm = msgspec.structs.replace(DONE, prompt_tokens=31_020, cached_tokens=28_412, saved_s=38.0)
    assert "28,412 (saved 38" in " ".join(plain(request_lines([warm]))[1])


def test_the_columns_stand_below_their_heads() -> None:
    head, line = (click.unstyle(text) for text in request_lines([DONE]))
    assert head.index("QUEUE") == line.index("0.00 s")


def test_what_is_not_known_is_not_made_up() -> None:
    failed_request = msgspec.structs.replace(
        DONE, model="", route="", state=RequestState.FAILED, tokens_per_s=None, prompt_tokens=None, error="No."
    )
    line = " ".join(plain(request_lines([failed_request]))[1])
    assert "aider - /v1/chat/completions failed" in line
    assert line.endswith("- ? + 80 - No.")


def test_usage_is_a_table_for_each_time() -> None:
    row = UsageRow(
        client="aider", model="guide", requests=2, failed=1, prompt_tokens=1200, cached_tokens=0, completion_tokens=9
    )
    lines = plain(usage_lines(Usage(today=[], week=[row])))
    assert lines[:2] == [["Today"], ["Nothing", "yet."]]
    assert lines[-1] == ["aider", "guide", "2", "1", "1,200", "0", "9"]


def test_nothing_is_said_in_a_sentence() -> None:
    assert list(request_lines([])) == ["There have been no requests to the endpoint."]
    assert list(request_lines([], "nope")) == ["There have been no requests for 'nope'."]
    assert list(usage_lines(Usage(today=[], week=[]))) == ["There were no requests in the last seven days."]


def test_following_is_for_people() -> None:
    result = CliRunner().invoke(main.roundhouse, ["requests", "--follow", "--json"])
    assert (result.exit_code, "--follow writes text" in result.stderr) == (2, True)


def test_usage_of_keys_is_a_line_for_each_day_and_key() -> None:
    used_day = KeyDay(
        day="2026-11-26",
        key="ci",
        key_id="k1",
        requests=3,
        failed=1,
        held_back=2,
        prompt_tokens=1200,
        cached_tokens=5,
        completion_tokens=40,
    )
    revoked_day, none = (
        msgspec.structs.replace(used_day, is_revoked=True),
        msgspec.structs.replace(used_day, key="", key_id=""),
    )
    head, *lines = [" ".join(words) for words in plain(key_usage_lines([used_day, revoked_day, none]))]
    assert head == "DAY KEY REQUESTS FAILED HELD BACK PROMPT CACHED WRITTEN"
    assert lines == [
        "2026-11-26 ci 3 1 2 1,200 5 40",
        "2026-11-26 ci (revoked) 3 1 2 1,200 5 40",
        "2026-11-26 (no key) 3 1 2 1,200 5 40",
    ]
    assert list(key_usage_lines([])) == ["There were no requests in these days."]


def test_days_are_for_usage_by_key() -> None:
    for arguments, text in (
        (["--days", "3"], "--days is for usage by key"),
        (["--keys", "--days", "0"], "0 is not in"),
    ):
        result = CliRunner().invoke(main.roundhouse, ["usage", *arguments])
        assert result.exit_code
        assert text in result.output
