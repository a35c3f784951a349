"""A release's file is fetched whole or refused, gone on with after a break, and looked at again before it is used."""

import hashlib
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from app.core.errors import BadRequest, EnvironmentFault, NotFound, StorageFault, Unavailable
from app.core.updates import InstallationKind
from app.hub.download.transfer import TransferDeps
from app.hub.download.wire import DownloadStopped
from app.updates import fetching
from app.updates.fetching import fetch_file, fetch_manifest, remove_other_versions, verify_file
from app.updates.manifest import ReleaseFile, UpdateRefused
from tests.range_server import Hub, serve_ranges

CONTENT = bytes(range(256)) * 400
PATH = "/updates/roundhouse_0.2.0_amd64.deb"


@pytest.fixture
def hub() -> Iterator[Hub]:
    with serve_ranges(Hub(files={PATH: CONTENT})) as hub:
        yield hub


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "updates" / "0.2.0"


def file(content: bytes = CONTENT, **changes: object) -> ReleaseFile:
    fields = {
        "kind": InstallationKind.DEB,
        "platform": "linux",
        "architecture": "x86_64",
        "url": PATH.rsplit("/", 1)[-1],
        "size": len(content),
        "sha256": hashlib.sha256(content).hexdigest(),
        **changes,
    }
    return ReleaseFile(**fields)  # type: ignore[arg-type]  # a table of test data


def means(amounts: list[int] | None = None, stop: threading.Event | None = None) -> TransferDeps:
    return TransferDeps(
        progress=(amounts if amounts is not None else []).append,
        stop=stop or threading.Event(),
        chunk_bytes=1 << 14,
        first_pause_s=0.01,
    )


def manifest_url(hub: Hub) -> str:
    return f"{hub.url}/updates/stable.json"


def test_a_file_comes_whole_into_a_folder_of_the_person_s_own(hub: Hub, folder: Path) -> None:
    amounts: list[int] = []
    path = fetch_file(manifest_url(hub), file(), folder, means(amounts))
    assert (path.name, path.read_bytes(), sum(amounts)) == ("roundhouse_0.2.0_amd64.deb", CONTENT, len(CONTENT))
    assert [path_left.name for path_left in folder.iterdir()] == [path.name]
    assert folder.stat().st_mode & 0o077 == 0 or folder.drive


def test_what_is_here_and_right_is_not_fetched_again(hub: Hub, folder: Path) -> None:
    fetch_file(manifest_url(hub), file(), folder, means())
    count = len(hub.requests)
    path = fetch_file(manifest_url(hub), file(), folder, means())
    assert len(hub.requests) == count
    path.write_bytes(CONTENT[:-1] + b"!")
    assert fetch_file(manifest_url(hub), file(), folder, means()).read_bytes() == CONTENT
    assert len(hub.requests) > count


def test_what_was_called_off_goes_on_where_it_was(hub: Hub, folder: Path) -> None:
    stop, amounts = threading.Event(), list[int]()

    def count(more: int) -> None:
        amounts.append(more)
        if sum(amounts) > len(CONTENT) // 2:
            stop.set()

    with pytest.raises(DownloadStopped):
        fetch_file(
            manifest_url(hub), file(), folder, TransferDeps(progress=count, stop=stop, chunk_bytes=1 << 14, streams=1)
        )
    before = len(hub.requests)
    fetch_file(manifest_url(hub), file(), folder, means())
    assert all(range_header != f"bytes=0-{len(CONTENT) - 1}" for _, range_header in hub.requests[before:])


def test_a_truncated_file_is_refused(hub: Hub, folder: Path) -> None:
    hub.files[PATH] = CONTENT[:-100]
    with pytest.raises(EnvironmentFault, match="damaged"):
        fetch_file(manifest_url(hub), file(), folder, means())
    assert list(folder.iterdir()) == []


def test_another_content_of_the_same_length_is_refused(hub: Hub, folder: Path) -> None:
    hub.files[PATH] = CONTENT[:-1] + b"!"
    with pytest.raises(EnvironmentFault) as error:
        fetch_file(manifest_url(hub), file(), folder, means())
    assert error.value.code == "checksum_mismatch"
    assert list(folder.iterdir()) == []


def test_a_file_that_is_not_there_is_said(hub: Hub, folder: Path) -> None:
    del hub.files[PATH]
    with pytest.raises(NotFound, match="roundhouse_0"):
        fetch_file(manifest_url(hub), file(), folder, means())


def test_a_server_that_wants_an_account_is_not_asked_for_a_model_s_terms(hub: Hub, folder: Path) -> None:
    hub.statuses[PATH] = 403
    with pytest.raises(Unavailable) as error:
        fetch_file(manifest_url(hub), file(), folder, means())
    assert "licence" not in error.value.hint


def test_only_https_leads_away_from_the_server_of_the_description(hub: Hub, folder: Path) -> None:
    elsewhere = file(url="http://example.org/roundhouse_0.2.0_amd64.deb")
    with pytest.raises(BadRequest, match="https"):
        fetch_file(manifest_url(hub), elsewhere, folder, means())


def test_a_full_disk_is_said_before_anything_is_fetched(
    hub: Hub, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _folder: SimpleNamespace(free=fetching.HEAD_ROOM_BYTES))
    with pytest.raises(StorageFault, match="are free there") as error:
        fetch_file(manifest_url(hub), file(), folder, means())
    assert (error.value.code, hub.requests) == ("disk_full", [])


def test_a_folder_that_cannot_be_made_is_said(hub: Hub, tmp_path: Path) -> None:
    (tmp_path / "updates").write_text("in the way")
    with pytest.raises(StorageFault):
        fetch_file(manifest_url(hub), file(), tmp_path / "updates" / "0.2.0", means())


def test_what_was_changed_on_the_disk_is_thrown_away(tmp_path: Path) -> None:
    path = tmp_path / "roundhouse.deb"
    path.write_bytes(CONTENT)
    assert verify_file(path, file()) == path
    path.write_bytes(CONTENT + b"and more")
    with pytest.raises(UpdateRefused) as error:
        verify_file(path, file())
    assert error.value.code == "update_damaged"
    assert not path.exists()


def test_a_description_comes_with_its_signature(hub: Hub) -> None:
    hub.files |= {"/updates/stable.json": b"{}", "/updates/stable.json.sig": b"signed\n"}
    manifest = fetch_manifest(manifest_url(hub))
    assert (manifest.content, manifest.signatures) == (b"{}", "signed\n")
    del hub.files["/updates/stable.json.sig"]
    with pytest.raises(NotFound):
        fetch_manifest(manifest_url(hub))


def test_versions_that_are_of_no_use_any_more_go(tmp_path: Path) -> None:
    for name in ("0.1.0", "0.2.0"):
        (tmp_path / name).mkdir()
    (tmp_path / "known.json").write_text("{}")
    remove_other_versions(tmp_path, "0.2.0")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["0.2.0", "known.json"]
    remove_other_versions(tmp_path / "nothing", "")
