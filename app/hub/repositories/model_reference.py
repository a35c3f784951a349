"""What people type or paste to name a model on a hub: a repository, a file of it, an address, or a name with a tag.

org/repo                       org/repo:Q4_K_M            org/repo@branch          org/repo/file.gguf
hf.co/org/repo:Q4_K_M          hf://org/repo              https://huggingface.co/org/repo/tree/branch
https://huggingface.co/org/repo/resolve/main/file.gguf    qwen3:8b (a name of the catalogue)
library/qwen3:8b, ollama.com/library/qwen3 (the same, as Ollama writes it)
"""

import re
from urllib.parse import unquote, urlsplit

import msgspec

from app.core.errors import BadRequest, quote_value

_HOSTS = frozenset({"hf.co", "www.hf.co", "huggingface.co", "www.huggingface.co"})
_PAGES = frozenset({"tree", "blob", "resolve", "raw"})
_PART = re.compile(r"[A-Za-z0-9][\w.-]{0,95}")
_TAG = re.compile(r"[A-Za-z0-9][\w.+-]{0,63}")
_REVISION = re.compile(r"[A-Za-z0-9][\w./-]{0,127}")
_LIBRARY = re.compile(r"(?:https?://)?(?:(?:www\.|registry\.)?ollama\.(?:com|ai)/)?library/", re.IGNORECASE)
"""What Ollama puts in front of the names of its own library."""
_LONGEST = 512


class ModelReference(msgspec.Struct, frozen=True, kw_only=True):
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


def parse_reference(text: str, *, endpoint: str = "") -> ModelReference:
    """Return what a text names; addresses on the configured `endpoint` count as the hub's own.

    Raises BadRequest (bad_model_name) with what would be understood.
    """
    typed_text = text.strip()
    if not typed_text or len(typed_text) > _LONGEST or not typed_text.isprintable():
        raise _bad_reference(text)
    library = _LIBRARY.match(typed_text)
    if library is not None and "/" not in typed_text[library.end() :]:
        return _parse_name(typed_text[library.end() :], typed_text)
    scheme, separator, rest = typed_text.partition("://")
    if separator:
        return _parse_address(scheme.lower(), rest, typed_text, endpoint)
    host, slash, path = typed_text.partition("/")
    if slash and host.lower() in _HOSTS:
        return _parse_name(path, typed_text)
    return _parse_name(typed_text, typed_text)


def _parse_address(scheme: str, rest: str, typed_text: str, endpoint: str) -> ModelReference:
    if scheme in {"hf", "huggingface"}:
        return _parse_name(rest, typed_text)
    own = urlsplit(endpoint).netloc.lower()
    try:
        parts = urlsplit(typed_text)
        host = (parts.hostname or "").lower()
        is_hub = host in _HOSTS or (own and parts.netloc.lower() == own)
    except ValueError:
        raise _bad_reference(typed_text) from None
    if scheme not in {"http", "https"} or not is_hub or parts.username:
        raise BadRequest(
            f"Models are downloaded from the hub, not from {quote_value(host or typed_text)}.",
            hint="Write owner/name, or download the file yourself and use `roundhouse import`.",
            code="bad_model_name",
        )
    return _parse_page([unquote(step) for step in parts.path.split("/") if step], typed_text)


def _parse_page(steps: list[str], typed_text: str) -> ModelReference:
    """Read the path of one of the hub's pages: owner/name[/tree|blob|resolve/revision[/file]]."""
    if len(steps) <= 2 or steps[2] not in _PAGES:  # noqa: PLR2004 -- owner and name
        return _parse_name("/".join(steps), typed_text)
    owner, name, page, *more = steps
    if not more:
        raise _bad_reference(typed_text)
    reference = _parse_name(f"{owner}/{name}", typed_text)
    file = "/".join(more[1:]) if page != "tree" else ""
    return _check_reference(msgspec.structs.replace(reference, revision=more[0], file=file), typed_text)


def _parse_name(text: str, typed_text: str) -> ModelReference:
    rest, _, tag = text.rstrip("/").partition(":")
    name, _, revision = rest.partition("@")
    steps = name.split("/")
    if any(not _PART.fullmatch(step) for step in steps[:2]) or (tag and not _TAG.fullmatch(tag)):
        raise _bad_reference(typed_text)
    if len(steps) == 1:
        return ModelReference(catalogue=name, revision=revision, quantization=tag)
    repository, file = "/".join(steps[:2]), "/".join(steps[2:])
    return _check_reference(
        ModelReference(repository=repository, revision=revision, quantization=tag, file=file), typed_text
    )


def _check_reference(reference: ModelReference, typed_text: str) -> ModelReference:
    steps = reference.file.split("/") if reference.file else []
    if any(step in {"", ".", ".."} or "\\" in step for step in steps):
        raise _bad_reference(typed_text)
    if reference.revision and (not _REVISION.fullmatch(reference.revision) or ".." in reference.revision):
        raise _bad_reference(typed_text)
    return reference


def _bad_reference(text: str) -> BadRequest:
    return BadRequest(
        f"{quote_value(text.strip())} is not a model.",
        hint="Write owner/name, owner/name:Q4_K_M, owner/name@branch, an address on huggingface.co, or a short name.",
        code="bad_model_name",
    )
