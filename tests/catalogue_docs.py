"""The table of the catalogue's models and names in the docs: `python -m tests.catalogue_docs --write`."""

import re
import sys
from collections.abc import Iterator

from app.core import words
from app.hub.repositories.catalogue import SHIPPED, parse_catalogue
from tests.engine_docs import DOCS, heading, line

PAGE = DOCS / "reference" / "models.md"
_SPAN = re.compile(r"(?P<begin><!-- catalogue -->\n).*?(?P<end><!-- end -->)", re.DOTALL)


def as_generated(page: str) -> str:
    """Return the page with its table as it would be written now."""
    return _SPAN.sub(lambda found: "\n".join((found["begin"], *_list_models(), "", found["end"])), page)


def _list_models() -> Iterator[str]:
    yield from heading("model", "names", "parameters", "good for", "formats", "licence", "released")
    for entry in parse_catalogue(SHIPPED.read_bytes()).models:
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


def main() -> int:
    """Write the table, or return 1 if the page has another than it should."""
    text = PAGE.read_text(encoding="utf-8")
    if "--write" in sys.argv:
        PAGE.write_text(as_generated(text), encoding="utf-8")
        return 0
    return int(as_generated(text) != text)


if __name__ == "__main__":
    sys.exit(main())
