"""What headers said is known again after a restart, as long as the files are as they were."""

import threading
from pathlib import Path
from unittest.mock import patch

import msgspec
import pytest

from app.hub.gguf.listing import read_gguf
from app.hub.library.header_index import HeaderIndex, HeaderRecords
from app.hub.library.library import Library
from tests.gguf_files import TinyLlama
from tests.patience import PATIENCE_S


def library(tmp_path: Path) -> Library:
    models = tmp_path / "models"
    models.mkdir(exist_ok=True)
    return Library(lambda: [models], tmp_path / "state" / "models.json", tmp_path / "none.gguf")


def test_a_restart_reads_no_header_again(tmp_path: Path) -> None:
    first = library(tmp_path)
    TinyLlama(name="One").write(tmp_path / "models" / "one.gguf")
    before = first.list_models()
    with patch("app.hub.library.inspection.read_gguf", wraps=read_gguf) as read:
        assert library(tmp_path).list_models() == before
        assert [call.args[0].name for call in read.call_args_list] == [
            "none.gguf"
        ]  # what cannot be read is tried again
        TinyLlama(name="Another").write(tmp_path / "models" / "one.gguf")
        assert library(tmp_path).find_model("one").title == "Another"


@pytest.mark.parametrize("content", [b"", b"\xc1", msgspec.msgpack.encode(HeaderRecords(reader="another"))])
def test_an_index_that_cannot_be_used_is_begun_anew(tmp_path: Path, content: bytes) -> None:
    first = library(tmp_path)
    TinyLlama(name="One").write(tmp_path / "models" / "one.gguf")
    first.list_models()
    file = tmp_path / "state" / "headers.bin"
    file.write_bytes(content)
    assert library(tmp_path).find_model("one").title == "One"
    assert HeaderIndex(file).read_index().files


def test_nothing_is_written_where_nothing_was_read(tmp_path: Path) -> None:
    first = library(tmp_path)
    TinyLlama().write(tmp_path / "models" / "one.gguf")
    first.list_models()
    with patch.object(HeaderIndex, "write_index", side_effect=AssertionError("wrote")):
        first.list_models()


def test_an_index_without_a_place_does_without(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    HeaderIndex(tmp_path / "file" / "headers.bin").write_index({}, {})
    assert HeaderIndex(None).read_index().files == {}


def test_a_long_look_does_not_hold_up_who_asks_for_a_known_model(tmp_path: Path) -> None:
    look_event, going_on = threading.Event(), threading.Event()

    def slow() -> tuple[()]:
        look_event.set()
        assert going_on.wait(PATIENCE_S)
        return ()

    TinyLlama().write(tmp_path / "guide.gguf")
    slow_library = Library(list, tmp_path / "models.json", tmp_path / "guide.gguf", slow)
    names: list[str] = []
    thread = threading.Thread(target=lambda: names.extend(model.name for model in slow_library.list_models()))
    thread.start()
    assert look_event.wait(PATIENCE_S)
    finder = threading.Thread(target=lambda: names.append(slow_library.find_model("guide").name))
    finder.start()
    finder.join(PATIENCE_S)
    assert names == ["guide"]
    going_on.set()
    thread.join(PATIENCE_S)
