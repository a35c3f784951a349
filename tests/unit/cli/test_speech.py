"""Transcribing and speaking from the command line: what is asked, what is written, and what is wrong with a file."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from app.cli import main, speech
from app.core.errors import BadRequest
from app.core.recordings import SILENCE, FormContent
from app.gateway.entry.forms import UploadForm, read_form


class Gateway:
    """Notes what it is asked."""

    def __init__(self) -> None:
        self.forms: list[UploadForm] = []
        self.requests: list[dict[str, Any]] = []
        self.answer = b'{"text":" Forty locomotives. ","usage":{}}'

    def post(self, path: str, body: object, reply: type[bytes], *, timeout_s: float) -> bytes:
        assert reply is bytes
        assert timeout_s > 60
        if isinstance(body, FormContent):
            assert path == "/v1/audio/transcriptions"
            self.forms.append(read_form(body.body, body.content_type))
            return self.answer
        assert path == "/v1/audio/speech"
        assert isinstance(body, dict)
        self.requests.append(body)
        if body["voice"] == "nobody":
            raise BadRequest("There is no such voice.")
        return b"ID3sound"


@pytest.fixture
def gateway(monkeypatch: pytest.MonkeyPatch) -> Gateway:
    played_gateway = Gateway()
    monkeypatch.setattr(speech, "connect_gateway", lambda: played_gateway)
    return played_gateway


@pytest.fixture
def audio_path(tmp_path: Path) -> str:
    file = tmp_path / "note.wav"
    file.write_bytes(SILENCE)
    return str(file)


def run(*arguments: str, stdin: str = "") -> Any:  # noqa: ANN401 -- click's
    return CliRunner().invoke(main.roundhouse, arguments, input=stdin)


def test_a_recording_becomes_its_words(gateway: Gateway, audio_path: str) -> None:
    result = run("transcribe", audio_path, "--model", "whisper", "--language", "de")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "Forty locomotives.\n", "")
    (form,) = gateway.forms
    assert form.fields == [("model", "whisper"), ("response_format", "json"), ("language", "de")]
    assert bytes(form.recording.content) == SILENCE
    for options in (["--format", "json"], ["--json"]):
        result = run("transcribe", audio_path, *options)
        assert json.loads(result.stdout) == {"version": 1, "transcript": {"text": " Forty locomotives. "}}


def test_subtitles_are_written_as_they_come(gateway: Gateway, audio_path: str) -> None:
    gateway.answer = b"WEBVTT\n\n00:00.000 --> 00:01.000\nForty\n"
    result = run("transcribe", audio_path, "--format", "vtt")
    assert result.stdout.startswith("WEBVTT\n\n00:00.000 --> 00:01.000\nForty")
    assert gateway.forms[0].find("response_format") == "vtt"


def test_a_bad_recording_is_a_sentence(gateway: Gateway, audio_path: str, tmp_path: Path) -> None:
    empty = tmp_path / "empty.wav"
    empty.touch()
    for arguments, words, code in (
        ([str(tmp_path / "none.wav")], "cannot be read: No such file", 1),
        ([str(empty)], "is empty", 2),
        ([audio_path, "--format", "srt", "--json"], "Subtitles cannot be printed as JSON", 2),
        ([audio_path, "--format", "film"], "is not one of", 2),
    ):
        result = run("transcribe", *arguments)
        assert words in result.stderr
        assert result.exit_code == code
    assert not gateway.forms
    gateway.answer = b"<html>"
    assert "sent no transcript" in run("transcribe", audio_path).stderr


def test_a_text_becomes_a_file_of_sound(gateway: Gateway, tmp_path: Path) -> None:
    file = tmp_path / "hello.mp3"
    result = run("speak", "Hello", "there", "--out", str(file), "--voice", "af_sky")
    assert (result.exit_code, file.read_bytes()) == (0, b"ID3sound")
    assert gateway.requests == [
        {"model": "auto", "input": "Hello there", "voice": "af_sky", "response_format": "mp3"}
    ]  # fmt: skip
    result = run("speak", "--out", str(file), "--json", stdin="From a pipe.")
    assert json.loads(result.stdout)["speech"] == {"path": str(file), "size_bytes": 8}
    assert gateway.requests[-1]["input"] == "From a pipe."


def test_what_cannot_be_spoken_is_a_sentence_and_leaves_no_file(gateway: Gateway, tmp_path: Path) -> None:
    file = tmp_path / "hello.mp3"
    for arguments, words in (
        (["Hello", "--out", "hello.txt"], "does not end in"),
        (["--out", str(file)], "nothing to read aloud"),
        (["Hello", "--out", str(file), "--voice", "nobody"], "no such voice"),
        (["Hello", "--out", str(tmp_path / "none" / "a.mp3")], "cannot be written"),
    ):
        result = run("speak", *arguments)
        assert result.exit_code != 0
        assert words in result.stderr
    assert not list(tmp_path.iterdir())
