"""Figures that a command writes into a page of the docs, between `<!-- NAME -->` and `<!-- end -->`."""

import re
from pathlib import Path


def write_span(page: Path, name: str, text: str) -> None:
    """Replace what stands between the marks. Raises ValueError for a page without them."""
    span = re.compile(rf"(?P<begin><!-- {re.escape(name)} -->\n).*?(?P<end><!-- end -->)", re.DOTALL)
    written_text, count = span.subn(
        lambda match: f"{match['begin']}\n{text.strip()}\n\n{match['end']}", page.read_text(encoding="utf-8")
    )
    if count != 1:
        raise ValueError(f"{page} has {count} places for {name}.")
    page.write_text(written_text, encoding="utf-8")
