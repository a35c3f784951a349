"""What the names and the files of the tree come to, in figures: `python -m tests.name_figures` prints the table.

`python -m tests.name_figures FOLDER...` lists the definitions below these folders whose names say too little instead,
and the variables: parameters, locals and fields that a participle alone names (`kept`), and no noun (`kept_samples`).
A name is judged by its first word; words that end like a participle and are the field's nouns or plain verbs are none.
"""

import ast
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import msgspec

ROOT = Path(__file__).resolve().parents[1]
CODE = ("app", "engines")
TESTS = ("tests",)

SHORT_MODULE_LINES = 80
LONG_FILE_LINES, LONG_FUNCTION_LINES = 500, 60
MANY_MODULES = 3
"""A class name that stands in as many modules as this says nothing where it is imported."""

PLAIN_ENDINGS = {
    # verbs and things that only end that way
    *("bring", "embed", "feed", "need", "ping", "proceed", "ring", "seed", "shed", "deed"),
    *("speed", "sibling", "string", "anything", "nothing", "something", "thing"),
    # the field's nouns
    *("embedding", "embeddings", "encoding", "heading", "listing", "mapping", "reasoning", "sampling", "setting"),
    *(
        "ceiling",
        "drawing",
        "framing",
        "keyring",
        "settings",
        "thinking",
        "timing",
        "training",
        "turing",
        "warning",
        "wiring",
        "wording",
    ),
}
IRREGULAR_PARTICIPLES = {
    *("begun", "bent", "born", "borne", "bought", "bound", "broken", "brought", "built", "caught"),
    *("chosen", "done", "drawn", "driven", "fallen", "fed", "felt", "forgotten", "found", "frozen"),
    *("given", "gone", "grown", "heard", "held", "hidden", "kept", "known", "laid", "led"),
    *("left", "lent", "lost", "made", "meant", "paid", "risen", "said", "seen", "sent"),
    *("shown", "sold", "spent", "spoken", "stuck", "taken", "told", "torn", "understood", "undone"),
    *("unfrozen", "unsaid", "unseen", "untold", "withdrawn", "won", "worn", "written"),
}
_WORD = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z0-9]+|[A-Z]+")


class Definition(msgspec.Struct, frozen=True):
    """A function or a class, and where it stands."""

    path: str
    qualname: str
    is_class: bool
    is_module_level: bool

    @property
    def name(self) -> str:
        """The last part of the qualified name."""
        return self.qualname.rpartition(".")[2]

    @property
    def words(self) -> list[str]:
        """The words of the name, in lower case: `_ReadOnly` and `read_only` are both two."""
        return [word.lower() for word in _WORD.findall(self.name)]

    @property
    def is_led_by_participle(self) -> bool:
        """Whether its first word says what was done to something, and not what it is or does."""
        return bool(self.words) and is_participle(self.words[0])

    @property
    def is_participle_alone(self) -> bool:
        """Whether nothing but a participle names it."""
        return self.is_led_by_participle and len(self.words) == 1


class Variable(msgspec.Struct, frozen=True, order=True):
    """A parameter, a local or a field, and the function or class that it belongs to."""

    path: str
    scope: str
    name: str

    @property
    def is_participle_alone(self) -> bool:
        """Whether nothing but a participle names it, so that a reader has to look for what it is."""
        word = self.name.strip("_")
        return "_" not in word and is_participle(word)


class NameFigures(msgspec.Struct, frozen=True):
    """What is counted of the names in `app` and `engines`, and of the helpers and variables of the tests."""

    names: int
    names_led_by_participle: int
    functions: int
    functions_named_by_participle_alone: int
    functions_of_one_word: int
    private_module_functions: int
    class_names: int
    class_names_in_three_modules: int
    variables_named_by_participle_alone: int
    test_functions_named_by_participle_alone: int
    test_variables_named_by_participle_alone: int

    @property
    def names_led_by_participle_percent(self) -> float:
        """Of the names of functions and classes together."""
        return 100 * self.names_led_by_participle / self.names

    @property
    def functions_of_one_word_percent(self) -> float:
        """Of all functions and methods."""
        return 100 * self.functions_of_one_word / self.functions


class FileFigures(msgspec.Struct, frozen=True):
    """What is counted of their files."""

    modules: int
    modules_under_80_lines: int
    modules_with_one_importer: int
    lines: int


@cache
def is_participle(word: str) -> bool:
    """Whether a word in lower case is a past or a present participle, and not one of the field's nouns."""
    if word in PLAIN_ENDINGS:
        return False
    return word in IRREGULAR_PARTICIPLES or bool(re.fullmatch(r"\w{2,}(ed|ing)", word))


def files(*tops: str) -> list[Path]:
    """Every module below these folders."""
    return [path for top in tops for path in sorted((ROOT / top).rglob("*.py"))]


def definitions(tops: Iterable[str] = CODE) -> list[Definition]:
    """Every function and class whose name we chose: neither `__double__` ones, nor `camelCase` ones, which Qt names."""
    return [item for path in files(*tops) for item in _read_module(path).definitions if _is_ours(item)]


def participle_variables(tops: Iterable[str] = CODE) -> list[Variable]:
    """Every parameter, local and field below these folders that a participle alone names."""
    return [item for path in files(*tops) for item in _read_module(path).participle_variables]


def class_modules() -> dict[str, set[str]]:
    """Every class name, with the modules that define it."""
    modules: dict[str, set[str]] = defaultdict(set)
    for definition in definitions():
        if definition.is_class:
            modules[definition.name].add(definition.path)
    return modules


def count_names() -> NameFigures:
    """Count what names come to."""
    ours = definitions()
    functions = [definition for definition in ours if not definition.is_class]
    classes = class_modules()
    return NameFigures(
        names=len(ours),
        names_led_by_participle=sum(definition.is_led_by_participle for definition in ours),
        functions=len(functions),
        functions_named_by_participle_alone=sum(definition.is_participle_alone for definition in functions),
        functions_of_one_word=sum(is_one_word(definition) for definition in functions),
        private_module_functions=sum(
            definition.is_module_level and definition.name.startswith("_") for definition in functions
        ),
        class_names=len(classes),
        class_names_in_three_modules=sum(len(paths) >= MANY_MODULES for paths in classes.values()),
        variables_named_by_participle_alone=len(participle_variables()),
        test_functions_named_by_participle_alone=sum(
            definition.is_participle_alone and not definition.is_class for definition in definitions(TESTS)
        ),
        test_variables_named_by_participle_alone=len(participle_variables(TESTS)),
    )


def count_files() -> FileFigures:
    """Count what files come to."""
    lines = [len(path.read_text(encoding="utf-8").splitlines()) for path in files(*CODE)]
    return FileFigures(
        modules=len(lines),
        modules_under_80_lines=sum(count < SHORT_MODULE_LINES for count in lines),
        modules_with_one_importer=sum(count == 1 for count in _importers().values()),
        lines=sum(lines),
    )


def is_one_word(definition: Definition) -> bool:
    """Whether a function's name has no underscore between two words."""
    return "_" not in definition.name.strip("_")


def offences(tops: Iterable[str]) -> Iterator[tuple[Definition, str]]:
    """Definitions below these folders whose names say too little, each with what is wrong with it."""
    classes = class_modules()
    for definition in definitions(tops):
        if definition.is_participle_alone:
            yield definition, "participle alone"
        elif definition.is_led_by_participle:
            yield definition, "participle"
        elif not definition.is_class and is_one_word(definition):
            yield definition, "one word"
        if definition.is_class and len(classes[definition.name]) >= 2:
            yield definition, f"class in {len(classes[definition.name])} modules"


class ModuleNames(NamedTuple):
    """What is counted of a file: its syntax tree is not kept."""

    definitions: tuple[Definition, ...]
    participle_variables: tuple[Variable, ...]


@cache
def _read_module(path: Path) -> ModuleNames:
    where = path.relative_to(ROOT).as_posix()
    definitions, variables = list[Definition](), set[Variable]()
    for node, scope, is_module_level in _places_in(_parse(path)):
        if name := _bound_name(node):
            variables.add(Variable(where, scope, name))
        elif isinstance(node, _SCOPES):
            is_class = isinstance(node, ast.ClassDef)
            definitions.append(Definition(where, f"{scope}{node.name}", is_class, is_module_level))
    return ModuleNames(tuple(definitions), tuple(item for item in _tell_apart(variables) if item.is_participle_alone))


def _parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def _tell_apart(variables: set[Variable]) -> list[Variable]:
    """Each variable once in its function or class, the sides of a thing (`left`, `right`) left out."""
    return sorted(
        item for item in variables if item.name != "left" or Variable(item.path, item.scope, "right") not in variables
    )


_SCOPES = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
_NAMED_LATER = (ast.ExceptHandler, ast.MatchAs, ast.MatchStar)


_BINDING_NOTHING = (ast.expr_context, ast.operator, ast.boolop, ast.unaryop, ast.cmpop, ast.Constant)


def _places_in(tree: ast.Module) -> Iterator[tuple[ast.AST, str, bool]]:
    """Yield the nodes in the order of the text, each with what it stands in ("Shelf.take.") and whether in nothing.

    There are millions in the whole tree, so there is no recursion, and what can bind no name is passed over.
    """
    stack: list[tuple[ast.AST, str, bool]] = [(tree, "", False)]
    while stack:
        place = node, scope, _ = stack.pop()
        yield place
        inner = f"{scope}{node.name}." if isinstance(node, _SCOPES) else scope
        stack += [(child, inner, node is tree) for child in reversed(_parts_of(node))]


def _parts_of(node: ast.AST) -> list[ast.AST]:
    if isinstance(node, ast.Name):
        return []
    if isinstance(node, ast.Attribute):
        return [node.value]
    return [child for child in ast.iter_child_nodes(node) if not isinstance(child, _BINDING_NOTHING)]


def _bound_name(node: ast.AST) -> str:
    """Return the name that a node binds; nothing where it binds none, or defines a function or a class."""
    if isinstance(node, ast.Name):
        return node.id if isinstance(node.ctx, ast.Store) else ""
    if isinstance(node, ast.Attribute):
        return node.attr if isinstance(node.ctx, ast.Store) else ""
    if isinstance(node, ast.arg):
        return node.arg
    return (node.name or "") if isinstance(node, _NAMED_LATER) else ""


def _is_ours(definition: Definition) -> bool:
    name = definition.name
    return definition.is_class or not (name.startswith("__") or re.match(r"_?[a-z0-9]+[A-Z]", name))


def _importers() -> Counter[str]:
    """How many other modules of `app` and `engines` import each of them; packages' `__init__` are not modules here."""
    modules = {
        path.relative_to(ROOT).with_suffix("").as_posix().replace("/", "."): path
        for path in files(*CODE)
        if path.name != "__init__.py"
    }
    importers: Counter[str] = Counter()
    for name, path in modules.items():
        importers.update(_list_imports(path) & modules.keys() - {name})
    return importers


def _list_imports(path: Path) -> set[str]:
    """What a file imports anywhere in it, dotted: the modules, and everything taken from them."""
    names: set[str] = set()
    for node in ast.walk(_parse(path)):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module)
            names.update(f"{node.module}.{alias.name}" for alias in node.names)
    return names


def _table() -> Iterator[str]:
    names, of_files = count_names(), count_files()
    for figures in (names, of_files):
        for figure, count in msgspec.structs.asdict(figures).items():
            yield _row(figure, f"{count:,}")
    yield _row("names_led_by_participle_percent", f"{names.names_led_by_participle_percent:.1f}")
    yield _row("functions_of_one_word_percent", f"{names.functions_of_one_word_percent:.1f}")
    yield _row("private_module_functions_per_kloc", f"{1000 * names.private_module_functions / of_files.lines:.1f}")


def _row(figure: str, count: str) -> str:
    return f"{figure.replace('_', ' '):40} {count:>8}"


def long_parts() -> Iterator[str]:
    """Yield a line for each file and each function longer than usual: worth a look, and no fault in itself."""
    for path in files(*CODE):
        text = path.read_text(encoding="utf-8")
        if (count := text.count("\n")) > LONG_FILE_LINES:
            yield f"long: {path.relative_to(ROOT).as_posix()}, {count} lines"
        for node in ast.walk(_parse(path)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                count = (node.end_lineno or node.lineno) - node.lineno + 1
                if count > LONG_FUNCTION_LINES:
                    yield f"long: {path.relative_to(ROOT).as_posix()}:{node.lineno} {node.name}, {count} lines"


def main(tops: list[str]) -> None:
    """Print the table, or the list for the folders that are given."""
    if not tops:
        lines: Iterable[str] = [*_table(), *long_parts()]
    else:
        lines = [f"{definition.path}\t{definition.qualname}\t{offence}" for definition, offence in offences(tops)]
        lines += [f"{item.path}\t{item.scope}{item.name}\tvariable" for item in participle_variables(tops)]
    sys.stdout.writelines(f"{line}\n" for line in lines)


if __name__ == "__main__":
    main(sys.argv[1:])
