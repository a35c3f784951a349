"""The tables of the catalogue's models and names in the docs: `python -m tests.catalogue_docs --write`."""

import re
import sys
from collections.abc import Iterator
from functools import cache

from app.core import words
from app.hub.repositories.catalogue import SHIPPED, parse_catalogue
from app.hub.repositories.catalogue_entry import CatalogueEntry
from app.hub.repositories.catalogue_facts import catalogue_facts
from tests.engine_docs import DOCS, heading, line

PAGE = DOCS / "reference" / "models.md"
_SPAN = re.compile(r"(?P<begin><!-- catalogue: (?P<table>\w+) -->\n).*?(?P<end><!-- end -->)", re.DOTALL)


def as_generated(page: str) -> str:
    """Return the page with its tables as they would be written now."""
    tables = {"models": _list_models, "branches": _list_branches, "unshaped": _list_unshaped}
    return _SPAN.sub(lambda match: "\n".join((match["begin"], *tables[match["table"]](), "", match["end"])), page)


@cache
def shipped_entries() -> list[CatalogueEntry]:
    """Return the models of the catalogue. What is computed of an entry is kept by which object it is."""
    return parse_catalogue(SHIPPED.read_bytes()).models


def _list_models() -> Iterator[str]:
    yield from heading("model", "names", "parameters", "good for", "formats", "licence", "released")
    for entry in shipped_entries():
        active = f", {words.format_parameters(entry.active_parameters)} active" if entry.active_parameters else ""
        yield line(
            f"{entry.title}{' (unchecked)' if entry.unchecked else ''}",
            ", ".join(f"`{name}`" for name in entry.names),
            f"{words.format_parameters(entry.parameters or None)}{active}",
            ", ".join(entry.good_for),
            ", ".join(entry.repositories),
            entry.licence,
            entry.released,
        )


def _list_branches() -> Iterator[str]:
    yield from heading("model", "repository", "bit rate on branch")
    for entry in shipped_entries():
        for place, branches in entry.branches.items():
            rates = ", ".join(f"{rate} on {f'`{name}`' if name else '(unchecked)'}" for rate, name in branches.items())
            yield line(entry.title, place, rates)


def _list_unshaped() -> Iterator[str]:
    """Yield the models of which nobody states what they are made of, so that they are sized by parameters alone."""
    yield from heading("model", "good for", "stated", "not stated")
    for entry in shipped_entries():
        if catalogue_facts(entry, "BF16", format="safetensors") is None:
            stated_facts = {"parameters": entry.parameters, "width": entry.hidden, "KV heads": entry.kv_heads}
            lacks = {"parameters": entry.parameters, "layers": entry.layers, "width": entry.hidden}
            yield line(
                entry.title,
                ", ".join(entry.good_for),
                ", ".join(name for name, value in stated_facts.items() if value),
                ", ".join(name for name, value in lacks.items() if not value),
            )


def main() -> int:
    """Write the table, or return 1 if the page has another than it should."""
    text = PAGE.read_text(encoding="utf-8")
    if "--write" in sys.argv:
        PAGE.write_text(as_generated(text), encoding="utf-8")
        return 0
    return int(as_generated(text) != text)


if __name__ == "__main__":
    sys.exit(main())
