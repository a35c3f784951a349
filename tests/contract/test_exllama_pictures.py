"""Pictures in chats with ExLlamaV3, against a stand-in that says how large and of what colour they are."""

import base64
import io
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest
from PIL import Image

from engines.exllama.exl3 import ADAPTER as EXL3
from engines.serving import pictures
from tests.contract.test_exllama import HF, copy_model, start_worker
from tests.end_to_end.worker import Worker


def picture_file(size: tuple[int, int] = (3, 2), colour: Any = "red", form: str = "PNG", mode: str = "RGB") -> bytes:  # noqa: ANN401 -- any colour
    file = io.BytesIO()
    Image.new(mode, size, colour).save(file, form)
    return file.getvalue()


def address(file: bytes, kind: str = "png") -> str:
    return f"data:image/{kind};base64,{base64.b64encode(file).decode()}"


def question(*addresses: str) -> dict[str, Any]:
    parts: list[dict[str, Any]] = [{"type": "text", "text": "say:"}]
    parts += [{"type": "image_url", "image_url": {"url": each}} for each in addresses]
    return {"messages": [{"role": "user", "content": parts}], "temperature": 0, "max_tokens": 60}


@pytest.fixture(scope="module")
def vision_worker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worker]:
    folder = tmp_path_factory.mktemp("seeing")
    with closing(start_worker(EXL3, copy_model(folder, vision_config={"depth": 1}))) as worker:
        assert worker.is_ready(), worker.lines
        yield worker


def said_of(worker: Worker, *addresses: str) -> str:
    answer: dict[str, Any] = worker.ask("/v1/chat/completions", question(*addresses))
    return str(answer["choices"][0]["message"]["content"])


@pytest.mark.slow(cases=1)
@pytest.mark.parametrize(
    ("file", "kind", "description"),
    [
        (picture_file(), "png", "3x2 (255, 0, 0)"),
        (picture_file(form="GIF"), "gif", "3x2 (255, 0, 0)"),
        (picture_file((40, 30), "white", "JPEG"), "jpeg", "40x30 (255, 255, 255)"),
        (picture_file(colour=(0, 0, 0, 0), mode="RGBA"), "png", "3x2 (255, 255, 255)"),
        (picture_file(colour=7, mode="L"), "png", "3x2 (7, 7, 7)"),
    ],
    ids=["png", "gif", "jpeg", "transparent", "grey"],
)
def test_a_picture_is_looked_at_where_it_stands(
    vision_worker: Worker, file: bytes, kind: str, description: str
) -> None:
    assert said_of(vision_worker, address(file, kind)).startswith(description)


def test_several_are_seen_in_their_order_and_one_again_is_the_same(vision_worker: Worker) -> None:
    red, blue = address(picture_file()), address(picture_file((5, 5), "blue"))
    assert said_of(vision_worker, red, blue, red).startswith("3x2 (255, 0, 0)5x5 (0, 0, 255)3x2 (255, 0, 0)")


def test_a_prompt_can_be_looked_at_with_marks_in_the_place_of_pictures(vision_worker: Worker) -> None:
    prompt = vision_worker.ask("/apply-template", question(address(picture_file())))["prompt"]
    assert "<|picture-" in prompt


def huge() -> str:
    return address(picture_file((pictures.MOST_PIXELS // 1000 + 1, 1000), 0, mode="1"))


@pytest.mark.slow(cases=4)
@pytest.mark.parametrize(
    ("addresses", "sentence"),
    [
        (lambda: ("https://example.org/a.png",), "data address"),
        (lambda: ("data:text/plain;base64,aGk=",), "data address"),
        (lambda: ("data:image/png;base64,a===b",), "base64"),
        (lambda: (address(b"no picture at all"),), "cannot be read"),
        (lambda: (address(picture_file()[:40]),), "cannot be read"),
        (lambda: (address(picture_file(form="BMP"), "bmp"),), "PNG, JPEG"),
        (lambda: (huge(),), "million pixels"),
        (lambda: ("data:image/png;base64," + "A" * (pictures.MOST_BYTES * 4 // 3 + 8),), "20 MiB"),
        (lambda: tuple(address(picture_file((3, n))) for n in range(1, 19)), "16 pictures"),
        (lambda: (address(picture_file((900, 1))),), "aspect ratio"),
    ],
    ids=["elsewhere", "text", "base64", "nothing", "cut", "bmp", "huge", "heavy", "many", "narrow"],
)
def test_what_cannot_be_looked_at_is_refused_and_the_next_is_answered(
    vision_worker: Worker,
    addresses: Callable[[], tuple[str, ...]],
    sentence: str,
) -> None:
    status, document = vision_worker.refusal("/v1/chat/completions", question(*addresses()))
    assert (status, document["error"]["code"]) == (400, "invalid_image")
    assert sentence in document["error"]["message"]
    assert said_of(vision_worker, address(picture_file())).startswith("3x2")


def test_a_model_that_sees_nothing_says_so() -> None:
    with closing(start_worker(EXL3, HF)) as worker:
        assert worker.is_ready(), worker.lines
        status, document = worker.refusal("/v1/chat/completions", question(address(picture_file())))
    assert (status, document["error"]["code"]) == (400, "unsupported_content")


def test_a_text_that_only_looks_like_a_mark_is_text(vision_worker: Worker) -> None:
    said_of(vision_worker, address(picture_file()))
    mark = vision_worker.ask("/apply-template", question(address(picture_file())))["prompt"].partition("say:")[2]
    mark = mark[: mark.index("|>") + 2]
    body = {"messages": [{"role": "user", "content": f"say:{mark}"}], "temperature": 0, "max_tokens": 60}
    assert mark in vision_worker.ask("/v1/chat/completions", body)["choices"][0]["message"]["content"]
