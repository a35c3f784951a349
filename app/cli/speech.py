"""`roundhouse transcribe` and `roundhouse speak`: from a recording to its words, and from words to a file of sound."""

import sys
from pathlib import Path

import click
import msgspec

from app.cli.gateway import connect_gateway
from app.cli.output import json_option, print_note, show_result
from app.config.paths import expand_path
from app.core.errors import BadRequest, EnvironmentFault
from app.core.recordings import SoundFile, write_form

_LONGEST_S = 3600.0
"""Of an answer: an hour of speech takes Whisper minutes on a processor, and a model may have to load first."""
_MOST_BYTES = 1 << 30
"""The largest upload that can be set (`gateway.max_body_mib`)."""
_SOUNDS = ("mp3", "wav", "opus", "flac", "aac", "pcm")
"""What OpenAI's route makes (`response_format`)."""


class _Words(msgspec.Struct, frozen=True):
    text: str


class SpeechReport(msgspec.Struct, frozen=True, kw_only=True):
    """What `speak` wrote."""

    path: str
    size_bytes: int


@click.command()
@click.argument("file", metavar="FILE")
@click.option("--model", default="auto", show_default=True, help="Model that transcribes; auto: the one in use.")
@click.option("--language", default="", help="Language that is spoken, such as en or de; without it the model tells.")
@click.option(
    "--format",
    "kind",
    type=click.Choice(["text", "json", "srt", "vtt"]),
    default="text",
    show_default=True,
    help="Plain text, versioned JSON, or subtitles where the endpoint tells times.",
)
@json_option
def transcribe(file: str, *, model: str, language: str, kind: str, as_json: bool) -> None:
    """Write down what is said in the recording FILE."""
    if as_json and kind in {"srt", "vtt"}:
        raise BadRequest("Subtitles cannot be printed as JSON.", hint="Leave out --json, or --format.", code="usage")
    wish = kind if kind in {"srt", "vtt"} else "json"
    fields = [("model", model), ("response_format", wish), *([("language", language)] if language else [])]
    form = write_form(fields, SoundFile(_read_recording(file)))
    answer = connect_gateway().post("/v1/audio/transcriptions", form, bytes, timeout_s=_LONGEST_S)
    text = answer.decode("utf-8", "replace") if wish != "json" else _text_in(answer)
    show_result("transcript", _Words(text), as_json=as_json or kind == "json", text=lambda words: [words.text.strip()])


@click.command()
@click.argument("text", nargs=-1)
@click.option(
    "--out", required=True, metavar="FILE", help=f"Where the sound goes; its ending says which: {', '.join(_SOUNDS)}."
)
@click.option("--model", default="auto", show_default=True, help="Model that speaks; auto is the one in use that can.")
@click.option("--voice", default="alloy", show_default=True, help="Voice, as the endpoint calls it.")
@json_option
def speak(text: tuple[str, ...], *, out: str, model: str, voice: str, as_json: bool) -> None:
    """Have TEXT read aloud into a file. Without TEXT, standard input is read."""
    target, words = expand_path(out), " ".join(text) or ("" if sys.stdin.isatty() else sys.stdin.read())
    kind = target.suffix.removeprefix(".").lower()
    if kind not in _SOUNDS:
        raise BadRequest(f"{out} does not end in {', '.join(_SOUNDS[:-1])} or {_SOUNDS[-1]}.", code="usage")
    if not words.strip():
        raise BadRequest("There is nothing to read aloud.", hint="Write the text after the command.", code="usage")
    request = {"model": model, "input": words, "voice": voice, "response_format": kind}
    sound = connect_gateway().post("/v1/audio/speech", request, bytes, timeout_s=_LONGEST_S)
    _write_sound(target, sound)
    report = SpeechReport(path=str(target), size_bytes=len(sound))
    if not as_json:
        print_note(f"{target} was written ({len(sound):,} bytes).")
    show_result("speech", report, as_json=as_json, text=lambda _: [])


def _read_recording(path: str) -> bytes:
    file = expand_path(path)
    try:
        if file.stat().st_size > _MOST_BYTES:
            raise BadRequest(f"{path} is larger than {_MOST_BYTES >> 20} MiB.", hint="Cut it, or save it as MP3.")
        content = file.read_bytes()
    except OSError as error:
        raise EnvironmentFault(
            f"{path} cannot be read: {error.strerror or error}.", hint="Check the path.", code="file_unreadable"
        ) from error
    if not content:
        raise BadRequest(f"{path} is empty.", code="file_empty")
    return content


def _text_in(answer: bytes) -> str:
    try:
        return msgspec.json.decode(answer, type=_Words).text
    except msgspec.MsgspecError as error:
        raise EnvironmentFault("The endpoint sent no transcript.", detail=str(error), code="engine_nonsense") from error


def _write_sound(target: Path, sound: bytes) -> None:
    """Write a file whole or not at all. Raises EnvironmentFault."""
    draft = target.with_name(f"{target.name}.part")
    try:
        draft.write_bytes(sound)
        draft.replace(target)
    except OSError as error:
        draft.unlink(missing_ok=True)
        raise EnvironmentFault(
            f"{target} cannot be written: {error.strerror or error}.",
            hint="Choose another place.",
            code="file_unwritable",
        ) from error
