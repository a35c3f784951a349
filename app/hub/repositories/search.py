"""What a hub finds: one page of repositories with what tells their formats, sizes and terms.

Blocks; call it from a thread. A listing says less than a description and is believed less: what a repository really
offers is known once it has been described (`repository`).

Repositories that hold the same model put together: what was quantised from the same base is one model.

A repository says what it was made from, and how. Where a quantised one does not, its name does: publishers add the
format and the quantisation to the name they took. A finetune or a merge is a model of its own.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import PurePosixPath
from urllib.parse import parse_qs, urlencode, urlsplit

import msgspec

from app.core.connections import ConnectionReason, Purpose
from app.core.errors import Unavailable
from app.core.hub import HubCard, HubQuery, HubSearchHit, HubSort, HubTask
from app.hub.library.candidates import split_stem
from app.hub.library.companions import kind_by_name
from app.hub.repositories.ranges import ReadBudget, RemoteHost
from app.hub.repositories.repository import REPOSITORY
from app.hub.repositories.variants import PICKLES, quantization_of

PAGE = 60
"""Repositories asked for at once: about 20 models, as each is there in a handful of forms."""
MAX_ANSWER_BYTES = 16 << 20
_FIELDS = (
    "downloads",
    "gated",
    "gguf",
    "lastModified",
    "library_name",
    "likes",
    "pipeline_tag",
    "safetensors",
    "siblings",
    "tags",
)
_TASKS = {
    HubTask.CHAT: "text-generation",
    HubTask.VISION: "image-text-to-text",
    HubTask.EMBEDDING: "feature-extraction",
    HubTask.RERANK: "text-ranking",
}
_TASK_OF = {tag: task.value for task, tag in _TASKS.items()} | {
    "any-to-any": "vision",
    "sentence-similarity": "embedding",
    "text2text-generation": "chat",
}
_SORTS = {
    HubSort.DOWNLOADS: "downloads",
    HubSort.LIKES: "likes",
    HubSort.RECENT: "lastModified",
    HubSort.TRENDING: "trendingScore",
}
_TAGS = {"onnx-genai": "onnxruntime-genai", "mlc": "mlc-llm", "tensorrt": "tensorrt-llm", "safetensors": "safetensors"}
"""What the hub calls a format where it is not our name for it."""
_PACKED = ("exl3", "exl2", "awq", "gptq", "nvfp4", "mxfp4", "fp8", "compressed-tensors", "mlx")
"""Formats kept in safetensors files, told by a tag or the repository's name; the first that is said counts."""
_PARAMETERS = re.compile(r"(?:^|[-_ ])(\d{1,4}(?:\.\d{1,3})?)([bm])(?=$|[-_ .])", re.IGNORECASE)


class RepositoryHit(msgspec.Struct, frozen=True, kw_only=True):
    """One repository, and the one it says it was made from."""

    found: HubSearchHit
    base: str = ""
    relation: str = ""
    """"quantized", "finetune", "merge", "adapter"; empty where only a base is named."""


class SearchPage(msgspec.Struct, frozen=True, kw_only=True):
    """One page of what was found; `next` leads to the following one."""

    listed: list[RepositoryHit]
    next: str = ""


class _SearchSibling(msgspec.Struct):
    rfilename: str = ""


class _Gguf(msgspec.Struct):
    total: int | None = None
    architecture: str = ""
    context_length: int | None = None


class _Safetensors(msgspec.Struct):
    total: int | None = None


class _Item(msgspec.Struct):
    id: str = ""
    tags: list[str] = []
    siblings: list[_SearchSibling] | None = None
    gguf: _Gguf | None = None
    safetensors: _Safetensors | None = None
    gated: bool | str = False
    pipeline_tag: str | None = None
    library_name: str | None = None
    downloads: int = 0
    likes: int = 0
    lastModified: str = ""  # noqa: N815 -- the hub's name


def search_hub(endpoint: str, query: HubQuery, *, token: str = "") -> SearchPage:
    """Return one page of what fits. Raises what the hub's refusals mean."""
    remote = RemoteHost(endpoint, Purpose(why=ConnectionReason.SEARCH), token=token, budget=ReadBudget())
    address = f"{remote.endpoint}/api/models?{urlencode(list(_query_parameters(query)))}"
    with remote.open_address(address, {}) as answer:
        content = remote.read_answer(answer, MAX_ANSWER_BYTES)
        next_cursor = _next_cursor(answer.headers.get("Link", ""))
    try:
        items = msgspec.json.decode(content, type=list[_Item], strict=False)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise Unavailable(
            "The hub's answer could not be understood.", hint="Try again later.", code="hub_unreachable"
        ) from None
    hits = (_build_hit(item) for item in items if REPOSITORY.fullmatch(item.id))
    return SearchPage(listed=[hit for hit in hits if _fits_query(hit.found, query)], next=next_cursor)


def _query_parameters(query: HubQuery) -> Iterator[tuple[str, str]]:
    yield "limit", str(PAGE)
    yield "sort", _SORTS[query.sort]
    yield "direction", "-1"
    if query.text.strip():
        yield "search", " ".join(query.text.split())
    if query.publisher:
        yield "author", query.publisher
    if query.task is not None:
        yield "pipeline_tag", _TASKS[query.task]
    if query.format:
        yield "filter", _TAGS.get(query.format, query.format)
    if query.licence:
        yield "filter", f"license:{query.licence}"
    if query.gated is not None:
        yield "gated", str(query.gated).lower()
    if query.page:
        yield "cursor", query.page
    for field in _FIELDS:
        yield "expand", field


def _next_cursor(link: str) -> str:
    """Return the cursor of a `Link` header's next page. Its address is not followed: only where it stands counts."""
    for part in link.split(","):
        address, _, relation = part.partition(";")
        if 'rel="next"' in relation:
            return parse_qs(urlsplit(address.strip(" <>")).query).get("cursor", [""])[0]
    return ""


def _fits_query(repository: HubSearchHit, query: HubQuery) -> bool:
    """Tell whether it fits what the hub was not asked, or may not have heeded."""
    if not repository.formats and not repository.problem:
        return False
    size = repository.parameters
    if query.min_parameters is not None and (size is None or size < query.min_parameters):
        return False
    if query.max_parameters is not None and (size is None or size > query.max_parameters):
        return False
    if query.gated is not None and repository.gated is not query.gated:
        return False
    if query.format and query.format not in repository.formats:
        return False
    return query.days is None or _is_since(repository.modified, datetime.now(UTC) - timedelta(days=query.days))


def _is_since(modified_at: str, then: datetime) -> bool:
    try:
        return datetime.fromisoformat(modified_at) >= then
    except (TypeError, ValueError):  # nothing said, or without a zone
        return False


def _build_hit(item: _Item) -> RepositoryHit:
    files = [sibling.rfilename for sibling in item.siblings or ()]
    tags = {tag.casefold() for tag in item.tags}
    formats = list(dict.fromkeys(_guess_formats(item, files, tags)))
    has_pickles = any(file.endswith(PICKLES) for file in files)
    relation, base = _find_base(item.tags)
    repository = HubSearchHit(
        repository=item.id,
        formats=formats,
        quantizations=_list_quantizations(item.id, files),
        parameters=_count_parameters(item),
        trained_context=item.gguf.context_length if item.gguf else None,
        architecture=item.gguf.architecture if item.gguf else "",
        task=_TASK_OF.get(item.pipeline_tag or "", ""),
        licence=next((tag.removeprefix("license:") for tag in item.tags if tag.startswith("license:")), ""),
        gated=bool(item.gated),
        needs_remote_code="custom_code" in tags and "gguf" not in formats,
        downloads=max(0, item.downloads),
        likes=max(0, item.likes),
        modified=item.lastModified,
        problem="Its weights are pickle files only, which can run programs." if has_pickles and not formats else "",
    )
    return RepositoryHit(found=repository, base=base, relation=relation)


def _guess_formats(item: _Item, files: Iterable[str], tags: set[str]) -> Iterator[str]:
    names = {PurePosixPath(file).name for file in files}
    suffixes = {PurePosixPath(name).suffix.lower() for name in names}
    if ".gguf" in suffixes:
        yield "gguf"
    if "genai_config.json" in names:
        yield "onnx-genai"
    if names & {"openvino_model.xml", "openvino_language_model.xml"}:
        yield "openvino"
    if "mlc-chat-config.json" in names:
        yield "mlc"
    words = tags | {(item.library_name or "").casefold()} | set(re.split(r"[-_/. ]", item.id.casefold()))
    packed_format = next((kind for kind in _PACKED if kind in words), "")
    if packed_format in {"exl2", "exl3"}:  # the main branch often holds a description only
        yield packed_format
    elif ".safetensors" in suffixes and "config.json" in names:
        yield packed_format or "safetensors"


def _list_quantizations(repository: str, files: Iterable[str]) -> list[str]:
    from app.hub.shapes import split_name  # noqa: PLC0415 -- the gateway starts without it

    ggufs = [PurePosixPath(file).name for file in files if file.lower().endswith(".gguf")]
    names_found = [quantization_of(split_stem(name)) for name in ggufs if kind_by_name(name) is None]
    return list(dict.fromkeys(filter(None, names_found))) or list(filter(None, [split_name(repository)[1]]))


def _count_parameters(item: _Item) -> int | None:
    """Return how many parameters it has: as its name says, as packed files count their integers and not what is in."""
    matches = _PARAMETERS.findall(item.id.partition("/")[2])
    if matches:
        count, unit = matches[0]
        return round(float(count) * (1e9 if unit.lower() == "b" else 1e6))
    if item.gguf is not None and item.gguf.total:
        return item.gguf.total
    return item.safetensors.total if item.safetensors else None


def _find_base(tags: Iterable[str]) -> tuple[str, str]:
    """Return the relation to the repository it was made from, and that; the first that says how."""
    relations = [tag.removeprefix("base_model:").rpartition(":") for tag in tags if tag.startswith("base_model:")]
    known_relations = [(relation, base) for relation, _, base in relations if REPOSITORY.fullmatch(base)]
    return next(
        (relation_and_base for relation_and_base in known_relations if relation_and_base[0]),
        known_relations[0] if known_relations else ("", ""),
    )


_FARTHEST = 5
"""Steps from a quantised model to what it was made from: one, or two where somebody quantised an unpacked copy."""
_FORM = re.compile(
    r"[-_. ](?:i1|gguf|mlx|exl[23]|awq|gptq|fp8|nvfp4|mxfp4|bnb|openvino|ov|onnx|mlc|qat|quantized|dynamic|unsloth"
    r"|imatrix|int[48]|w[48]a(?:16|8)|\d(?:\.\d+)?bpw|h\d|\d-?bit|g\d+|bf16|f16|fp16|dwq|q\d[a-z0-9_]*)$",
    re.IGNORECASE,
)
_ORIGINAL = frozenset({"safetensors"})


def group_cards(hits: Sequence[RepositoryHit]) -> list[HubCard]:
    """Return one card per model, in the order in which the models were found first."""
    by_name = {hit.found.repository: hit for hit in hits}
    bases = {hit.found.repository: _find_origin(hit, by_name) for hit in hits}
    known_bases = {fold_repository(base): base for base in bases.values() if base}
    groups: dict[str, list[HubSearchHit]] = {}
    titles: dict[str, str] = {}
    for hit in hits:
        base = bases[hit.found.repository] or known_bases.get(
            fold_repository(hit.found.repository), hit.found.repository
        )
        key = fold_repository(base) if base == hit.found.repository and not _is_original(hit.found) else base.casefold()
        groups.setdefault(key, []).append(hit.found)
        titles.setdefault(key, base)
    return [_build_card(titles[key], repositories) for key, repositories in groups.items()]


def fold_repository(repository: str) -> str:
    """Return what is left of a repository's name without publisher, format and quantisation, for comparing."""
    from app.hub.shapes import split_name  # noqa: PLC0415 -- the gateway starts without it

    name = repository.rpartition("/")[2]
    while (shorter := _FORM.sub("", split_name(name)[0])) != name and shorter:
        name = shorter
    return name.casefold()


def _is_original(repository: HubSearchHit) -> bool:
    return bool(_ORIGINAL & set(repository.formats))


def _find_origin(hit: RepositoryHit, by_name: Mapping[str, RepositoryHit]) -> str:
    """Return the repository a model's weights are from; empty where a quantised one does not say."""
    base, at = "", hit
    for _step in range(_FARTHEST):
        if not at.base or at.base == at.found.repository or not _is_same_model(at):
            break
        base = at.base
        if base not in by_name:
            return base
        at = by_name[base]
    return base or (hit.found.repository if _is_original(hit.found) else "")


def _is_same_model(hit: RepositoryHit) -> bool:
    if hit.relation:
        return hit.relation == "quantized"
    return fold_repository(hit.base) == fold_repository(hit.found.repository)


def _build_card(base: str, repositories: Sequence[HubSearchHit]) -> HubCard:
    ordered_repositories = sorted(
        repositories, key=lambda repository: (bool(repository.problem), -repository.downloads, repository.repository)
    )
    original = next((repository for repository in ordered_repositories if repository.repository == base), None)
    known_parameters = [
        repository for repository in ([original] if original else []) + ordered_repositories if repository.parameters
    ]
    return HubCard(
        base=base,
        title=_card_title(base),
        repositories=ordered_repositories,
        parameters=known_parameters[0].parameters if known_parameters else None,
        downloads=sum(repository.downloads for repository in ordered_repositories),
    )


def _card_title(base: str) -> str:
    """Return the model's name as its page has it, without what only says how it is packed."""
    name = base.rpartition("/")[2]
    while (shorter := _FORM.sub("", name)) != name and shorter:
        name = shorter
    return name
