"""What the fake hub holds: repositories with branches, files kept as git or LFS objects, and who may read them."""

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from tests.fake_hub.cas import FakeCas

LFS_FROM_BYTES = 4096
"""The real hub decides by .gitattributes and at 10 MB."""


@lru_cache(maxsize=16)
def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


@lru_cache(maxsize=16)
def _git_name(content: bytes) -> str:
    digest = hashlib.sha1(f"blob {len(content)}\0".encode())  # noqa: S324 -- git's
    digest.update(content)  # dozens of MB, which are not copied for it
    return digest.hexdigest()


def forget_hashes() -> None:
    """Let go of the contents, dozens of MB, that hashes are remembered by."""
    _sha256.cache_clear()
    _git_name.cache_clear()


@dataclass(frozen=True)
class StoredFile:
    """One file of a commit."""

    path: str
    content: bytes

    @property
    def is_lfs(self) -> bool:
        return len(self.content) >= LFS_FROM_BYTES

    @property
    def sha256(self) -> str:
        return _sha256(self.content)

    @property
    def oid(self) -> str:
        return _git_name(self.content)

    @property
    def etag(self) -> str:
        return self.sha256 if self.is_lfs else self.oid

    def describe_file(self) -> dict[str, Any]:
        plain: dict[str, Any] = {"rfilename": self.path, "size": len(self.content), "blobId": self.oid}
        if self.is_lfs:
            plain["lfs"] = {"sha256": self.sha256, "size": len(self.content), "pointerSize": 130}
        return plain


@dataclass
class StoredRepository:
    """A repository; `branches` maps names to files by path. Every branch is one commit."""

    name: str
    branches: dict[str, dict[str, bytes]]
    gated: str = ""
    """"manual" or "auto": readable only with a token in `readers`."""
    readers: set[str] = field(default_factory=set)
    about: dict[str, Any] = field(default_factory=dict)
    """More fields of its description."""

    def commit(self, branch: str) -> str:
        files = "".join(f"{path}\0{StoredFile(path, content).oid}\0" for path, content in self.branches[branch].items())
        return hashlib.sha1(f"{self.name}\0{branch}\0{files}".encode()).hexdigest()  # noqa: S324 -- as git does

    def branch_of(self, revision: str) -> str | None:
        branches = [branch for branch in self.branches if revision in (branch, self.commit(branch))]
        return branches[0] if branches else None

    def files(self, branch: str) -> Iterator[StoredFile]:
        for path, content in sorted(self.branches[branch].items()):
            yield StoredFile(path, content)


@dataclass
class FakeHub:
    """The whole hub, and what was asked of it."""

    repositories: dict[str, StoredRepository] = field(default_factory=dict)
    faults: dict[str, Callable[..., bool]] = field(default_factory=dict)
    """By path of the content, what happens instead of serving it; see `faults`."""
    requests: list[tuple[str, str, str]] = field(default_factory=list)
    """Method, path and range of every request."""
    tokens_at_storage: list[str | None] = field(default_factory=list)
    """What the storage behind redirects was shown, which should be nothing."""
    sent_bytes: int = 0
    is_frank: bool = False
    """Whether strangers are told that a repository is not there, as mirrors do; the real hub asks who they are."""
    cas: FakeCas = field(default_factory=FakeCas)
    """The Xet storage; what it knows, the hub keeps there."""
    url: str = ""

    @property
    def storage_url(self) -> str:
        """The same server under another name, as the real hub's storage is another host."""
        return self.url.replace("127.0.0.1", "localhost")

    def add(self, name: str, files: dict[str, bytes], **more: Any) -> StoredRepository:  # noqa: ANN401 -- fields
        repository = StoredRepository(name=name, branches={"main": files}, **more)
        self.repositories[name] = repository
        return repository

    def ranges_of(self, path: str) -> list[str]:
        """Return the ranges asked for of a file's content."""
        return [
            asked_range
            for method, request_path, asked_range in self.requests
            if method == "GET" and request_path.endswith(f"/{path}") and asked_range
        ]
