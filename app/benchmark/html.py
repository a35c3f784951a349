"""Receipts as one HTML file that needs nothing beside itself: figures, plots, and what was measured how."""

from collections.abc import Iterator, Sequence
from html import escape

import msgspec

from app.benchmark.markdown import DISTURBED, FIGURES, HEAD, level_cells, summary_lines
from app.benchmark.plots import make_plots, svg_of
from app.core.benchmarks import BenchmarkReceipt

_STYLE = """
:root { color-scheme: light dark; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 1080px; margin: 32px auto; padding: 0 16px; }
table { border-collapse: collapse; margin: 12px 0; font-variant-numeric: tabular-nums; font-size: 13px; }
th, td { text-align: left; padding: 4px 12px 4px 0; }
tr { border-bottom: 1px solid color-mix(in srgb, currentColor 20%, transparent); }
.plots { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(420px, 100%), 1fr)); gap: 24px; }
figure { margin: 0; }
.levels { overflow-x: auto; }
.warn { font-weight: 600; }
code { font-size: 12px; overflow-wrap: anywhere; }
"""


def html_report(receipts: Sequence[BenchmarkReceipt]) -> str:
    """Return the report of one or several receipts."""
    title = " against ".join(dict.fromkeys(receipt.title for receipt in receipts)) or "Benchmark"
    return "\n".join(
        [
            '<!doctype html><html lang="en"><head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{escape(title)}</title><style>{_STYLE}</style></head><body>",
            f"<h1>{escape(title)}</h1>",
            '<div class="plots">',
            *(f"<figure>{svg_of(plot)}</figure>" for plot in make_plots(receipts)),
            "</div>",
            *(part for receipt in receipts for part in _receipt_parts(receipt)),
            f"<h2>What the figures mean</h2><p>{escape(FIGURES)}</p>",
            "</body></html>",
        ]
    )


def _receipt_parts(receipt: BenchmarkReceipt) -> Iterator[str]:
    first, *rest = summary_lines(receipt)
    yield f"<h2>{escape(first)}</h2>"
    yield '<div class="levels"><table><tr>' + "".join(f"<th>{escape(name)}</th>" for name in HEAD) + "</tr>"
    for level in receipt.levels:
        yield "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in level_cells(level)) + "</tr>"
    yield "</table></div>"
    for line in rest:
        mark = ' class="warn"' if line.startswith(DISTURBED) else ""
        yield f"<p{mark}>{escape(line)}</p>"
    yield "<details><summary>How it was measured</summary><table>"
    for name, value in _facts(receipt):
        yield f"<tr><th>{escape(name)}</th><td><code>{escape(value)}</code></td></tr>"
    yield "</table></details>"


def _facts(receipt: BenchmarkReceipt) -> Iterator[tuple[str, str]]:
    """Yield what a replay needs, by the names that the receipt has."""
    yield "roundhouse", receipt.roundhouse
    for part in (receipt.target, receipt.machine, receipt.settings):
        for name, value in msgspec.to_builtins(part).items():
            if value not in ("", None, [], {}):
                yield name, value if isinstance(value, str) else msgspec.json.encode(value).decode()
    yield "prompts_sha256", receipt.prompts_sha256
