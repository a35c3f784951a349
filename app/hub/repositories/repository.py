"""What a hub says of a repository: its files with sizes and hashes, its branches, its terms, what it was made of.

Blocks; call it from a thread. Nothing a hub says is believed further than it is checked here: paths cannot lead out of
the repository, sizes are bounded numbers, hashes have the right form. Terms that must be accepted first are told before
anything is queued, with what to accept and where.
"""

import re
from typing import TypeVar
from urllib.parse import quote, urlsplit

import msgspec

from app.core.connections import ConnectionReason, Purpose
from app.core.errors import BadRequest, Forbidden, NotFound, RoundhouseError, Unauthorized, Unavailable, quote_value
from app.hub.repositories.ranges import ReadBudget, RemoteHost

T = TypeVar("T")

MAX_ANSWER_BYTES = 16 << 20
"""Of a repository's description: 10,000 files take about 4 MiB."""
MAX_FILE_BYTES = 1 << 44
_MOST_BRANCHES_NAMED = 8
REPOSITORY = re.compile(r"[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95}")
_COMMIT = re.compile(r"[0-9a-f]{40}")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_PATH = re.compile(r"[^\x00-\x1f\\:*?\"<>|]{1,512}")
"""Without what Windows cannot have in a name: the file must be kept under it."""
_DEVICES = frozenset(
    {"CON", "PRN", "AUX", "NUL", "CONIN$", "CONOUT$"}
    | {f"{port}{n}" for port in ("COM", "LPT") for n in "0123456789¹²³"}
)


class RepoFile(msgspec.Struct, frozen=True, kw_only=True):
    """One file. Large ones have a `sha256`, all have git's own hash in `oid`; empty where the hub did not say."""

    path: str
    size: int
    sha256: str = ""
    oid: str = ""

    @property
    def etag(self) -> str:
        """The name of its content in the hub's cache on this computer, as Hugging Face's own programs have it."""
        return self.sha256 or self.oid


class Repository(msgspec.Struct, frozen=True, kw_only=True):
    """One revision of a repository, pinned to its commit."""

    name: str
    revision: str
    commit: str
    files: list[RepoFile]
    gated: bool = False
    private: bool = False
    tags: list[str] = []
    library: str = ""
    task: str = ""
    base_models: list[str] = []
    licence: str = ""
    downloads: int = 0
    likes: int = 0
    modified: str = ""

    def find_file(self, path: str) -> RepoFile | None:
        """Return the file at a path."""
        return next((file for file in self.files if file.path == path), None)


class _Lfs(msgspec.Struct):
    sha256: str = ""
    size: int = 0


class _RepositorySibling(msgspec.Struct):
    rfilename: str = ""
    size: int | None = None
    blobId: str = ""  # noqa: N815 -- the hub's name
    lfs: _Lfs | None = None


class _CardData(msgspec.Struct):
    license: object = None
    base_model: object = None


class _RepositoryAnswer(msgspec.Struct):
    id: str = ""
    sha: str = ""
    siblings: list[_RepositorySibling] = []
    gated: bool | str = False
    private: bool = False
    tags: list[str] = []
    library_name: str = ""
    pipeline_tag: str = ""
    cardData: _CardData | None = None  # noqa: N815 -- the hub's name
    downloads: int = 0
    likes: int = 0
    lastModified: str = ""  # noqa: N815 -- the hub's name


class _Ref(msgspec.Struct):
    name: str = ""
    targetCommit: str = ""  # noqa: N815 -- the hub's name


class _Refs(msgspec.Struct):
    branches: list[_Ref] = []
    tags: list[_Ref] = []


def read_repository(
    endpoint: str, name: str, *, revision: str = "", token: str = "", why: ConnectionReason = ConnectionReason.MODEL
) -> Repository:
    """Return what is in a revision, the default branch without one.

    Raises NotFound (model_not_found, revision_not_found), Unauthorized, Forbidden, BadRequest (bad_address) or
    Unavailable.
    """
    revision_name = revision or "main"
    remote = RemoteHost(endpoint, Purpose(why=why, about=name), token=token, budget=ReadBudget())
    address = f"{remote.endpoint}/api/models/{_check_name(name)}/revision/{quote(revision_name, safe='')}?blobs=true"
    try:
        answer = _decode_answer(remote.read_small_file(address, MAX_ANSWER_BYTES), _RepositoryAnswer)
    except Unauthorized as error:  # the hub does not tell strangers whether a repository is private or none at all
        raise Unauthorized(
            f"{_absence_sentence(remote, name)}, or it is private.", hint=_REPOSITORY_HINT, code=error.code
        ) from None
    except Forbidden as error:
        raise Forbidden(f"{name} is not accessible with this account.", hint=error.hint, code=error.code) from None
    except NotFound as error:
        raise _revision_not_found(remote, name, revision_name) from error
    if not _COMMIT.fullmatch(answer.sha):
        raise _nonsense_fault()
    return Repository(
        name=name,
        revision=revision_name,
        commit=answer.sha,
        files=[_parse_file(sibling) for sibling in answer.siblings if _is_plain(sibling.rfilename)],
        gated=bool(answer.gated),
        private=answer.private,
        tags=answer.tags,
        library=answer.library_name,
        task=answer.pipeline_tag,
        base_models=_text_list(answer.cardData.base_model if answer.cardData else None),
        licence=next(iter(_text_list(answer.cardData.license if answer.cardData else None)), ""),
        downloads=answer.downloads,
        likes=answer.likes,
        modified=answer.lastModified,
    )


def read_branches(endpoint: str, name: str, *, token: str = "") -> list[str]:
    """Return the names of all branches. Raises as `read_repository` does."""
    return _list_branches(
        RemoteHost(endpoint, Purpose(why=ConnectionReason.MODEL, about=name), token=token, budget=ReadBudget()), name
    )


def _list_branches(remote: RemoteHost, name: str) -> list[str]:
    address = f"{remote.endpoint}/api/models/{_check_name(name)}/refs"
    return [
        ref.name
        for ref in _decode_answer(remote.read_small_file(address, MAX_ANSWER_BYTES), _Refs).branches
        if ref.name
    ]


def _revision_not_found(remote: RemoteHost, name: str, revision: str) -> NotFound:
    """Return what is said where a hub has no such revision: that, or that it has no such repository either."""
    try:
        remote.read_small_file(f"{remote.endpoint}/api/models/{name}", MAX_ANSWER_BYTES)
    except RoundhouseError:
        return NotFound(f"{_absence_sentence(remote, name)}.", hint=_REPOSITORY_HINT, code="model_not_found")
    try:
        branches = _list_branches(remote, name)
    except RoundhouseError:
        branches = []
    branch_names = ", ".join(branches[:_MOST_BRANCHES_NAMED])
    hint = f"Its branches are {branch_names}." if branch_names else "Its page lists its branches and tags."
    return NotFound(f"{name} has no revision {quote_value(revision)}.", hint=hint, code="revision_not_found")


def _absence_sentence(remote: RemoteHost, name: str) -> str:
    return f"There is no repository {name} at {urlsplit(remote.endpoint).hostname}"


_REPOSITORY_HINT = (
    "Check the spelling. If it is private or gated, save a token that may read it: `roundhouse token set`."
)


def resolve_address(endpoint: str, name: str, commit: str, path: str) -> str:
    """Return where the hub serves a file of a commit. Raises BadRequest for a path that leads elsewhere."""
    if not _COMMIT.fullmatch(commit) or not _is_plain(path):
        raise BadRequest(f"{quote_value(path)} is not a model file.", code="bad_address")
    return f"{endpoint.rstrip('/')}/{_check_name(name)}/resolve/{commit}/{quote(path)}"


def _check_name(name: str) -> str:
    if not REPOSITORY.fullmatch(name) or ".." in name or "--" in name:
        raise BadRequest(
            f"{quote_value(name)} is not a model name.", hint="Write it as owner/name.", code="bad_address"
        )
    return name


def _is_plain(path: str) -> bool:
    """Tell whether a path stays within the folder it is put into, on every system."""
    return bool(_PATH.fullmatch(path)) and not any(
        step in {"", ".", ".."} or step.endswith((" ", ".")) or _names_device(step) for step in path.split("/")
    )


def _names_device(step: str) -> bool:
    """Tell whether Windows takes a name for a device, whatever follows its first dot."""
    return step.partition(".")[0].rstrip().upper() in _DEVICES


def _parse_file(sibling: _RepositorySibling) -> RepoFile:
    lfs = sibling.lfs
    size = lfs.size if lfs is not None and lfs.size else sibling.size
    if size is None or not 0 <= size <= MAX_FILE_BYTES:
        raise _nonsense_fault()
    sha256 = lfs.sha256 if lfs is not None and _SHA256.fullmatch(lfs.sha256) else ""
    return RepoFile(
        path=sibling.rfilename,
        size=size,
        sha256=sha256,
        oid=sibling.blobId if _COMMIT.fullmatch(sibling.blobId) else "",
    )


def _decode_answer(answer: bytes, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(answer, type=kind, strict=False)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise _nonsense_fault() from None


def _text_list(value: object) -> list[str]:
    values = value if isinstance(value, list) else [value]
    return [item for item in values if isinstance(item, str)]


def _nonsense_fault() -> Unavailable:
    return Unavailable("The hub's answer could not be understood.", hint="Try again later.", code="hub_unreachable")


_TOKEN = "`roundhouse token set`"  # noqa: S105 -- a command


def repository_page(endpoint: str, name: str) -> str:
    """Return a repository's page for people."""
    return f"{endpoint.rstrip('/')}/{name}"


def what_to_do(endpoint: str, name: str, *, has_token: bool) -> str:
    """Return what opens a gated repository, in a sentence."""
    accept = f"Open {repository_page(endpoint, name)}, sign in and accept its terms"
    if has_token:
        return f"{accept} with the account your token belongs to; some publishers approve each request by hand."
    return f"{accept}; then create a read token at {endpoint.rstrip('/')}/settings/tokens and give it to {_TOKEN}."


def check_gate(endpoint: str, repository: Repository, path: str, *, token: str = "") -> None:
    """Ask for a byte of a file of a gated repository. Raises Forbidden (hub_gated) with what to do."""
    if not repository.gated:
        return
    remote = RemoteHost(
        endpoint, Purpose(why=ConnectionReason.MODEL, about=repository.name), token=token, budget=ReadBudget()
    )
    address = resolve_address(endpoint, repository.name, repository.commit, path)
    try:
        remote.open_address(address, {"Range": "bytes=0-0"}).close()
    except (Unauthorized, Forbidden):
        raise Forbidden(
            f"{repository.name} is gated: its terms must be accepted first.",
            hint=what_to_do(endpoint, repository.name, has_token=bool(token)),
            code="hub_gated",
        ) from None
