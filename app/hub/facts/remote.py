"""The facts of a model that is not here: its headers and configuration only, fetched from a hub or an address.

Blocks; call it from a thread.
"""

import re
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import PurePosixPath
from typing import TypeVar
from urllib.parse import quote, unquote, urlsplit

import msgspec

from app.core.connections import ConnectionReason, Purpose
from app.core.errors import BadRequest, NotFound, TooLarge, quote_value
from app.core.model_facts import ModelFacts
from app.hub.facts.capabilities import MAX_BYTES as MAX_TEMPLATE_BYTES
from app.hub.facts.capabilities import template_in
from app.hub.facts.folders import INDEX, MAX_INDEX_BYTES, SEPARATE, select_shards, shard_names, with_quantization
from app.hub.facts.gguf import facts_of_headers
from app.hub.facts.hugging_face import FolderContent, facts_of
from app.hub.facts.json_text import MAX_BYTES, Object, parse_object
from app.hub.facts.safetensors import read_safetensors
from app.hub.gguf.header import WINDOW_BYTES, read_header
from app.hub.library.candidates import split_parts, split_stem
from app.hub.library.companions import kind_by_name
from app.hub.repositories.ranges import RemoteHost, RemoteSource
from app.hub.sources import ByteSource

ENDPOINT = "https://huggingface.co"
CONNECTIONS = 6
"""At once, for the parts of one model."""
SHARD_BYTES = 64 << 10
"""Of a shard to begin with: most headers are shorter, and a model may have hundreds."""
MAX_LISTING_BYTES = 8 << 20
USUAL_QUANTIZATION = "Q4_K_M"
"""What most people take of a model in many quantisations."""
MAX_NAMED = 20
"""Files that a hint names."""
_REPOSITORY = re.compile(r"^[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95}$")
_REVISION = re.compile(r"^[A-Za-z0-9][\w.-]{0,127}$")
_PATH = re.compile(r"^[^\x00-\x1f\\?#%]{1,512}$")


class _RemoteSibling(msgspec.Struct):
    rfilename: str = ""


class _SiblingList(msgspec.Struct):
    siblings: list[_RemoteSibling] = []


class _RemoteRepository:
    """One revision of a repository on a hub, and the addresses of what is in it."""

    def __init__(self, remote: RemoteHost, name: str, revision: str) -> None:
        if not _REPOSITORY.match(name) or not _REVISION.match(revision):
            raise BadRequest(
                f"{quote_value(name)} is not a model name.", hint="Write it as owner/name.", code="bad_address"
            )
        self.remote = remote
        self.name = name.partition("/")[2]
        self._base = f"{remote.endpoint}/{name}/resolve/{revision}"
        self._listing = f"{remote.endpoint}/api/models/{name}/revision/{revision}"

    def file_address(self, path: str) -> str:
        """Return where a file is. Raises BadRequest for a path that leads elsewhere."""
        if not _PATH.match(path) or any(step in ("", ".", "..") for step in path.split("/")):
            raise BadRequest(f"{quote_value(path)} is not a model file.", code="bad_address")
        return f"{self._base}/{quote(path)}"

    def read_text(self, path: str, limit: int) -> bytes:
        """Return a small file. Raises NotFound and what else the network raises."""
        return self.remote.read_small_file(self.file_address(path), limit)

    def text_if_there(self, path: str, limit: int) -> bytes:
        """Return a small file, or nothing if there is none."""
        try:
            return self.read_text(path, limit)
        except NotFound:
            return b""

    def list_files(self) -> list[str]:
        """Return the names of all files; none if the hub does not list them."""
        try:
            listing = msgspec.json.decode(
                self.remote.read_small_file(self._listing, MAX_LISTING_BYTES), type=_SiblingList
            )
        except (NotFound, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return []
        return [sibling.rfilename for sibling in listing.siblings if _PATH.match(sibling.rfilename)]


def read_remote_facts(
    repo_or_url: str, *, filename: str = "", revision: str = "main", endpoint: str = ENDPOINT, token: str = ""
) -> ModelFacts:
    """Return the facts of a GGUF file at an https address, or of a repository ("owner/name") on a hub.

    Of a repository, `filename` names a GGUF file (a part stands for all), or "owner/name:Q4_K_M" a quantisation;
    without either, configuration and safetensors headers are read, or of several GGUF models the usual one.
    `endpoint` is trusted as configured, plain http included; everything else has to be https.
    Raises NotFound, Unauthorized, Forbidden, BadRequest, TooLarge or Unavailable.
    """
    about = urlsplit(repo_or_url).hostname or "" if "://" in repo_or_url else repo_or_url.partition(":")[0]
    remote = RemoteHost(endpoint, Purpose(why=ConnectionReason.MODEL, about=about), token=token)
    if "://" in repo_or_url:
        return _read_gguf(remote, [repo_or_url])
    name, _, quantization = repo_or_url.partition(":")
    repository = _RemoteRepository(remote, name, revision)
    if filename:
        return _gguf_parts(repository, filename)
    return _whole_repository(repository, quantization)


def _gguf_parts(repository: _RemoteRepository, filename: str) -> ModelFacts:
    return _read_gguf(repository.remote, [repository.file_address(part) for part in _part_paths(filename)])


def _part_paths(path: str) -> list[str]:
    """Return the paths of all parts of the model a path within a repository belongs to."""
    folder, slash, name = path.rpartition("/")
    return [f"{folder}{slash}{part}" for part in split_parts(name)]


def _read_gguf(remote: RemoteHost, urls: Sequence[str]) -> ModelFacts:
    headers = _read_all(remote, urls, read_header)
    stem = split_stem(PurePosixPath(unquote(urlsplit(urls[0]).path)).name)
    return facts_of_headers(headers, name=stem)


def _whole_repository(repository: _RemoteRepository, quantization: str) -> ModelFacts:
    files = repository.list_files()
    models = _model_files({_part_paths(name)[0] for name in files if name.endswith(".gguf")})
    if quantization or (models and "config.json" not in files):
        return _gguf_parts(repository, _choose_model(repository, models, quantization))
    config = parse_object(repository.read_text("config.json", MAX_BYTES), "config.json")
    shards = _find_shards(repository, files)
    headers = _read_all(
        repository.remote,
        [repository.file_address(shard) for shard in shards],
        read_safetensors,
        block_bytes=SHARD_BYTES,
    )
    content = FolderContent(
        config=_add_separate_quantization(repository, config, files),
        tensors=[tensor for header in headers for tensor in header.tensors],
        header_format=next((header.format for header in headers if header.format), ""),
        file_bytes=sum(header.file_bytes for header in headers),
        chat_template=_read_template(repository),
    )
    return facts_of(content, name=repository.name, source="safetensors headers" if headers else "configuration")


def _model_files(ggufs: set[str]) -> list[str]:
    """Return those that are models: all, if every one is named like what goes with one."""
    return sorted(name for name in ggufs if kind_by_name(name) is None) or sorted(ggufs)


def _choose_model(repository: _RemoteRepository, models: list[str], quantization: str) -> str:
    """Return the model of that quantisation; without one the only model, or the one in the usual quantisation."""
    if len(models) == 1 and not quantization:
        return models[0]
    folded_quantization = (quantization or USUAL_QUANTIZATION).casefold()
    matches = [name for name in models if _is_quantized(split_stem(name).casefold(), folded_quantization)]
    if len(matches) != 1:
        raise BadRequest(
            f"{repository.name} holds {len(models)} GGUF models.",
            hint="Choose one of them: " + ", ".join(models[:MAX_NAMED]) + "." if models else "",
            code="model_unsupported",
        )
    return matches[0]


def _is_quantized(stem: str, folded_quantization: str) -> bool:
    """Whether a file's name ends in that quantisation, and not only in a part of another ("UD-Q4_K_M")."""
    rest = stem.removesuffix(folded_quantization)
    return rest != stem and rest[-1:] in "-._" and not rest.endswith("ud-")


def _find_shards(repository: _RemoteRepository, files: list[str]) -> list[str]:
    """Return the safetensors files by the index or the list of files; none where only a configuration is."""
    index = repository.text_if_there(INDEX, MAX_INDEX_BYTES) if INDEX in files or not files else b""
    if index:
        return shard_names(index)
    if files:
        return select_shards([name for name in files if "/" not in name], repository.name)
    try:
        repository.remote.open_address(repository.file_address("model.safetensors"), {"Range": "bytes=0-7"}).close()
    except NotFound:
        return []
    return ["model.safetensors"]


def _add_separate_quantization(repository: _RemoteRepository, config: Object, files: list[str]) -> Object:
    texts = {name: repository.text_if_there(name, MAX_BYTES) for name in SEPARATE if name in files}
    return with_quantization(config, {name: parse_object(text, name) for name, text in texts.items() if text})


def _read_template(repository: _RemoteRepository) -> str:
    """Return the chat template, which is no reason to refuse a model if it cannot be had."""
    try:
        own = repository.text_if_there("chat_template.jinja", MAX_TEMPLATE_BYTES)
        return own.decode(errors="replace") or template_in(
            repository.read_text("tokenizer_config.json", MAX_TEMPLATE_BYTES)
        )
    except (NotFound, TooLarge):
        return ""


Header = TypeVar("Header")


def _read_all(
    remote: RemoteHost, urls: Sequence[str], read: Callable[[ByteSource], Header], *, block_bytes: int = WINDOW_BYTES
) -> list[Header]:
    """Return the headers of several files in their order. The first failure ends it."""

    def read_one(url: str) -> Header:
        with closing(RemoteSource(remote, url, block_bytes=block_bytes)) as source:
            return read(source)

    with ThreadPoolExecutor(max_workers=CONNECTIONS) as pool:
        return list(pool.map(read_one, urls))
