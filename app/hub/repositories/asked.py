"""What people type or paste to name a model on a hub: a repository, a file of it, an address, or a name with a tag.

org/repo                       org/repo:Q4_K_M            org/repo@branch          org/repo/file.gguf
hf.co/org/repo:Q4_K_M          hf://org/repo              https://huggingface.co/org/repo/tree/branch
https://huggingface.co/org/repo/resolve/main/file.gguf    qwen3:8b (a name of the catalogue)
"""

import re
from urllib.parse import unquote, urlsplit

import msgspec

from app.core.errors import BadRequest

_HOSTS = frozenset({"hf.co", "www.hf.co", "huggingface.co", "www.huggingface.co"})
_PAGES = frozenset({"tree", "blob", "resolve", "raw"})
_PART = re.compile(r"[A-Za-z0-9][\w.-]{0,95}")
_TAG = re.compile(r"[A-Za-z0-9][\w.+-]{0,63}")
_REVISION = re.compile(r"[A-Za-z0-9][\w./-]{0,127}")
_LONGEST = 512


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """What was named. Either `repository` ("owner/name") or `catalogue` is set; everything else may be empty."""

    repository: str = ""
    revision: str = ""
    """A branch, a tag or a commit."""
    quantization: str = ""
    """As typed after a colon: "Q4_K_M", or a size such as "8b" of a name of the catalogue."""
    file: str = ""
    """A path within the repository."""
    catalogue: str = ""
    """A short name without an owner."""

    @property
    def text(self) -> str:
        """The shortest spelling that means the same."""
        name = self.repository or self.catalogue
        revision = f"@{self.revision}" if self.revision else ""
        return name + revision + (f"/{self.file}" if self.file else "") + self._tag

    @property
    def _tag(self) -> str:
        return f":{self.quantization}" if self.quantization else ""


def parse(text: str, *, endpoint: str = "") -> Asked:
    """Return what a text names; addresses on the configured `endpoint` count as the hub's own.

    Raises BadRequest (bad_model_name) with what would be understood.
    """
    typed = text.strip()
    if not typed or len(typed) > _LONGEST or not typed.isprintable():
        raise _not_understood(text)
    scheme, separator, rest = typed.partition("://")
    if separator:
        return _address(scheme.lower(), rest, typed, endpoint)
    host, slash, path = typed.partition("/")
    if slash and host.lower() in _HOSTS:
        return _named(path, typed)
    return _named(typed, typed)


def _address(scheme: str, rest: str, typed: str, endpoint: str) -> Asked:
    if scheme in {"hf", "huggingface"}:
        return _named(rest, typed)
    own = urlsplit(endpoint).netloc.lower()
    try:
        parts = urlsplit(typed)
        host = (parts.hostname or "").lower()
        is_hub = host in _HOSTS or (own and parts.netloc.lower() == own)
    except ValueError:
        raise _not_understood(typed) from None
    if scheme not in {"http", "https"} or not is_hub or parts.username:
        raise BadRequest(
            f"Models are downloaded from the hub, not from {host or typed!r}.",
            hint="Write owner/name, or download the file yourself and use `roundhouse import`.",
            code="bad_model_name",
        )
    return _page([unquote(step) for step in parts.path.split("/") if step], typed)


def _page(steps: list[str], typed: str) -> Asked:
    """Read the path of one of the hub's pages: owner/name[/tree|blob|resolve/revision[/file]]."""
    if len(steps) <= 2 or steps[2] not in _PAGES:  # noqa: PLR2004 -- owner and name
        return _named("/".join(steps), typed)
    owner, name, page, *more = steps
    if not more:
        raise _not_understood(typed)
    found = _named(f"{owner}/{name}", typed)
    file = "/".join(more[1:]) if page != "tree" else ""
    return _checked(msgspec.structs.replace(found, revision=more[0], file=file), typed)


def _named(text: str, typed: str) -> Asked:
    rest, _, tag = text.rstrip("/").partition(":")
    name, _, revision = rest.partition("@")
    steps = name.split("/")
    if any(not _PART.fullmatch(step) for step in steps[:2]) or (tag and not _TAG.fullmatch(tag)):
        raise _not_understood(typed)
    if len(steps) == 1:
        return Asked(catalogue=name, revision=revision, quantization=tag)
    repository, file = "/".join(steps[:2]), "/".join(steps[2:])
    return _checked(Asked(repository=repository, revision=revision, quantization=tag, file=file), typed)


def _checked(asked: Asked, typed: str) -> Asked:
    steps = asked.file.split("/") if asked.file else []
    if any(step in {"", ".", ".."} or "\\" in step for step in steps):
        raise _not_understood(typed)
    if asked.revision and (not _REVISION.fullmatch(asked.revision) or ".." in asked.revision):
        raise _not_understood(typed)
    return asked


def _not_understood(text: str) -> BadRequest:
    shown = text.strip()[:80]
    return BadRequest(
        f"{shown!r} is not a model.",
        hint="Write owner/name, owner/name:Q4_K_M, owner/name@branch, an address on huggingface.co, or a short name.",
        code="bad_model_name",
    )
