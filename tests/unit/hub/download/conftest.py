from array import array
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from app.core.connections import ConnectionReason, Purpose
from app.hub.download.cache import RepositoryCache
from app.hub.download.transfer import TransferDeps, fetch_blob
from app.hub.download.wire import HttpSource, remote_without_limit
from app.hub.repositories.repository import RepoFile, read_repository, resolve_address
from tests.fake_hub.faults import Fault
from tests.fake_hub.hub import FakeHub
from tests.fake_hub.server import serve_hub

NAME, FILE = "org/model-GGUF", "model-Q4_K_M.gguf"
CHUNK = 64 << 10


def content_of(size: int) -> bytes:
    """Bytes that are nowhere the same, so that a chunk in the wrong place shows."""
    numbers = array("Q", range(size // 8 + 1))
    numbers.byteswap()  # what differs from number to number comes last
    return memoryview(numbers).cast("B")[:size].tobytes()


@dataclass
class Arena:
    """A hub with one file, and a cache."""

    hub: FakeHub
    cache: RepositoryCache
    content: bytes
    progress_bytes: list[int] = field(default_factory=list)

    @property
    def file(self) -> RepoFile:
        stored_file = read_repository(self.hub.url, NAME).find_file(FILE)
        assert stored_file is not None
        return stored_file

    @property
    def part(self) -> Path:
        return self.cache.part_path(self.file)

    def means(self, **more: Any) -> TransferDeps:  # noqa: ANN401 -- fields
        return TransferDeps(
            **{
                "progress": self.progress_bytes.append,
                "chunk_bytes": CHUNK,
                "first_pause_s": 0.01,
                "widen_after_s": 0.001,
                **more,
            }
        )

    def go_wrong(self, fault: Fault) -> None:
        self.hub.faults[FILE] = fault

    def fetch(self, **more: Any) -> bytes:  # noqa: ANN401 -- fields
        """Fetch the file and return what is in the cache then."""
        file, commit = self.file, read_repository(self.hub.url, NAME).commit
        url = resolve_address(self.hub.url, NAME, commit, FILE)
        remote = remote_without_limit(self.hub.url, Purpose(why=ConnectionReason.DOWNLOAD))
        fetch_blob(self.cache, file, HttpSource(remote, url, size=file.size), self.means(**more))
        return self.cache.blob_path(file).read_bytes()


@pytest.fixture
def hub() -> Iterator[FakeHub]:
    with serve_hub(FakeHub()) as served_hub:
        yield served_hub


@pytest.fixture
def arena(hub: FakeHub, tmp_path: Path) -> Callable[..., Arena]:
    def make(size: int = 20 * CHUNK + 1000) -> Arena:
        content = content_of(size)
        hub.add(NAME, {FILE: content, "config.json": b"{}"})
        return Arena(hub, RepositoryCache(tmp_path / "hub", NAME), content)

    return make
