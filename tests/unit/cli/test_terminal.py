"""What steers a terminal is taken out of whatever is printed; our own colours and progress stay."""

import io
import json
import subprocess
import sys

import click
import pytest

from app.cli.terminal import CleanStream, clean, escape_json


@pytest.mark.parametrize(
    ("text", "clean_text"),
    [
        ("plain text, ümläut, 日本語, 👩‍🚀\tand\nlines", "plain text, ümläut, 日本語, 👩‍🚀\tand\nlines"),
        ("\x1b]52;c;cm0gLXJm\x07pwned", "\\x1b]52;c;cm0gLXJmpwned"),
        ("\x1b[2Jgone", "\\x1b[2Jgone"),
        ("\x9b2Jgone", "2Jgone"),
        ("\x1b]0;title\x1b\\", "\\x1b]0;title\\x1b\\"),
        ("over\rwritten", "overwritten"),
        ("two\r\nlines", "two\nlines"),
        ("annexe\u202egpj.exe", "annexegpj.exe"),
        ("bell\x07 back\x08space nul\x00", "bell backspace nul"),
        ("\x1b[8mhidden\x1b[0m", "\\x1b[8mhidden\x1b[0m"),
        ("\x1b[31;1;2;3;4;5mx", "\\x1b[31;1;2;3;4;5mx"),
    ],
)
def test_what_steers_is_not_written(text: str, clean_text: str) -> None:
    assert clean(text) == clean_text


def test_json_keeps_all_it_says() -> None:
    text = json.dumps({"name": "annexe\u202egpj\x9b.exe"}, ensure_ascii=False)
    assert json.loads(clean(escape_json(text))) == json.loads(text)


def test_our_own_colours_stay() -> None:
    text = click.style("red", fg="red", bold=True) + click.style("dim", dim=True)
    assert clean(text) == text


def test_a_line_of_progress_begins_as_we_begin_it_and_nowhere_else() -> None:
    out = io.StringIO()
    CleanStream(out).write("\r\x1b[KLoading \r\x1b[K9 %")
    assert out.getvalue() == "\r\x1b[KLoading \\x1b[K9 %"


def test_a_sequence_in_pieces_is_none() -> None:
    out = io.StringIO()
    stream = CleanStream(out)
    for piece in ("\x1b", "[", "2", "J"):
        stream.write(piece)
    assert "\x1b" not in out.getvalue()


def test_the_program_prints_through_it() -> None:
    name = "no-\x1b]52;c;cm0=\x07such\u202e"
    for arguments in (["frobnicate" + name], ["completion", name], ["plan", "--machine", name]):
        process = subprocess.run(
            [sys.executable, "-m", "app.cli", *arguments], capture_output=True, encoding="utf-8", check=False
        )
        assert process.returncode == 2
        assert not {"\x1b", "\x07", "\u202e"} & {*process.stdout, *process.stderr}
