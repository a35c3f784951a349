"""A file in a question, answered by the real engine: by the command line, and in a chat."""

import io
import json
from pathlib import Path

import pytest
from openai import BadRequestError, OpenAI
from PIL import Image

from app.client.http import GatewayClient
from app.config.paths import Paths
from app.core.attachments import Attachment
from app.core.capabilities import Capability
from app.core.chats import AnswerDone, AnswerEvent, Chat, Message, NewChat, NewTurn, Sampling, Turn
from app.core.models import ModelInfo, RegisterModel
from tests.end_to_end.conftest import Roundhouse
from tests.file_corpus import wav_of
from tests.gguf_files import TinyLlama, projector_for, sound_projector_for

pytestmark = pytest.mark.real_engine

IMAGE_TOKENS = 16
LEAST_SOUND_TOKENS = 16
TEXT = "The roundhouse of Bern has a turntable, and keeps forty locomotives dry. " * 10


def prompt_tokens(roundhouse: Roundhouse, *arguments: str) -> int:
    result = roundhouse("run", "guide", "--json", "--max-tokens", "2", *arguments, "What is in it?")
    assert result.returncode == 0, result.stderr
    return int(json.loads(result.stdout)["answer"]["timings"]["prompt_tokens"])


def test_the_command_line_sends_files_along(roundhouse: Roundhouse, client: GatewayClient, tmp_path: Path) -> None:
    file = tmp_path / "bern.txt"
    file.write_text(TEXT, encoding="utf-8")
    assert prompt_tokens(roundhouse, "--file", str(file)) > prompt_tokens(roundhouse) + 150


@pytest.mark.slow
def test_the_command_line_says_what_is_wrong_with_a_file(
    roundhouse: Roundhouse, client: GatewayClient, tmp_path: Path
) -> None:
    broken_file, missing_file, picture = tmp_path / "a.pdf", tmp_path / "none.txt", tmp_path / "a.png"
    broken_file.write_bytes(b"%PDF-1.4 nothing")
    stream = io.BytesIO()
    Image.new("RGB", (9, 9)).save(stream, "PNG")
    picture.write_bytes(stream.getvalue())
    for arguments, words in (
        (("--file", str(broken_file)), "a.pdf: This PDF is damaged"),
        (("--file", str(missing_file)), "cannot be read"),
        (("--file", str(picture)), "cannot see pictures"),
        (("--image", str(picture)), "cannot see pictures"),
    ):
        result = roundhouse("run", "guide", *arguments, "What is it?")
        assert result.returncode != 0
        assert words in result.stderr
        assert not result.stdout


def picture_of(color: str) -> bytes:
    stream = io.BytesIO()
    Image.new("RGB", (32, 32), color).save(stream, "PNG")
    return stream.getvalue()


def ask_about(client: GatewayClient, picture: bytes) -> Message:
    attachment = client.post("/attachments?name=a.png", picture, Attachment)
    sampling = Sampling(temperature=0, max_tokens=24)
    chat = client.post("/chats", NewChat(model="sighted", sampling=sampling), Chat)
    return answer(client, chat, NewTurn(content="What is it?", attachments=[attachment.id]))


def test_a_model_that_sees_is_given_the_pixels(client: GatewayClient, home: Paths) -> None:
    """Its weights are made up, so what it writes is noise; but noise that follows from the picture alone."""
    folder = home.models / "sighted"
    folder.mkdir()
    TinyLlama().write(folder / "sighted.gguf")
    projector_for(TinyLlama(), folder / "mmproj-sighted-f16.gguf")
    client.post("/models", RegisterModel(path=str(folder / "sighted.gguf")), ModelInfo)
    (model,) = [item for item in client.get("/models", list[ModelInfo]) if item.name == "sighted"]
    assert Capability.VISION in model.capabilities
    red, blue, red_again = (ask_about(client, picture_of(color)) for color in ("red", "blue", "red"))
    assert red.content == red_again.content
    assert red.content != blue.content
    chat = client.post("/chats", NewChat(model="sighted", sampling=Sampling(max_tokens=2)), Chat)
    blind = answer(client, chat, NewTurn(content="What is it?"))
    assert blind.timings is not None
    assert red.timings is not None
    assert (red.timings.prompt_tokens or 0) >= (blind.timings.prompt_tokens or 0) + IMAGE_TOKENS


def ask_about_sound(client: GatewayClient, frequency: float) -> Message:
    attachment = client.post("/attachments?name=a.wav", wav_of(3.0, frequency=frequency), Attachment)
    sampling = Sampling(temperature=1, seed=7, max_tokens=24)  # the likeliest word is often the same for both
    chat = client.post("/chats", NewChat(model="hearing", sampling=sampling), Chat)
    return answer(client, chat, NewTurn(content="What is it?", attachments=[attachment.id]))


@pytest.mark.slow
def test_a_model_that_hears_is_given_the_sound(client: GatewayClient, home: Paths) -> None:
    """As above: made-up weights, and noise that follows from the sound alone."""
    pytest.importorskip("miniaudio", reason="it has no wheel for this processor")
    folder = home.models / "hearing"
    folder.mkdir(exist_ok=True)  # the other test of sounds may have been here
    TinyLlama().write(folder / "hearing.gguf")
    sound_projector_for(TinyLlama(), folder / "mmproj-hearing-f16.gguf")
    client.post("/models", RegisterModel(path=str(folder / "hearing.gguf")), ModelInfo)
    (model,) = [item for item in client.get("/models", list[ModelInfo]) if item.name == "hearing"]
    assert Capability.AUDIO in model.capabilities
    assert Capability.VISION not in model.capabilities
    low, high, low_again = (ask_about_sound(client, frequency) for frequency in (220.0, 3000.0, 220.0))
    assert low.content == low_again.content
    assert low.content != high.content
    chat = client.post("/chats", NewChat(model="hearing", sampling=Sampling(max_tokens=2)), Chat)
    deaf = answer(client, chat, NewTurn(content="What is it?"))
    assert deaf.timings is not None
    assert low.timings is not None
    assert (low.timings.prompt_tokens or 0) >= (deaf.timings.prompt_tokens or 0) + LEAST_SOUND_TOKENS


@pytest.mark.slow
def test_a_model_that_hears_transcribes_for_openais_client(client: GatewayClient, home: Paths) -> None:
    """Made-up weights again: what is written is noise, in the form of a transcript."""
    folder = home.models / "hearing"
    folder.mkdir(exist_ok=True)  # as above
    TinyLlama().write(folder / "hearing.gguf")
    sound_projector_for(TinyLlama(), folder / "mmproj-hearing-f16.gguf")
    client.post("/models", RegisterModel(path=str(folder / "hearing.gguf")), ModelInfo)
    (model,) = [item for item in client.get("/models", list[ModelInfo]) if item.name == "hearing"]
    assert Capability.TRANSCRIPTION in model.capabilities
    sound = ("a.wav", wav_of(1.0, frequency=440.0))
    with OpenAI(base_url=f"{client.gateway.url}/v1", api_key="any", max_retries=0, timeout=60) as api:
        more = {"max_tokens": "1"}  # is not let through: OpenAI has no such field
        whole = api.audio.transcriptions.create(model="auto", file=sound, temperature=0, extra_body=more)
        text = api.audio.transcriptions.create(model="hearing", file=sound, temperature=0, response_format="text")
        assert str(text) == whole.text != ""
        with pytest.raises(BadRequestError, match=r"srt on llama\.cpp"):
            api.audio.transcriptions.create(model="hearing", file=sound, response_format="srt")
        with pytest.raises(BadRequestError):
            api.audio.transcriptions.create(model="hearing", file=("a.wav", b"RIFFnothing"))


def answer(client: GatewayClient, chat: Chat, new: NewTurn) -> Message:
    turn = client.post(f"/chats/{chat.id}/turns", new, Turn)
    events = client.stream_events(f"/chats/{chat.id}/answers/{turn.answer.id}", AnswerEvent, timeout_s=60)
    last_event = next(event for event in events if isinstance(event, AnswerDone))
    assert last_event.message.status == "complete", last_event.message.error
    return last_event.message


def test_a_chat_is_answered_about_a_file(client: GatewayClient) -> None:
    attachment = client.post("/attachments?name=bern.txt", TEXT.encode(), Attachment)
    chat = client.post("/chats", NewChat(model="guide"), Chat)
    message = answer(client, chat, NewTurn(content="What is in it?", attachments=[attachment.id]))
    assert message.content
    assert message.timings is not None
    assert (message.timings.prompt_tokens or 0) > 150
    assert client.get(f"/attachments/{attachment.id}/content", bytes) == TEXT.encode()
