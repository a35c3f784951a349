"""Recordings, speech and pictures at the endpoint: OpenAI's client in front, an attached endpoint behind."""

import asyncio
import io
import json
from typing import Any

import openai
import pytest
from aiohttp import FormData, web

from app.core.capabilities import Capability
from app.core.models import AttachEndpoint
from app.core.recordings import SILENCE
from app.gateway.library.attached_endpoints import attach
from tests.gateway.exchange.test_attached_capabilities import can
from tests.gateway.far import Far
from tests.gateway.played import Gateway
from tests.patience import PATIENCE_S, until

pytestmark = pytest.mark.filterwarnings("ignore:deprecated:DeprecationWarning")
"""OpenAI's client says so of its older calls, which it still has."""
TRANSCRIPTIONS = "/v1/audio/transcriptions"
WORDS = "Forty locomotives stand in the roundhouse."
SOUND = b"ID3\x04" + bytes(range(256)) * 40
RECORDING = SILENCE + b"\r\n--not the end--\r\n" + b'",[{' * 150_000
"""More bytes than a JSON body may have quotes, and what looks like the end of a part."""


PLAIN = {
    "text": WORDS,
    "srt": "1\n00:00:00,000 --> 00:00:01,000\nForty\n",
    "vtt": "WEBVTT\n\n00:00.000 --> 00:01.000\nForty\n",
}
SEGMENT = {
    "id": 0,
    "seek": 0,
    "start": 0.0,
    "end": 1.5,
    "text": WORDS,
    "tokens": [1],
    "temperature": 0.0,
    "avg_logprob": -0.1,
    "compression_ratio": 1.0,
    "no_speech_prob": 0.0,
}


class Listener:
    """An endpoint with Whisper, a voice and a painter."""

    def __init__(self, far: Far) -> None:
        self.far, self.is_slow, self.may_go_on = far, False, asyncio.Event()
        far.play = self.play

    async def play(self, request: web.Request) -> web.StreamResponse:
        match request.path:
            case "/v1/audio/transcriptions" | "/v1/audio/translations":
                return await self._transcribe()
            case "/v1/audio/speech":
                return await self._speak(request)
            case "/v1/images/generations":
                return web.json_response({"created": 1, "data": [{"b64_json": "AAAA"}]})
        return web.json_response({"error": {"message": "no such thing"}}, status=404)

    async def _transcribe(self) -> web.StreamResponse:
        fields = self.far.posts[-1][1]
        if self.is_slow:
            await asyncio.Event().wait()
        if fields.get("stream") == "true":
            events = (
                {"type": "transcript.text.delta", "delta": WORDS},
                {"type": "transcript.text.done", "text": WORDS},
            )
            body = b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in events)
            return web.Response(body=body, content_type="text/event-stream")
        form = fields.get("response_format", "json")
        if form in PLAIN:
            return web.Response(text=PLAIN[form], content_type="text/plain")
        if form == "verbose_json":
            return web.json_response({"text": WORDS, "language": "english", "duration": 1.5, "segments": [SEGMENT]})
        return web.json_response({"text": WORDS})

    async def _speak(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "audio/mpeg"})
        await response.prepare(request)
        await response.write(SOUND)
        if self.far.posts[-1][1].get("voice") == "broken":
            assert request.transport is not None
            request.transport.abort()
        else:
            await response.write(SOUND)
        return response

    def forms(self) -> list[dict[str, Any]]:
        """Return the forms that came, without the question whether there is anybody to transcribe."""
        return [fields for path, fields in self.far.posts if "/audio/tr" in path and fields["file"][2] != SILENCE]


@pytest.fixture
def listener(far: Far) -> Listener:
    return Listener(far)


def client_of(near: Gateway) -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(base_url=f"{near.url}/v1", api_key="x", max_retries=0)


async def test_openais_client_transcribes_at_an_endpoint_that_is_asked_once(near: Gateway, listener: Listener) -> None:
    async with client_of(near) as api:
        for _ in range(2):
            answer = await api.audio.transcriptions.create(
                model="distant", file=("../../etc/passwd.wav", RECORDING), language="de", prompt="Bern"
            )
            assert answer.text == WORDS
    first, second = listener.forms()
    assert first == second == {"model": "big", "language": "de", "prompt": "Bern", "file": first["file"]}
    assert first["file"] == ("recording.wav", "audio/wav", RECORDING), "the client's name for it goes nowhere"
    assert len(listener.far.posts) == 3, "it was asked once whether it transcribes, with a moment of silence"
    assert "transcription" in can(near)


async def test_without_a_name_the_model_that_transcribes_answers(near: Gateway, listener: Listener) -> None:
    async with client_of(near) as api:
        for model in ("auto", "AUTO"):
            assert (await api.audio.transcriptions.create(model=model, file=("a.wav", RECORDING))).text == WORDS
        near.services.settings.change_values({"models.aliases": ["whisper-*=auto"]})
    form = FormData({"model": "whisper-1"})
    form.add_field("file", RECORDING, filename="a.wav")
    async with near.http.post(f"{near.url}/v1/audio/translations", data=form) as reply:
        assert await reply.json() == {"text": WORDS}
    assert listener.far.posts[-1][0] == "/v1/audio/translations"


async def test_other_forms_and_a_stream_pass_as_they_are(near: Gateway, listener: Listener) -> None:
    async with client_of(near) as api:
        text = await api.audio.transcriptions.create(
            model="distant", file=("a.wav", RECORDING), response_format="srt", extra_body={"hotwords": "Bern"}
        )
        assert "-->" in str(text)
        stream = await api.audio.transcriptions.create(model="distant", file=("a.wav", RECORDING), stream=True)
        events = [event async for event in stream]
    assert [event.type for event in events] == ["transcript.text.delta", "transcript.text.done"]
    assert listener.forms()[0]["hotwords"] == "Bern", "an endpoint judges for itself"


@pytest.mark.parametrize("form", ["json", "text", "srt", "vtt", "verbose_json"])
async def test_every_form_is_read_by_openais_client(near: Gateway, listener: Listener, form: Any) -> None:  # noqa: ANN401 -- its overloads want a literal
    file = ("a.wav", RECORDING)
    async with client_of(near) as api:
        transcript: Any = await api.audio.transcriptions.create(model="distant", file=file, response_format=form)
        english: Any = await api.audio.translations.create(model="distant", file=file, response_format=form)
    assert [path for path, _ in listener.far.posts[-2:]] == [TRANSCRIPTIONS, "/v1/audio/translations"]
    for answer in (transcript, english):
        if form in PLAIN:
            assert answer == PLAIN[form]
        else:
            assert answer.text == WORDS
    if form == "verbose_json":
        assert (transcript.segments[0].end, english.segments[0].text) == (1.5, WORDS)


async def test_speech_comes_as_it_is_made_and_none_of_it_is_kept(near: Gateway, listener: Listener) -> None:
    near.services.settings.change_values({"inspector.bodies": True})
    async with client_of(near) as api:
        async with api.audio.speech.with_streaming_response.create(
            model="distant", voice="af_sky", input="Hello", response_format="mp3"
        ) as speech:
            assert speech.headers["content-type"] == "audio/mpeg"
            assert await speech.read() == SOUND * 2
        picture = await api.images.generate(model="distant", prompt="A roundhouse", response_format="b64_json")
        assert picture.data is not None
        assert picture.data[0].b64_json == "AAAA"
        await api.audio.transcriptions.create(model="distant", file=("a.wav", RECORDING), language="de")
    assert listener.far.posts[0][1] == {
        "model": "big", "voice": "af_sky", "input": "Hello", "response_format": "mp3"
    }  # fmt: skip
    details = await kept_of(near)
    assert json.loads(details[0]["asked"])["file"] == f"wav, {len(RECORDING)} bytes"
    assert [detail["answered"] for detail in details] == [json.dumps({"text": WORDS}), "", ""]


async def kept_of(near: Gateway) -> list[dict[str, Any]]:
    headers = {"Authorization": "Bearer token"}
    base = f"{near.url}/roundhouse/v1/requests"
    async with near.http.get(base, headers=headers) as reply:
        body = await reply.json()
    details = []
    for request in body:
        async with near.http.get(f"{base}/{request['id']}", headers=headers) as reply:
            details.append(await reply.json())
    return details


async def test_sound_that_breaks_off_is_no_whole_answer(near: Gateway, listener: Listener) -> None:
    async with client_of(near) as api:
        with pytest.raises((openai.APIError, Exception)) as error:
            async with api.audio.speech.with_streaming_response.create(
                model="distant", voice="broken", input="Hello"
            ) as speech:
                await speech.read()
    assert "chunked read" in str(error.value) or "closed" in str(error.value)


async def test_a_client_that_leaves_ends_the_work(near: Gateway, listener: Listener) -> None:
    await attach(near.services, AttachEndpoint(url=listener.far.url, name="distant", can=[Capability.TRANSCRIPTION]))
    listener.is_slow = True
    form = FormData({"model": "distant"})
    form.add_field("file", RECORDING, filename="a.wav")
    question = asyncio.ensure_future(near.http.post(near.url + TRANSCRIPTIONS, data=form))
    await until(lambda: bool(listener.forms()))
    question.cancel()
    await asyncio.wait_for(listener.far.disconnect.wait(), PATIENCE_S)


async def test_what_nobody_can_do_is_refused_with_what_would(near: Gateway, far: Far) -> None:
    async with client_of(near) as api:
        with pytest.raises(openai.BadRequestError) as silent:
            await api.audio.speech.create(model="guide", voice="a", input="Hello")
        with pytest.raises(openai.BadRequestError) as blind:
            await api.images.generate(model="auto", prompt="A roundhouse")
        with pytest.raises(openai.BadRequestError) as deaf:
            await api.audio.transcriptions.create(model="guide", file=("a.wav", RECORDING))
        with pytest.raises(openai.BadRequestError, match="does not translate recordings") as foreign:
            await api.audio.translations.create(model="guide", file=("a.wav", RECORDING))
    refusals = (silent, blind, deaf, foreign)
    assert [refusal.value.code for refusal in refusals] == ["model_cannot", "no_model_able", *["model_cannot"] * 2]
    assert "does not read texts aloud. An attached endpoint with a voice model does" in str(silent.value)
    assert "No model here makes pictures. An attached endpoint with an image model does" in str(blind.value)
    assert "does not transcribe recordings. A model that hears does on llama.cpp" in str(deaf.value)


async def test_an_endpoint_without_is_known_after_one_question(near: Gateway, far: Far) -> None:
    async def play(_request: web.Request) -> web.StreamResponse:
        return web.json_response({"detail": "Not Found"}, status=404)

    far.play = play
    async with client_of(near) as api:
        for _ in range(2):
            with pytest.raises(openai.BadRequestError, match="attach distant --can"):
                await api.audio.transcriptions.create(model="distant", file=("a.wav", RECORDING))
            with pytest.raises(openai.BadRequestError, match="No model here transcribes"):
                await api.audio.transcriptions.create(model="auto", file=("a.wav", RECORDING))
    assert len(far.posts) == 1


FORM = "multipart/form-data; boundary=x"
PART = b'--x\r\nContent-Disposition: form-data; name="%b"\r\n\r\n%b\r\n'
END = b"--x--"
BROKEN: list[tuple[str, bytes, str]] = [
    ("application/json", b'{"model":"distant"}', "sent as a form"),
    ("multipart/form-data", b"", "sent as a form"),
    (FORM, b"", "not in its body"),
    (FORM, b"--x", "breaks off"),
    (FORM, END, "`file` is missing"),
    (FORM, PART % (b"file", b"abc"), "breaks off"),
    (FORM, b"--x\r\nContent-Type: a/b\r\n\r\nabc\r\n--x--", "has no name"),
    (FORM, PART % (b"file", b"") + END, "empty"),
    (FORM, PART % (b"model", b"\xff") + END, "is not UTF-8"),
    (FORM, PART % (b"prompt", b"a" * 70_000) + END, "is longer than 64 KiB"),
    (FORM, PART % (b"file", b"a") * 2 + END, "several recordings"),
    (FORM, PART % (b"a", b"a") * 100 + END, "more than 64 parts"),
    (FORM, PART % (b"file", b"a") + PART % (b"response_format", b"film") + END, "`response_format`"),
]


@pytest.mark.parametrize(("content_type", "body", "sentence"), BROKEN)
async def test_a_broken_form_is_refused_in_a_sentence(
    near: Gateway, content_type: str, body: bytes, sentence: str
) -> None:
    headers = {"Content-Type": content_type}
    async with near.http.post(near.url + TRANSCRIPTIONS, data=body, headers=headers) as reply:
        error = (await reply.json())["error"]
    assert reply.status == 400
    assert sentence in error["message"]
    assert set(error) == {"message", "type", "param", "code"}


async def test_an_upload_has_a_limit(gateway: Gateway) -> None:
    form = FormData({"model": "guide"})
    form.add_field("file", io.BytesIO(bytes(40 << 20)), filename="a.wav")
    async with gateway.http.post(gateway.url + TRANSCRIPTIONS, data=form) as reply:
        assert (reply.status, (await reply.json())["error"]["code"]) == (413, "too_large")
