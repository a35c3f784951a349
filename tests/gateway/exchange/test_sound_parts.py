"""Sound in messages, by every dialect's own client: sent on as one form, or refused in the dialect's words."""

import asyncio
import base64
from collections.abc import Awaitable, Callable
from typing import Any, Self, cast

import anthropic
import ollama
import openai
import pytest
from aiohttp import web
from google import genai
from google.genai import errors, types

from app.core.recordings import SILENCE
from tests.file_corpus import mp3_of
from tests.gateway.far import Far
from tests.gateway.played import Gateway

WAV, MP3 = SILENCE + b"\xfb\xff\xbe" * 9, mp3_of()
OGG = b"OggS\0\2" + bytes(90)
BYTES = {"wav": WAV, "mp3": MP3, "ogg": OGG}
Send = Callable[..., Awaitable[object]]
REFUSALS = (openai.BadRequestError, errors.ClientError, anthropic.BadRequestError, ollama.ResponseError)


def part_of(kind: str, content: bytes) -> dict[str, Any]:
    return {"type": "input_audio", "input_audio": {"data": base64.b64encode(content).decode(), "format": kind}}


class Clients:
    """Every dialect's client, and how it sends a sound."""

    def __init__(self, url: str) -> None:
        self.openai = openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="x", max_retries=0)
        self.google = genai.Client(api_key="x", http_options=types.HttpOptions(base_url=url))
        self.claude = anthropic.AsyncAnthropic(base_url=url, api_key="x", max_retries=0)
        self.ollama = ollama.AsyncClient(host=url)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self.openai.close()
        self.google.close()
        await self.claude.close()
        await cast("Any", self.ollama).close()

    async def chat(self, model: str, kind: str, content: bytes) -> object:
        content_parts: Any = [{"type": "text", "text": "What is said?"}, part_of(kind, content)]
        return await self.openai.chat.completions.create(
            model=model, messages=[{"role": "user", "content": content_parts}]
        )

    async def respond(self, model: str, kind: str, content: bytes) -> object:
        content_parts: Any = [{"type": "input_text", "text": "What is said?"}, part_of(kind, content)]
        return await self.openai.responses.create(model=model, input=[{"role": "user", "content": content_parts}])

    async def generate(self, model: str, kind: str, content: bytes) -> object:
        sound = types.Part.from_bytes(data=content, mime_type=f"audio/{kind}")
        return await self.generate_from(model, "What is said?", sound)

    async def generate_from(self, model: str, *contents: str | types.Part) -> object:
        return await asyncio.to_thread(self.google.models.generate_content, model=model, contents=cast("Any", contents))

    async def claude_message(self, model: str, kind: str, content: bytes) -> object:
        source = {"type": "base64", "media_type": f"audio/{kind}", "data": base64.b64encode(content).decode()}
        blocks = cast("Any", [{"type": "audio", "source": source}])
        return await self.claude.messages.create(
            model=model, max_tokens=9, messages=[{"role": "user", "content": blocks}]
        )

    async def ollama_chat(self, model: str, kind: str, content: bytes) -> object:  # noqa: ARG002 -- it has no place
        return await self.ollama.chat(
            model, messages=[{"role": "user", "content": "?", "images": [base64.b64encode(content).decode()]}]
        )

    async def ollama_generate(self, model: str, kind: str, content: bytes) -> object:  # noqa: ARG002 -- the same
        return await self.ollama.generate(model, "?", images=[base64.b64encode(content).decode()])


HEARING = pytest.mark.parametrize("way", ["chat", "respond", "generate"])
DEAF = pytest.mark.parametrize("way", ["claude_message", "ollama_chat", "ollama_generate"])


async def refuses_sound(_request: web.Request) -> web.StreamResponse:
    """Answer as llama-server does for a model without an encoder of sound."""
    message = "audio input is not supported - hint: if this is unexpected, you may need to provide the mmproj"
    return web.json_response({"error": {"code": 500, "message": message, "type": "server_error"}}, status=500)


async def send_by(url: str, way: str, *sound: str | bytes) -> None:
    async with Clients(url) as clients:
        await cast("Send", getattr(clients, way))(*sound)


@pytest.mark.slow(cases=1)
@HEARING
@pytest.mark.parametrize("kind", ["wav", "mp3"])
async def test_a_sound_goes_to_an_endpoint_as_openais_part(near: Gateway, far: Far, way: str, kind: str) -> None:
    await send_by(near.url, way, "distant", kind, BYTES[kind])
    content = far.posts[-1][1]["messages"][-1]["content"]
    assert [part["type"] for part in content] == ["text", "input_audio"]
    assert content[1]["input_audio"] == {"format": kind, "data": base64.b64encode(BYTES[kind]).decode()}


@pytest.mark.slow(cases=1)
@HEARING
async def test_a_model_that_cannot_hear_is_a_typed_error(gateway: Gateway, way: str) -> None:
    gateway.upstream.play = refuses_sound
    with pytest.raises(REFUSALS) as refusal:
        await send_by(gateway.url, way, "guide", "wav", WAV)
    assert getattr(refusal.value, "status_code", getattr(refusal.value, "code", 0)) == 400
    document = getattr(refusal.value, "body", None) or getattr(refusal.value, "details", None)
    assert "unsupported_content" in str(document).lower()


@pytest.mark.slow(cases=1)
@pytest.mark.parametrize("way", ["respond", "generate"])
async def test_what_is_no_wav_or_mp3_is_refused_by_name(gateway: Gateway, way: str) -> None:
    for kind, content, words in (("ogg", OGG, "taken as wav or mp3"), ("wav", OGG, "no recording in WAV or MP3")):
        with pytest.raises(REFUSALS, match=words):
            await send_by(gateway.url, way, "guide", kind, content)
    assert gateway.upstream.bodies == []


@pytest.mark.slow(cases=1)
@DEAF
async def test_dialects_without_sound_say_so(near: Gateway, far: Far, way: str) -> None:
    with pytest.raises(REFUSALS) as refusal:
        await send_by(near.url, way, "distant", "wav", WAV)
    assert getattr(refusal.value, "status_code", 0) == 400
    words = "Input tag 'audio' found using 'type'" if way == "claude_message" else "audio input is not supported"
    assert words in str(refusal.value)
    assert far.posts == []


@pytest.mark.parametrize("field", ["audio", "audios", "input_audio"])
async def test_a_field_for_sound_that_ollama_lacks_is_not_passed_over(gateway: Gateway, field: str) -> None:
    message = {"role": "user", "content": "?", field: [base64.b64encode(WAV).decode()]}
    async with gateway.http.post(f"{gateway.url}/api/chat", json={"model": "guide", "messages": [message]}) as reply:
        assert reply.status == 400
        assert field in (await reply.json())["error"]


async def test_googles_client_sends_pictures_in_the_alphabet_of_addresses(near: Gateway, far: Far) -> None:
    content = b"\x89PNG\r\n\x1a\n\xfb\xff\xbe\xff\xfe"
    assert b"_" in base64.urlsafe_b64encode(content)
    picture = types.Part.from_bytes(data=content, mime_type="image/png")
    async with Clients(near.url) as clients:
        await clients.generate_from("distant", picture)
    part = far.posts[-1][1]["messages"][-1]["content"][0]
    assert part["image_url"]["url"] == f"data:image/png;base64,{base64.b64encode(content).decode()}"
