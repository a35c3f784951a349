"""What the window says, taken from its source: `python -m tests.window_texts --write` writes it down for translators.

`CATALOGUE` is a gettext template: every sentence that a call of `app.core.translation` holds, with the files that have
it. `stray_words` finds what would be shown in English in every language, or could not be translated as it stands.
"""

import ast
import re
import string
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from app.config.table import SETTINGS

ROOT = Path(__file__).resolve().parents[1]
CATALOGUE = ROOT / "resources" / "translations" / "window.pot"
FOLDERS = ("app/core", "app/gui")
"""Where the window's words are made: its own folder, and what it shares with the command line."""

HEADER = """\
# The window's sentences. Written by `python -m tests.window_texts --write`, which `make fix` runs.
msgid ""
msgstr ""
"Content-Type: text/plain; charset=UTF-8\\n"
"Content-Transfer-Encoding: 8bit\\n"
"Plural-Forms: nplurals=2; plural=(n != 1);\\n"
"""

FORMS = {"tr": 1, "LazyText": 1, "tr_plural": 2}
"""How many sentences each of them takes, before other arguments."""
NAMES = {"Roundhouse", "KiB", "MiB", "GiB", "TiB", "Python", "hf_…", "Esc", "Metal", "Vulkan", "WebGPU", "DirectML"}
"""What is called the same in every language."""
UNCHECKED = ("app/gui/theme/",)
"""Rules for Qt, and names of colours and fonts."""
CHECKED = ("app/gui/", "app/core/words.py", "app/core/connections.py")
NOT_SHOWN = {"re.compile", "TypeVar", "cast", "setObjectName", "setProperty", "setStyle", "setApplicationName"}
SHOWN_ARGUMENTS = {
    "text",
    "title",
    "sentence",
    "words",
    "name",
    "tip",
    "hint",
    "placeholder",
    "label",
    "message",
    "more",
}
"""What our widgets are made with that comes before a person's eyes or ears."""
SHOWING = {
    *("setText", "setToolTip", "setAccessibleName", "setAccessibleDescription", "setPlaceholderText", "addAction"),
    *("setWindowTitle", "addMenu", "setStatusTip", "getOpenFileName", "getExistingDirectory", "getSaveFileName"),
    *("set_text", "set_title", "show_toast", "show_message", "show_value", "show_text", "ask", "confirm"),
}
"""Methods of Qt's and ours that show whatever text they are given."""
NO_PROSE = {"_UNFOLDED", "_SNIPPETS", "_KEY_HEADER", "_LANGUAGES", "_LADDER", "_FORM_EXAMPLES"}
"""Code to copy, and names of programming languages and of instructions."""
KEYED = {"NumberOption", "BarPart", "ChoiceRow", "SwitchRow", "ParserRow", "ModelSettingRow"}
"""Those whose `name` is a key, and not shown."""
_SENTENCE = re.compile(r"[A-Za-z]{2}.*\s\S|\s[A-Za-z]{2}|^[A-Z][a-z]|…", re.DOTALL)
_GLUE = re.compile(r"\s[A-Za-z]|[A-Za-z]\s|[A-Z][a-z]")
_LETTERS = re.compile(r"[^\W\d_]{2}")
_NO_WORDS = re.compile(r"(Ctrl|Alt|Shift)[+ ]|[/#%{]|https?:|Bearer ")
_FRAGMENT = re.compile(r"^[\s,.;:)]|\s$|\}\{")


@dataclass(frozen=True, slots=True)
class Entry:
    """One sentence of the catalogue; `many` is its plural, empty for none."""

    one: str
    many: str = ""


@dataclass(slots=True)
class Source:
    """One file: its sentences in their order, and what is wrong with its words."""

    name: str
    entries: list[Entry] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)

    def add_fault(self, node: ast.AST, fault: str) -> None:
        """Note what is wrong, and where."""
        self.faults.append(f"{self.name}:{getattr(node, 'lineno', 0)}: {fault}")


class _Reader(ast.NodeVisitor):
    """Walks through one file. Docstrings, logs and what is raised for programmers are passed over."""

    def __init__(self, source: Source, parameters: dict[str, list[str]]) -> None:
        self._source, self._parameters = source, parameters
        self._functions = 0

    def visit_Expr(self, node: ast.Expr) -> None:
        if not isinstance(node.value, ast.Constant):
            self.generic_visit(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        for default in [*node.args.defaults, *filter(None, node.args.kw_defaults), *node.decorator_list]:
            self.visit(default)
        self._visit_inside(node.body)

    def visit_Lambda(self, node: ast.Lambda) -> None:
        self._visit_inside([node.body])

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)

    def visit_Assign(self, node: ast.Assign) -> None:
        if not any(isinstance(target, ast.Name) and target.id in NO_PROSE for target in node.targets):
            self.generic_visit(node)

    def visit_Raise(self, node: ast.Raise) -> None:
        del node

    def visit_Call(self, node: ast.Call) -> None:
        name = name_of(node)
        if name in FORMS and isinstance(node.func, ast.Name):
            self._read_sentence(node, name)
        elif name in NOT_SHOWN or ast.unparse(node.func) in NOT_SHOWN or ast.unparse(node.func).startswith("_log."):
            return
        else:
            self._check_arguments(node, name)
            self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        if isinstance(node.op, ast.Add) and any(is_translated(side) for side in (node.left, node.right)):
            self._source.add_fault(node, f"glued from pieces: {ast.unparse(node)}")
        self.generic_visit(node)

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        letters = "".join(str(part.value) for part in node.values if isinstance(part, ast.Constant))
        if _GLUE.search(letters) and not _NO_WORDS.match(letters) and letters.strip(" :") not in NAMES:
            self._source.add_fault(node, f"words in an f-string: {ast.unparse(node)}")
        for part in node.values:
            if isinstance(part, ast.FormattedValue):
                self.visit(part.value)

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, str) and _SENTENCE.search(node.value) and not is_code(node.value):
            self._source.add_fault(node, f"not translated: {node.value!r}")

    def _visit_inside(self, body: list[ast.stmt] | list[ast.expr]) -> None:
        self._functions += 1
        for node in body:
            self.visit(node)
        self._functions -= 1

    def _read_sentence(self, node: ast.Call, name: str) -> None:
        count = FORMS[name]
        values = [arg.value for arg in node.args[:count] if isinstance(arg, ast.Constant)]
        sentences = [value for value in values if isinstance(value, str) and value]
        if len(sentences) != count:
            self._source.add_fault(node, f"the sentence is no literal: {ast.unparse(node)}")
            return
        if name != "LazyText" and not self._functions:
            self._source.add_fault(node, f"translated at import, before there is a language: {ast.unparse(node)}")
        self._check_sentence(node, name, sentences)
        self._source.entries.append(Entry(*sentences))
        for value in [*node.args[count:], *(keyword.value for keyword in node.keywords)]:
            self.visit(value)

    def _check_sentence(self, node: ast.Call, name: str, sentences: list[str]) -> None:
        value_names = {keyword.arg or "" for keyword in node.keywords} | ({"count"} if name == "tr_plural" else set())
        expected_names = [placeholders(text) for text in sentences]
        if name == "tr" and expected_names[0] != value_names:
            self._source.add_fault(node, f"values {sorted(value_names)} for {sentences[0]!r}")
        if name == "tr_plural" and not (expected_names[0] <= value_names == expected_names[1] | {"count"}):
            self._source.add_fault(node, f"values {sorted(value_names)} for {sentences!r}")
        if any(_FRAGMENT.search(text) for text in sentences):
            self._source.add_fault(node, f"a piece of a sentence: {sentences[0]!r}")

    def _check_arguments(self, node: ast.Call, name: str) -> None:
        names = [] if name in KEYED else self._parameters.get(name, [])
        args: list[ast.expr] = [
            arg for arg, parameter in zip(node.args, names, strict=False) if parameter in SHOWN_ARGUMENTS
        ]
        if names or name in SHOWING:
            args += [keyword.value for keyword in node.keywords if keyword.arg in SHOWN_ARGUMENTS]
        args += node.args if name in SHOWING else []
        for literal in (literal for value in args for literal in literals(value)):
            if _LETTERS.search(literal) and not _SENTENCE.search(literal) and not is_code(literal):
                self._source.add_fault(node, f"not translated: {literal!r} in {ast.unparse(node)}")


def name_of(node: ast.Call) -> str:
    """Return the last part of what is called."""
    if isinstance(node.func, ast.Attribute):
        return node.func.attr
    return node.func.id if isinstance(node.func, ast.Name) else ""


def is_translated(node: ast.expr) -> bool:
    """Tell whether this is a sentence on its way to a person."""
    return isinstance(node, ast.Call) and name_of(node) in {"tr", "tr_plural"}


def is_code(text: str) -> bool:
    """Tell whether a text is a name, a key, a path or a format rather than words."""
    return text in NAMES or _NO_WORDS.match(text) is not None


def literals(node: ast.expr) -> Iterator[str]:
    """Yield the texts that an argument may be: itself, or either side of a choice."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif isinstance(node, ast.IfExp):
        yield from literals(node.body)
        yield from literals(node.orelse)
    elif isinstance(node, ast.BoolOp):
        for value in node.values:
            yield from literals(value)


def placeholders(text: str) -> set[str]:
    """Return the names in braces. Raises ValueError for braces that are none."""
    return {name for _, name, _, _ in string.Formatter().parse(text) if name is not None}


def parameter_names(trees: list[ast.Module]) -> dict[str, list[str]]:
    """Return what every class of the window is made with, by its name."""
    classes = (node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ClassDef))
    return {node.name: class_parameters(node) for node in classes}


def class_parameters(node: ast.ClassDef) -> list[str]:
    """Return the parameters of its `__init__`, or its fields."""
    for item in node.body:
        if isinstance(item, ast.FunctionDef) and item.name == "__init__":
            return [arg.arg for arg in item.args.args if arg.arg != "self"]
    return [
        item.target.id for item in node.body if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name)
    ]


def read_sources() -> list[Source]:
    """Read all files that make words for the window, by their names."""
    paths = [path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py"))]
    trees = {path: ast.parse(path.read_text(encoding="utf-8")) for path in paths}
    parameters = parameter_names(list(trees.values()))
    return [read_source(path.relative_to(ROOT).as_posix(), tree, parameters) for path, tree in trees.items()]


def read_source(name: str, tree: ast.Module, parameters: dict[str, list[str]]) -> Source:
    """Read one file."""
    source = Source(name)
    _Reader(source, parameters).visit(tree)
    return source


def setting_entries() -> list[Entry]:
    """Return what the settings are called and do: the window translates what the gateway sends of its table."""
    return [Entry(text) for setting in SETTINGS for text in (setting.title, setting.help) if text]


def stray_words(sources: list[Source]) -> list[str]:
    """Return what is wrong with the words of the files that only the window's words are made in."""
    checked_sources = [
        item for item in sources if item.name.startswith(CHECKED) and not item.name.startswith(UNCHECKED)
    ]
    return [fault for source in checked_sources for fault in source.faults]


def catalogue(sources: list[Source]) -> str:
    """Return the template: each sentence once, with every file that has it, in the order they are read."""
    places: dict[Entry, list[str]] = {}
    for source in [*sources, Source("app/config/table.py", setting_entries())]:
        for entry in source.entries:
            files = places.setdefault(entry, [])
            if source.name not in files:
                files.append(source.name)
    return HEADER + "".join(f"\n{_format_entry(entry, files)}" for entry, files in places.items())


def _format_entry(entry: Entry, files: list[str]) -> str:
    lines = [f"#: {name}" for name in files]
    if placeholders(entry.one) | placeholders(entry.many):
        lines.append("#, python-brace-format")
    lines.append(f"msgid {_quote(entry.one)}")
    if entry.many:
        lines += [f"msgid_plural {_quote(entry.many)}", 'msgstr[0] ""', 'msgstr[1] ""']
    else:
        lines.append('msgstr ""')
    return "\n".join(lines) + "\n"


def _quote(text: str) -> str:
    escaped_text = text.replace("\\", "\\\\").replace('"', '\\"').replace("\t", "\\t")
    first, *rest = [f'"{line}"' for line in escaped_text.replace("\n", "\\n\n").splitlines()]
    return "\n".join(['""', first, *rest]) if rest else first.replace("\n", "")


def main() -> int:
    """Write the catalogue, or tell whether it is stale and which words are astray; 1 if there are any."""
    sources = read_sources()
    text = catalogue(sources)
    if "--write" in sys.argv:
        CATALOGUE.parent.mkdir(exist_ok=True)
        CATALOGUE.write_text(text, encoding="utf-8")
        return 0
    faults = stray_words(sources)
    if not CATALOGUE.exists() or CATALOGUE.read_text(encoding="utf-8") != text:
        faults.append(f"{CATALOGUE.relative_to(ROOT)} is stale")
    sys.stdout.writelines(f"{fault}\n" for fault in faults)
    return int(bool(faults))


if __name__ == "__main__":
    sys.exit(main())
