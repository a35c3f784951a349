"""The docs name what is there: links lead to pages, names to code, and the file lists of CONTRIBUTING to files."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
TOP = tuple(ROOT / f"{name}.md" for name in ("README", "ARCHITECTURE", "CONTRIBUTING", "CHANGELOG"))
PAGES = (*TOP, *sorted(DOCS.rglob("*.md")))
ABOUT_CODE = (ROOT / "ARCHITECTURE.md", ROOT / "CONTRIBUTING.md")
FOLDERS = ("guide", "images", "internals", "reference")

LINK = re.compile(r"\]\((?P<path>[\w./-]*)(?:#(?P<anchor>[\w-]+))?\)")
NAME = re.compile(r"(?<![\w./-])(?:app|engines|tests)(?:\.\w+)+")
PATH = re.compile(r"`((?:app|engines|tests|docs|resources|packaging|\.ci)/[^`\s:]*|\.ci/run)`")
PAGE_IN_TEXT = re.compile(r"(?<![\w./-])docs/[\w/.-]*\w\.(?:md|svg|png)\b")
FENCE = re.compile(r"```.*?```", re.DOTALL)


def text_of(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


each_page = pytest.mark.parametrize("page", PAGES, ids=name_of)


def anchors(page: Path) -> set[str]:
    """Return what can be linked to in a page: its headings, as GitHub writes them."""
    headings = re.findall(r"^#+ (.+)$", FENCE.sub("", text_of(page)), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def broken_links(page: Path) -> Iterator[str]:
    for link in LINK.finditer(FENCE.sub("", text_of(page))):
        target = (page.parent / link["path"]).resolve() if link["path"] else page
        if not target.exists() or (link["anchor"] and link["anchor"] not in anchors(target)):
            yield link[0]


@each_page
def test_every_link_leads_somewhere(page: Path) -> None:
    assert not list(broken_links(page))


def test_a_link_to_a_page_or_heading_that_is_gone_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# Here\n[a](page.md#here) [b](page.md#gone) [c](gone.md) [d](#here)\n", encoding="utf-8")
    assert list(broken_links(page)) == ["](page.md#gone)", "](gone.md)"]


def test_every_page_has_its_place_and_the_first_page_leads_to_it() -> None:
    assert {path.name for path in DOCS.iterdir()} == {"README.md", *FOLDERS}
    first = text_of(DOCS / "README.md")
    missing_pages = [
        name_of(page) for page in DOCS.glob("*/*.md") if f"({page.relative_to(DOCS).as_posix()})" not in first
    ]
    assert not missing_pages


def test_code_names_only_pages_that_are_there() -> None:
    tops = ("app", "engines", "packaging", "tests")
    kinds = {".py", ".sh", ".iss", ".toml"}
    files = [path for top in tops for path in (ROOT / top).rglob("*") if path.suffix in kinds] + [ROOT / "Makefile"]
    mentions = [(path, page) for path in files for page in PAGE_IN_TEXT.findall(text_of(path))]
    assert len(mentions) > 5
    assert not [f"{name_of(path)}: {page}" for path, page in mentions if not (ROOT / page).exists()]


@cache
def parse_file(path: Path) -> ast.Module:
    return ast.parse(text_of(path))


def list_definitions(body: list[ast.stmt]) -> dict[str, list[ast.stmt]]:
    """Return what is defined in a module or class, each with what is defined in it."""
    names: dict[str, list[ast.stmt]] = {}
    for node in body:
        match node:
            case ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef():
                names[node.name] = node.body
            case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
                names[name] = []
    return names


def exists(dotted_name: str) -> bool:
    """Tell whether a dotted path is a package, a module, or something defined in one."""
    path, rest = ROOT, dotted_name.split(".")
    while rest and (path / rest[0]).is_dir():
        path /= rest.pop(0)
    if not rest:
        return (path / "__init__.py").exists()
    module = path / f"{rest.pop(0)}.py"
    body = parse_file(module).body if module.is_file() else None
    for name in rest:
        body = None if body is None else list_definitions(body).get(name)
    return body is not None


@pytest.mark.parametrize("page", ABOUT_CODE, ids=name_of)
def test_every_name_of_code_is_defined(page: Path) -> None:
    names = NAME.findall(text_of(page))
    assert names
    assert not [name for name in names if not exists(name)]


@pytest.mark.parametrize(
    ("dotted_name", "there"),
    [
        ("app.core", True),
        ("app.gateway.exchange.handling.answer_request", True),
        ("app.supervisor.pool.Supervisor.lease", True),
        ("app.gateway.exchange.handling.gone", False),
        ("app.supervisor.pool.Supervisor.gone", False),
        ("app.gone.handle", False),
    ],
)
def test_a_name_is_looked_up_in_its_module_and_class(dotted_name: str, *, there: bool) -> None:
    assert exists(dotted_name) is there


def is_path(path: str) -> bool:
    pattern = re.sub(r"NAME\*?|<[\w-]+>", "*", path).rstrip("/")
    return any(True for _ in ROOT.glob(pattern))


@each_page
def test_every_path_of_the_repository_is_there(page: Path) -> None:
    if page.name != "CHANGELOG.md":  # tells of what was, too
        assert not [path for path in PATH.findall(text_of(page)) if not is_path(path)]


def test_the_list_of_folders_is_whole() -> None:
    listing = text_of(ROOT / "ARCHITECTURE.md").split("## Folders")[1].split("```")[1]
    folders = re.findall(r"^([\w/]+)  ", listing, re.MULTILINE)
    assert not [folder for folder in folders if not (ROOT / folder).is_dir()]
    assert {f"app/{path.name}" for path in (ROOT / "app").iterdir() if (path / "__init__.py").exists()} <= set(folders)
    below = re.split(r"^app/gateway .*$", listing, flags=re.MULTILINE)[1].split("\napp/")[0]
    parts = set(re.findall(r"^ {2}(\w+)", below, re.MULTILINE))
    assert parts == {path.name for path in (ROOT / "app" / "gateway").iterdir() if (path / "__init__.py").exists()}


class Row(NamedTuple):
    """A file of a list, or a pattern of files, with NAME for what is added."""

    pattern: str
    need: str

    def files(self, name: str) -> set[str]:
        return {name_of(path) for path in ROOT.glob(self.pattern.replace("NAME", name).replace("**", "*"))}


class FileList(NamedTuple):
    """What is added, the example that the list is checked with, where its own files lie, and what refers to it."""

    heading: str
    example: str
    home: str
    referrers: tuple[str, ...]
    """Folders and files in which whatever refers to the example has to be on the list."""
    reference: str

    def rows(self) -> list[Row]:
        section = text_of(ROOT / "CONTRIBUTING.md").split(f"## {self.heading}\n")[1].split("\n## ")[0]
        assert f"`{self.example}`" in section.partition("|")[0], "the example is named before the table"
        return [Row(*row) for row in re.findall(r"^\| `([^`]+)` \|.*\| ([^|]+) \|$", section, re.MULTILINE)]

    def list_referring(self) -> set[str]:
        """Return the files that refer to the example, apart from its own."""
        pattern, home = re.compile(self.reference), self.home.replace("NAME", self.example)
        tops = (ROOT / top for top in self.referrers)
        files = (path for top in tops for path in (top.rglob("*.py") if top.is_dir() else [top]))
        return {name_of(path) for path in files if path.parent != ROOT / home and pattern.search(text_of(path))}


LISTS = [
    FileList(
        "Adding a screen",
        "connections",
        "app/gui/screens/NAME",
        ("app/gui", "tests/gui", "tests/demo"),
        r"screens\.connections\b|demo import[^\n]*\bconnections\b|\bPages?\.CONNECTIONS\b|CONNECTIONS = \"",
    ),
    FileList(
        "Adding a dialect",
        "lmstudio",
        "app/gateway/dialects/NAME",
        ("app/gateway/app.py", "app/gateway/admin", "app/gateway/dialects", "app/gateway/exchange"),
        r"dialects\.lmstudio\b|LM_STUDIO = \"",
    ),
    FileList("Adding an engine", "tgi", "engines/NAME", ("app", "engines"), r"\bengines\.tgi\b"),
]
each_list = pytest.mark.parametrize("files", LISTS, ids=lambda files: files.example)


@each_list
def test_what_is_always_needed_is_there_of_the_example(files: FileList) -> None:
    rows = files.rows()
    assert len(rows) > 5
    assert not [row.pattern for row in rows if row.need == "always" and not row.files(files.example)]


@pytest.mark.slow(cases=1)
@each_list
def test_the_example_has_no_file_that_is_not_listed(files: FileList) -> None:
    listed_files = {file for row in files.rows() for file in row.files(files.example)}
    own = {name_of(path) for path in (ROOT / files.home.replace("NAME", files.example)).rglob("*") if path.is_file()}
    assert {file for file in own if "__pycache__" not in file} <= listed_files
    assert files.list_referring() <= listed_files


@each_list
def test_whatever_is_listed_exists_of_some_example(files: FileList) -> None:
    assert not [row.pattern for row in files.rows() if not row.files("*")]


def test_every_screen_and_dialect_has_what_is_always_needed() -> None:
    for files in LISTS[:2]:
        homes = [path.parent for path in ROOT.glob(f"{files.home.replace('NAME', '*')}/__init__.py")]
        always = [row for row in files.rows() if row.need == "always" and row.pattern.startswith(files.home)]
        assert not [(home.name, row.pattern) for home in homes for row in always if not row.files(home.name)]
