"""The tables of the docs that come from what engines say of themselves: `python -m tests.engine_docs --write`.

Each stands between two comments, `<!-- engines: NAME -->` and `<!-- end -->`, on the page that has it; `NAME` is one of
`TABLES`. Everything around them is written by hand.
"""

import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from app.advisor.choosing.wording import SUBJECTS
from app.engine_store.recipe import read_recipes
from app.gateway.advising.engine_table import engine_table
from engines.api import Descriptor, EngineAdapter, EngineFamily
from engines.api.traits import GuideNeed, MachineKind
from engines.flags import WORDS, FlagTable, TakesFlags
from engines.registry import ADAPTERS

DOCS = Path(__file__).resolve().parents[1] / "docs"
RAN = "Run for real "
SYSTEMS = {"linux": "Linux", "darwin": "macOS", "win32": "Windows"}
WORK = {
    GuideNeed.LOCAL: "one person",
    GuideNeed.AGENT: "an agent",
    GuideNeed.STRUCTURED: "answers to a schema",
    GuideNeed.LORAS: "several adapters",
    GuideNeed.LONG: "long contexts",
    GuideNeed.MOE: "mixtures of experts",
    GuideNeed.BATCH: "batches",
    GuideNeed.TEAM: "a team",
    GuideNeed.SERVING: "an API",
    GuideNeed.SERVING_SHAPED: "several people with schemas, adapters, long contexts or experts",
    GuideNeed.FLEET: "a fleet",
    GuideNeed.APP: "an app",
    GuideNeed.BROWSER: "a browser or phone",
}
_SPAN = re.compile(r"(?P<begin><!-- engines: (?P<name>[a-z-]+) -->)(?P<text>.*?)(?P<end><!-- end -->)", re.DOTALL)


def engine_rows() -> Iterator[str]:
    """Yield the table of every engine: formats, systems, how it comes, what was run."""
    yield from heading("engine", "reads", "systems", "how it comes", "run for real")
    for adapter in ADAPTERS.values():
        about = adapter.descriptor
        formats = ", ".join(sorted(kind.value for kind in about.formats))
        name = f"{about.name} (`{about.id}`{', legacy' if about.legacy else ''})"
        yield line(name, formats, systems(about.platforms), comes(adapter), ran(adapter))


def options() -> Iterator[str]:
    """Yield the table of which option is which flag, for engines that are told on a command line."""
    engines = [
        (adapter.descriptor, adapter.flag_table) for adapter in ADAPTERS.values() if isinstance(adapter, TakesFlags)
    ]
    yield from heading("option", *(table.engine for _, table in engines))
    for option, words in WORDS.items():
        yield line(f"{words} (`{option}`)", *(flags(about, table, option) for about, table in engines))


def guide() -> Iterator[str]:
    """Yield the decision guide: which engines suit which machine and work, the best first."""
    yield from heading("machine", "work", "engines, the best first")
    nearly_everywhere = {need: most_common(need) for need in (GuideNeed.APP, GuideNeed.BROWSER)}
    for kind in MachineKind:
        usual = row(kind, GuideNeed.LOCAL)
        works: dict[str, list[str]] = {usual: [WORK[GuideNeed.LOCAL]]}
        for need in GuideNeed:
            if row(kind, need) not in {usual, nearly_everywhere.get(need)}:
                works.setdefault(row(kind, need), []).append(WORK[need])
        for engines, work in works.items():
            yield line(SUBJECTS[kind], "; ".join(work), engines)
    for need, engines in nearly_everywhere.items():
        yield line("any other", WORK[need], engines)


def most_common(need: GuideNeed) -> str:
    """Return the row that most kinds of machine have for a need."""
    return Counter(row(kind, need) for kind in MachineKind).most_common(1)[0][0]


def ids() -> Iterator[str]:
    """Yield the ids of the engines that are advised."""
    yield f"`{' '.join(engine_table())}`"


TABLES: dict[str, Callable[[], Iterator[str]]] = {"list": engine_rows, "options": options, "guide": guide, "ids": ids}


def heading(*cells: str) -> Iterator[str]:
    """Yield the first two lines of a table."""
    yield line(*cells)
    yield f"|{'---|' * len(cells)}"


def line(*cells: str) -> str:
    """Return one line of a table."""
    return f"| {' | '.join(cells)} |"


def systems(platforms: Iterable[str]) -> str:
    """Return platforms as people call them."""
    return ", ".join(name for key, name in SYSTEMS.items() if key in platforms)


def comes(adapter: EngineAdapter) -> str:
    """Return how an engine comes to a machine."""
    about = adapter.descriptor
    recipe = read_recipes().get(about.id)
    if recipe is not None:
        names = ", ".join(f"`{variant.name}`" for variant in recipe.variants)
        there = {platform for variant in recipe.variants for platform in variant.platforms}
        return f"`engines install`: {names}{'' if there == about.platforms else f', on {systems(there)} alone'}"
    if about.family is EngineFamily.EXTERNAL:
        return "`roundhouse attach`"
    return "its image, if it is here" if about.family is EngineFamily.CONTAINER else "not by Roundhouse"


def ran(adapter: EngineAdapter) -> str:
    """Return where an engine was run for real, in its own words."""
    sentence = adapter.descriptor.verified
    return sentence.removeprefix(RAN).partition(":")[0].rstrip(".") if sentence.startswith(RAN) else "never; played"


def flags(about: Descriptor, table: FlagTable, option: str) -> str:
    """Return the flags one option turns into."""
    rows = [flag for flag in table.flags if flag.option == option]
    if not rows or (option == "threads" and about.chooses_threads):
        return "refused"
    names = " ".join(f"`{name}`" for flag in rows for name in flag.names if name.startswith("--"))
    return names or "by other means"


def row(kind: MachineKind, need: GuideNeed) -> str:
    """Return the engines the guide names, by name."""
    return ", ".join(engine.name for engine in engine_table().row(kind, need))


def as_generated(page: str) -> str:
    """Return a page with every table as it would be written now."""
    return _SPAN.sub(lambda match: f"{match['begin']}{_text(match['name'])}{match['end']}", page)


def _text(name: str) -> str:
    lines = list(TABLES[name]())
    return lines[0] if len(lines) == 1 else "\n".join(("\n", *lines, "\n"))


def pages() -> dict[Path, str]:
    """Return the text of every page that has such a table."""
    texts = {path: path.read_text(encoding="utf-8") for path in sorted(DOCS.rglob("*.md"))}
    return {path: text for path, text in texts.items() if _SPAN.search(text)}


def main() -> int:
    """Write the tables, or tell which pages have others than they should; 1 if there are any."""
    stale = {path: as_generated(text) for path, text in pages().items() if as_generated(text) != text}
    for path, text in stale.items():
        if "--write" in sys.argv:
            path.write_text(text, encoding="utf-8")
        sys.stdout.write(f"{path.relative_to(DOCS.parent)}\n")
    return 0 if "--write" in sys.argv else int(bool(stale))


if __name__ == "__main__":
    sys.exit(main())
