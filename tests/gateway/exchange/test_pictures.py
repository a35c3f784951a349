"""Pictures at the endpoint: made, edited and varied by OpenAI's client in front, an attached endpoint behind."""

import base64
import io
import json
from collections.abc import Awaitable, Callable
from typing import Any, Literal

import openai
import pytest
from aiohttp import FormData, web

from tests.gateway.far import Far
from tests.gateway.played import Gateway

pytestmark = pytest.mark.filterwarnings("ignore:deprecated:DeprecationWarning")
"""OpenAI's client says so of `create_variation`, which it still has."""
EDITS, VARIATIONS = "/v1/images/edits", "/v1/images/variations"
PNG = b"\x89PNG\r\n\x1a\n\r\n--not the end--\r\n" + b'",[{' * 100_000
JPEG, WEBP = b"\xff\xd8\xff\xe0" + bytes(900), b"RIFF\0\0\0\0WEBPVP8 " + bytes(90)
MADE = base64.b64encode(b"\x89PNG" + bytes(2_000_000)).decode()
"""Longer than what is kept of a stream to look at its end."""
URL = "http://127.0.0.1:9/picture.png"


class Painter:
    """An endpoint with an image model; `lacks` is how it answers on a route that it has not."""

    def __init__(self, far: Far) -> None:
        self.far, self.lacks = far, (0, "")
        self.ends = True
        self.images: list[tuple[str, str]] = []
        """Of the last form with several pictures, what they are called."""
        far.play = self.play

    async def play(self, request: web.Request) -> web.StreamResponse:
        fields = self.far.posts[-1][1]
        if "edits" in request.path:
            images = (await request.post()).getall("image[]", [])
            self.images = [(file.filename, file.content_type) for file in images if isinstance(file, web.FileField)]
        status, text = self.lacks
        if status:
            return web.Response(status=status, text=text, content_type="application/json")
        if str(fields.get("stream")).lower() == "true":
            return await self._paint_slowly(request, "image_edit" if "edits" in request.path else "image_generation")
        picture = {"url": URL} if fields.get("response_format") == "url" else {"b64_json": MADE}
        return web.json_response({"created": 1, "data": [picture] * int(fields.get("n", 1))})

    async def _paint_slowly(self, request: web.Request, kind: str) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        for name in ("partial_image", "completed"):
            event = {"type": f"{kind}.{name}", "b64_json": MADE, "partial_image_index": 0, "created_at": 1}
            whole = f"event: {kind}.{name}\ndata: {json.dumps(event)}\n\n".encode()
            await response.write(whole if self.ends or name == "partial_image" else whole[: len(whole) // 2])
        return response


@pytest.fixture
def painter(far: Far) -> Painter:
    return Painter(far)


def client_of(near: Gateway) -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(base_url=f"{near.url}/v1", api_key="x", max_retries=0)


async def test_a_picture_is_edited_with_a_mask_and_several_pictures(near: Gateway, painter: Painter) -> None:
    async with client_of(near) as api:
        answer = await api.images.edit(
            model="distant",
            image=[("../../etc/a.png", PNG), ("b.jpg", JPEG)],
            mask=("m.webp", WEBP),
            prompt="A red engine",
            n=2,
            size="256x256",
        )
    assert [picture.b64_json for picture in answer.data or ()] == [MADE, MADE]
    path, form = painter.far.posts[-1]
    assert (path, form["model"], form["prompt"], form["n"], form["size"]) == (
        EDITS, "big", "A red engine", "2", "256x256"
    )  # fmt: skip
    assert form["mask"] == ("picture.webp", "image/webp", WEBP), "the client's name for it goes nowhere"
    assert form["image[]"] == ("picture.png", "image/png", PNG)
    assert painter.images == [("picture.png", "image/png"), ("picture.jpeg", "image/jpeg")]


@pytest.mark.parametrize("form", ["b64_json", "url"])
async def test_pictures_come_as_text_or_as_an_address(
    near: Gateway, painter: Painter, form: Literal["b64_json", "url"]
) -> None:
    async with client_of(near) as api:
        answers = [
            await api.images.generate(model="distant", prompt="A roundhouse", response_format=form),
            await api.images.edit(model="distant", image=PNG, prompt="At night", response_format=form),
            await api.images.create_variation(model="distant", image=PNG, response_format=form),
        ]
    for answer in answers:
        assert answer.data is not None
        assert getattr(answer.data[0], form) == (MADE if form == "b64_json" else URL)
    assert painter.far.posts[-1][0] == VARIATIONS
    assert painter.far.posts[-1][1]["image"] == ("picture.png", "image/png", PNG)


async def test_large_pictures_come_as_a_stream_of_events(near: Gateway, painter: Painter) -> None:
    async with client_of(near) as api:
        made_events = await api.images.generate(model="distant", prompt="A roundhouse", stream=True, partial_images=1)
        events: list[Any] = [event async for event in made_events]
        edited_events = await api.images.edit(
            model="distant", image=PNG, prompt="At night", stream=True, partial_images=1
        )
        events += [event async for event in edited_events]
    assert [event.type for event in events] == [
        "image_generation.partial_image",
        "image_generation.completed",
        "image_edit.partial_image",
        "image_edit.completed",
    ]
    assert all(event.b64_json == MADE for event in events)


async def test_a_stream_that_breaks_off_in_a_picture_ends_with_an_error(near: Gateway, painter: Painter) -> None:
    painter.ends = False
    async with client_of(near) as api:
        edited_events = await api.images.edit(model="distant", image=PNG, prompt="At night", stream=True)
        with pytest.raises((openai.APIError, json.JSONDecodeError)):
            _ = [event async for event in edited_events]


def edit_of(api: openai.AsyncOpenAI, model: str) -> Awaitable[object]:
    return api.images.edit(model=model, image=PNG, prompt="At night")


def variation_of(api: openai.AsyncOpenAI, model: str) -> Awaitable[object]:
    return api.images.create_variation(model=model, image=PNG)


BOTH = pytest.mark.parametrize(("ask", "verb"), [(edit_of, "edit"), (variation_of, "make variations of")])
Ask = Callable[[openai.AsyncOpenAI, str], Awaitable[object]]


@BOTH
async def test_what_nobody_can_do_is_a_typed_error(gateway: Gateway, ask: Ask, verb: str) -> None:
    async with client_of(gateway) as api:
        with pytest.raises(openai.BadRequestError, match=f"does not {verb} pictures") as local:
            await ask(api, "guide")
        with pytest.raises(openai.BadRequestError, match="No model here") as nobody:
            await ask(api, "auto")
    assert (local.value.code, nobody.value.code) == ("model_cannot", "no_model_able")
    assert "An attached endpoint with an image model does" in str(nobody.value)


@BOTH
@pytest.mark.parametrize("lacks", [(404, '{"detail":"Not Found"}'), (405, "{}"), (501, '{"error":{"message":"no"}}')])
async def test_an_endpoint_without_the_route_is_one_that_cannot(
    near: Gateway, painter: Painter, ask: Ask, verb: str, lacks: tuple[int, str]
) -> None:
    painter.lacks = lacks
    async with client_of(near) as api:
        with pytest.raises(openai.BadRequestError, match=f"endpoint of this model does not {verb} pictures") as refusal:
            await ask(api, "distant")
    assert refusal.value.code == "model_cannot"


@BOTH
async def test_what_an_endpoint_refuses_it_refuses_itself(near: Gateway, painter: Painter, ask: Ask, verb: str) -> None:
    painter.lacks = (400, json.dumps({"error": {"message": f"cannot {verb} this", "code": "odd"}}))
    async with client_of(near) as api:
        with pytest.raises(openai.BadRequestError, match=f"cannot {verb} this") as refusal:
            await ask(api, "distant")
    assert refusal.value.code == "odd"


FORM = "multipart/form-data; boundary=x"
PART = b'--x\r\nContent-Disposition: form-data; name="%b"\r\n\r\n%b\r\n'
BROKEN: list[tuple[str, bytes, str]] = [
    ("application/json", b'{"model":"distant"}', "A picture is sent as a form"),
    (FORM, b"", "not in its body"),
    (FORM, PART % (b"prompt", b"a") + b"--x--", "`image` is missing"),
    (FORM, PART % (b"mask", b"a") + b"--x--", "`image` is missing"),
    (FORM, PART % (b"image", b"") + b"--x--", "is empty"),
    (FORM, PART % (b"image", b"abc"), "breaks off"),
    (FORM, PART % (b"image[]", b"abc") + PART % (b"prompt", b"a" * 70_000) + b"--x--", "is longer than 64 KiB"),
    (FORM, PART % (b"image", b"a") * 100 + b"--x--", "more than 64 parts"),
]


@pytest.mark.parametrize("path", [EDITS, VARIATIONS])
@pytest.mark.parametrize(("content_type", "body", "sentence"), BROKEN)
async def test_a_broken_form_is_refused_in_a_sentence(
    gateway: Gateway, path: str, content_type: str, body: bytes, sentence: str
) -> None:
    headers = {"Content-Type": content_type}
    async with gateway.http.post(gateway.url + path, data=body, headers=headers) as reply:
        error = (await reply.json())["error"]
    assert (reply.status, error["code"]) == (400, "invalid_form")
    assert sentence in error["message"]


async def test_an_upload_has_a_limit(gateway: Gateway) -> None:
    form = FormData({"model": "guide", "prompt": "x"})
    form.add_field("image", io.BytesIO(bytes(40 << 20)), filename="a.png")
    async with gateway.http.post(gateway.url + EDITS, data=form) as reply:
        assert (reply.status, (await reply.json())["error"]["code"]) == (413, "too_large")


async def test_the_inspector_keeps_no_picture(near: Gateway, painter: Painter) -> None:
    near.services.settings.change_values({"inspector.bodies": True})
    async with client_of(near) as api:
        await api.images.edit(model="distant", image=PNG, prompt="At night")
    headers = {"Authorization": "Bearer token"}
    base = f"{near.url}/roundhouse/v1/requests"
    async with near.http.get(base, headers=headers) as reply:
        (request,) = await reply.json()
    async with near.http.get(f"{base}/{request['id']}", headers=headers) as reply:
        detail = await reply.json()
    assert json.loads(detail["asked"])["files"] == [f"image: image/png, {len(PNG)} bytes"]
    assert detail["answered"] == ""
