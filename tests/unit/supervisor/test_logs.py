"""What engines write: whole lines, no secrets, a bounded ring, rotating files, and no floods for subscribers."""

import itertools
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.events import LogLine
from app.supervisor import logs
from app.supervisor.logs import (
    LINE_CHARACTERS,
    LINES_PER_SECOND,
    RING_LINES,
    EngineLog,
    LineSplitter,
    LogRedactor,
    file_slug,
)
from app.supervisor.pool import Supervisor, SupervisorFolders
from app.supervisor.readiness import EngineEndpoint
from tests.fake_engine.adapter import FakeAdapter
from tests.fake_engine.behaviour import Behaviour
from tests.unit.supervisor.conftest import Ask, Recorder


def cut(data: bytes, *at: int) -> list[str]:
    lines = LineSplitter()
    edges = [0, *sorted(at), len(data)]
    split_lines = [line for start, end in itertools.pairwise(edges) for line in lines.feed_bytes(data[start:end])]
    return split_lines + lines.flush_rest()


@given(
    texts=st.lists(st.text(st.characters(exclude_characters="\r\n", exclude_categories=["Cs"]), min_size=1)),
    ends=st.sampled_from(["\n", "\r\n", "\r"]),
    data=st.data(),
)
def test_lines_do_not_depend_on_how_they_were_written(texts: list[str], ends: str, data: st.DataObject) -> None:
    raw = "".join(text + ends for text in texts).encode()
    at = data.draw(st.lists(st.integers(0, len(raw)), max_size=8))
    assert cut(raw, *at) == texts


def test_an_emoji_written_in_two_halves_comes_out_whole() -> None:
    raw = "ready 🚂\n".encode()
    assert cut(raw, 8) == ["ready 🚂"]


def test_bytes_that_are_no_text_do_not_stop_the_reading() -> None:
    assert cut(b"a\xff\xfeb\n") == ["a��b"]


def test_a_line_that_never_ends_is_cut_into_pieces() -> None:
    pieces = cut(b"x" * (3 * LINE_CHARACTERS + 5), 1, LINE_CHARACTERS)
    assert [len(piece) for piece in pieces] == [LINE_CHARACTERS] * 3 + [5]


def test_secrets_are_taken_out_the_longest_first() -> None:
    assert LogRedactor(["key", "key-of-mine", ""]).redact_text("a key-of-mine and a key") == "a *** and a ***"
    assert LogRedactor([]).redact_text("nothing") == "nothing"


@pytest.fixture
def log(tmp_path: Path, recorder: Recorder) -> EngineLog:
    return EngineLog("m", tmp_path / "logs", recorder.publish)


def test_the_ring_forgets_the_oldest_lines(log: EngineLog) -> None:
    log.add_lines("out", [str(at) for at in range(RING_LINES + 10)], at=0.0)
    assert [line.text for line in log.tail_lines(2)] == [str(RING_LINES + 8), str(RING_LINES + 9)]
    assert len(log.tail_lines(10 * RING_LINES)) == RING_LINES
    assert log.tail_lines(0) == []


def test_a_flood_is_told_in_part_and_says_so(log: EngineLog, recorder: Recorder) -> None:
    log.add_lines("err", [f"line {at}" for at in range(LINES_PER_SECOND + 50)], at=100.2)
    assert len(recorder.lines()) == LINES_PER_SECOND
    log.add_lines("err", ["calm again"], at=101.0)
    assert recorder.lines()[-2].startswith("[50 lines are not shown here; ")
    assert recorder.lines()[-1] == "calm again"
    assert log.tail_lines(2)[0].text == f"line {LINES_PER_SECOND + 49}"


def test_the_file_rotates_and_old_ones_go(log: EngineLog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "FILE_BYTES", 1000)
    for at in range(100):
        log.append_to_file([f"line {at:03d} {'x' * 90}"])
    log.close()
    files = sorted(path.name for path in log.path.parent.iterdir())
    assert files == ["engine-m.log", "engine-m.log.1", "engine-m.log.2", "engine-m.log.3"]
    assert "line 099" in log.path.read_text()
    assert all(path.stat().st_size <= 1000 for path in log.path.parent.iterdir())


def test_a_closed_log_opens_again_when_something_is_written(log: EngineLog) -> None:
    log.append_to_file(["one"])
    log.close()
    log.close()
    log.append_to_file(["two"])
    log.close()
    assert log.path.read_text() == "one\ntwo\n"


def test_a_full_disk_stops_nobody(log: EngineLog, monkeypatch: pytest.MonkeyPatch) -> None:
    log.append_to_file(["one"])
    assert log._file is not None

    def no_space(_: str) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(log._file.stream, "write", no_space)
    log.append_to_file(["two"])
    monkeypatch.undo()
    log.close()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has a disk that is always full")
def test_a_disk_that_stays_full_does_not_keep_a_log_open(log: EngineLog) -> None:
    log.path.parent.mkdir(parents=True, exist_ok=True)
    log.path.symlink_to("/dev/full")
    log.append_to_file(["one"])
    log.close()


def test_its_folder_is_made_with_all_above_it(tmp_path: Path, recorder: Recorder) -> None:
    log = EngineLog("m", tmp_path / "state" / "logs", recorder.publish)
    log.append_to_file(["one"])
    log.close()
    assert log.path.read_text() == "one\n"


def test_a_folder_that_cannot_be_made_stops_nobody(tmp_path: Path, recorder: Recorder) -> None:
    (tmp_path / "file").write_bytes(b"")
    log = EngineLog("m", tmp_path / "file" / "logs", recorder.publish)
    log.append_to_file(["one"])
    log.close()


@pytest.mark.parametrize(
    ("name", "other"), [("a/b", "a_b"), ("Model", "model"), ("x" * 80, "x" * 81), ("é", "è"), ("..", "__")]
)
def test_different_models_have_different_files(name: str, other: str) -> None:
    assert file_slug(name) != file_slug(other)
    assert not {"/", "\\", ":"} & set(file_slug(name))


def test_a_plain_name_stays_as_it_is() -> None:
    assert file_slug("qwen3-8b.q4_k_m") == "qwen3-8b.q4_k_m"


async def test_a_key_that_an_engine_blurts_out_is_nowhere(
    supervisor: Supervisor, ask: Ask, adapter: FakeAdapter, recorder: Recorder, folders: SupervisorFolders
) -> None:
    adapter.behaviours["m"] = Behaviour(says_key=True)
    async with supervisor.lease(ask()) as lease:
        await recorder.until(recorder.lines)
        written_texts = [path.read_text() for root in (folders.logs, folders.records) for path in root.iterdir()]
        assert len(written_texts) == 2
        assert "api_key=***" in written_texts[0]
        all_texts = [*written_texts, *recorder.lines(), *(line.text for line in supervisor.read_log("m"))]
        assert not [text for text in all_texts if lease.key in text]
        if sys.platform != "win32":
            assert (folders.logs.stat().st_mode & 0o777) == 0o700


async def test_a_flood_does_not_hold_up_the_engine(
    supervisor: Supervisor, ask: Ask, adapter: FakeAdapter, recorder: Recorder
) -> None:
    adapter.behaviours["m"] = Behaviour(flood=20_000)
    async with supervisor.lease(ask()) as lease:
        endpoint = EngineEndpoint(base_url=lease.base_url, key=lease.key, served_name="m")
        assert (await endpoint.send_request("POST", "/v1/completions", body=b"{}", timeout_s=20.0)).status == 200
    await supervisor.unload_model("m")
    events = [event for event in recorder.events if isinstance(event, LogLine)]
    assert len(supervisor.read_log("m", tail=5000)) == RING_LINES
    last = [line.text for line in supervisor.read_log("m", tail=2)]
    assert "flood 19999" in last  # the engine may have said after it that it ends
    assert len(events) < 10_000
    assert supervisor.read_log("never heard of") == []
