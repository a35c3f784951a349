"""What routers count themselves, on our page: under their own names, with the fleet and the router as labels.

Only lines that are well-formed are taken, so that nothing a router writes makes our page unreadable.
"""

import re
from collections.abc import Iterable, Iterator

import msgspec

from app.gateway.watching.metrics import escape_label, is_number

LARGEST_PAGE = 512 << 10
"""Bytes of one router's page; a larger one is left out."""
_OURS = "roundhouse_"
_NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]{0,199}"
_LABELS = r'(?:[a-zA-Z_]\w{0,99}="(?:[^"\\]|\\.){0,1000}",?){0,50}'
_SAMPLE = re.compile(rf"({_NAME})(?:{{({_LABELS})}})? ([-+.0-9A-Za-z]{{1,40}})(?: -?\d{{1,20}})?", re.ASCII)
_HEADER = re.compile(rf"# (?:(HELP) ({_NAME})(?: .*)?|(TYPE) ({_NAME}) (?:counter|gauge|histogram|summary|untyped))")
_SUFFIX = re.compile(r"_(?:bucket|sum|count|total|created)$")
_LABEL = re.compile(r'(\w{1,100})(="(?:[^"\\]|\\.){0,1000}")', re.ASCII)
_TAKEN = frozenset({"fleet", "router"})


class RouterPage(msgspec.Struct, frozen=True, kw_only=True):
    """The page of one fleet's router."""

    fleet: str
    router: str
    text: str


def merge_pages(pages: Iterable[RouterPage]) -> str:
    """Return the lines of all pages, those of one metric together, each metric described once."""
    headers: dict[str, dict[str, str]] = {}
    samples: dict[str, list[str]] = {}
    for page in pages:
        _read_page(page, headers, samples)
    lines = (line for name, values in samples.items() for line in (*headers.get(name, {}).values(), *values))
    return "".join(f"{line}\n" for line in lines)


def _read_page(page: RouterPage, headers: dict[str, dict[str, str]], samples: dict[str, list[str]]) -> None:
    descriptions: dict[str, dict[str, str]] = {}
    ours = f'fleet="{escape_label(page.fleet)}",router="{escape_label(page.router)}"'
    for line in _lines_of(page):
        if header := _HEADER.fullmatch(line):
            descriptions.setdefault(header[2] or header[4], {}).setdefault(header[1] or header[3], line)
        elif (sample := _SAMPLE.fullmatch(line)) and is_number(sample[3]):
            name = sample[1] if sample[1] in descriptions else _SUFFIX.sub("", sample[1])
            family = name if name in descriptions else sample[1]
            samples.setdefault(family, []).append(f"{sample[1]}{{{_join_labels(ours, sample[2])}}} {sample[3]}")
    for name, lines in descriptions.items():
        headers.setdefault(name, lines)


def _lines_of(page: RouterPage) -> Iterator[str]:
    """Yield its lines, none of which says anything in our name."""
    if len(page.text) <= LARGEST_PAGE:
        yield from (line for line in page.text.split("\n") if _OURS not in line.partition("{")[0])


def _join_labels(ours: str, theirs: str | None) -> str:
    """Return all labels; theirs of the same name become `exported_...`, as Prometheus calls them itself."""
    return f"{ours},{_LABEL.sub(_rename_label, theirs)}".rstrip(",") if theirs else ours


def _rename_label(label: re.Match[str]) -> str:
    return f"exported_{label[0]}" if label[1] in _TAKEN else label[0]
