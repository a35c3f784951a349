"""Every mutant of a file: the file with one token changed, where a test that states the behaviour should fail.

Changed are comparisons, `and` and `or`, arithmetic, `not`, conditions, numbers, True and False, and what is returned.
Left alone is what says nothing of behaviour or does not run here: annotations, how a class is declared, decorators,
texts, and code for another system.
"""

import ast
import hashlib
import io
import os
import re
import sys
import tokenize
from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

import msgspec

COMPARISONS: dict[type[ast.cmpop], tuple[str, tuple[str, ...]]] = {
    ast.Eq: ("==", ("!=",)),
    ast.NotEq: ("!=", ("==",)),
    ast.Lt: ("<", ("<=", ">=")),
    ast.LtE: ("<=", ("<", ">")),
    ast.Gt: (">", (">=", "<=")),
    ast.GtE: (">=", (">", "<")),
    ast.Is: ("is", ("is not",)),
    ast.IsNot: ("is not", ("is",)),
    ast.In: ("in", ("not in",)),
    ast.NotIn: ("not in", ("in",)),
}
ARITHMETIC: dict[type[ast.operator], tuple[str, str]] = {
    ast.Add: ("+", "-"),
    ast.Sub: ("-", "+"),
    ast.Mult: ("*", "/"),
    ast.Div: ("/", "*"),
    ast.FloorDiv: ("//", "*"),
    ast.Mod: ("%", "*"),
    ast.BitOr: ("|", "&"),
    ast.BitAnd: ("&", "|"),
    ast.LShift: ("<<", ">>"),
    ast.RShift: (">>", "<<"),
}
BUILT_IN_TYPES = {"bool", "bytes", "dict", "float", "frozenset", "int", "list", "object", "set", "str", "tuple", "type"}


class Mutant(msgspec.Struct, frozen=True, kw_only=True):
    """One change of one file: characters `start` to `end` replaced, in the statement on `lines`."""

    path: str
    function: str
    lines: tuple[int, int]
    start: int
    end: int
    replacement: str
    before: str
    after: str
    """The changed line, before and after, without its indentation."""
    repeat: int = 0
    """How many changes just like it there are above it in the function."""

    @property
    def key(self) -> tuple[str, str, str, str, int]:
        """What tells it from every other, and stays when lines around it change."""
        return (self.path, self.function, self.before, self.after, self.repeat)

    def apply_to(self, text: str) -> str:
        """Return the file's text with the change."""
        return text[: self.start] + self.replacement + text[self.end :]


def sample_mutants(mutants: Sequence[Mutant], count: int, seed: int) -> list[Mutant]:
    """Return `count` of them by chance. A change elsewhere in the code leaves the choice as it is."""

    def draw(mutant: Mutant) -> bytes:
        return hashlib.sha256(repr((seed, mutant.key)).encode()).digest()

    return sorted(mutants, key=draw)[:count]


def find_mutants(path: str, text: str) -> list[Mutant]:
    """Return every mutant of a file, in the order of its text."""
    finder = _Finder(path, text)
    finder.visit(ast.parse(text))
    repeats: Counter[tuple[str, str, str, str, int]] = Counter()
    mutants = []
    for mutant in sorted(finder.mutants, key=lambda mutant: (mutant.start, mutant.replacement)):
        mutants.append(msgspec.structs.replace(mutant, repeat=repeats[mutant.key]))
        repeats[mutant.key] += 1
    return mutants


class _Finder(ast.NodeVisitor):
    def __init__(self, path: str, text: str) -> None:
        self.mutants: list[Mutant] = []
        self._path, self._text = path, text
        self._lines = text.splitlines(keepends=True)
        self._starts = [0]
        for line in self._lines:
            self._starts.append(self._starts[-1] + len(line))
        self._tokens = [
            (self._starts[token.start[0] - 1] + token.start[1], token.string)
            for token in tokenize.generate_tokens(io.StringIO(text).readline)
            if token.type in {tokenize.OP, tokenize.NAME}
        ]
        self._names: list[str] = []
        self._returns_truth: list[bool] = []
        self._statement = (1, 1)

    # ----- where things are

    def _offset(self, line: int, column: int) -> int:
        return self._starts[line - 1] + len(self._lines[line - 1].encode()[:column].decode())

    def _begin(self, node: ast.expr) -> int:
        return self._offset(node.lineno, node.col_offset)

    def _end(self, node: ast.expr) -> int:
        return self._offset(node.end_lineno or node.lineno, node.end_col_offset or node.col_offset)

    def _find_operator(self, words: str, begin: int, end: int) -> tuple[int, int]:
        """Return where an operator stands between its operands; parentheses and comments may stand there too."""
        at = bisect_left(self._tokens, (begin, ""))
        first, *rest = words.split()
        while self._tokens[at][1] != first:
            at += 1
        last_start, last = self._tokens[at + len(rest)]
        assert last_start + len(last) <= end, f"{self._path}: no {words}"
        return self._tokens[at][0], last_start + len(last)

    def _add(self, start: int, end: int, replacement: str) -> None:
        row = bisect_left(self._starts, start + 1) - 1
        after = self._text[:start] + replacement + self._text[end:]
        line_end = after.find("\n", start + len(replacement))
        self.mutants.append(
            Mutant(
                path=self._path,
                function=".".join(self._names),
                lines=self._statement,
                start=start,
                end=end,
                replacement=replacement,
                before=self._lines[row].strip(),
                after=after[self._starts[row] : line_end].strip(),
            )
        )

    # ----- statements

    def visit(self, node: ast.AST) -> None:
        """Remember the statement that is being looked at: of one with a body, its head."""
        if not isinstance(node, ast.stmt):
            super().visit(node)
            return
        outer, body = self._statement, getattr(node, "body", None)
        end = body[0].lineno - 1 if body else node.end_lineno or node.lineno
        self._statement = (node.lineno, max(node.lineno, end))
        super().visit(node)
        self._statement = outer

    def _visit_function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        self._names.append(node.name)
        self._returns_truth.append(isinstance(node.returns, ast.Name) and node.returns.id == "bool")
        for default in (*node.args.defaults, *node.args.kw_defaults):
            if default is not None:
                self.visit(default)
        self._visit_all(node.body)
        self._returns_truth.pop()
        self._names.pop()

    visit_FunctionDef = visit_AsyncFunctionDef = _visit_function  # noqa: N815 -- names of ast's visitor

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self._names.append(node.name)
        self._visit_all(node.body)
        self._names.pop()

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)

    def visit_If(self, node: ast.If) -> None:
        is_here = _is_here(node.test)
        if is_here is not None:
            self._visit_all(node.body if is_here else node.orelse)
            return
        self._negate(node.test)
        self.generic_visit(node)

    def visit_While(self, node: ast.While) -> None:
        self._negate(node.test)
        self.generic_visit(node)

    def visit_Return(self, node: ast.Return) -> None:
        value = node.value
        if value is None:
            return
        if not isinstance(value, ast.Constant):
            if self._returns_truth and self._returns_truth[-1]:
                self._add(
                    self._begin(value), self._end(value), f"not ({self._text[self._begin(value) : self._end(value)]})"
                )
            else:
                self._add(self._begin(value), self._end(value), "None")
        self.visit(value)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        if type(node.op) in ARITHMETIC:
            sign, other = ARITHMETIC[type(node.op)]
            start, end = self._find_operator(f"{sign}=", self._end(node.target), self._begin(node.value))
            self._add(start, end, f"{other}=")
        self.generic_visit(node)

    def _visit_all(self, nodes: Sequence[ast.AST]) -> None:
        for node in nodes:
            self.visit(node)

    # ----- expressions

    def _negate(self, test: ast.expr) -> None:
        if isinstance(test, (ast.Name, ast.Attribute, ast.Call)):
            self._add(self._begin(test), self._begin(test), "not ")

    def visit_IfExp(self, node: ast.IfExp) -> None:
        self._negate(node.test)
        self.generic_visit(node)

    def visit_comprehension(self, node: ast.comprehension) -> None:
        for test in node.ifs:
            self._negate(test)
        self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> None:
        operands = [node.left, *node.comparators]
        for operator, (left, right) in zip(node.ops, pairwise(operands), strict=True):
            sign, others = COMPARISONS[type(operator)]
            for other in others:
                self._add(*self._find_operator(sign, self._end(left), self._begin(right)), other)
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        sign, other = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
        for left, right in pairwise(node.values):
            self._add(*self._find_operator(sign, self._end(left), self._begin(right)), other)
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        if isinstance(node.op, ast.BitOr) and (_is_type(node.left) or _is_type(node.right)):
            return
        if type(node.op) in ARITHMETIC:
            sign, other = ARITHMETIC[type(node.op)]
            self._add(*self._find_operator(sign, self._end(node.left), self._begin(node.right)), other)
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        if isinstance(node.op, (ast.Not, ast.USub)):
            sign = re.compile(r"not\s*|-").match(self._text, self._begin(node))
            assert sign, f"{self._path}: no sign"
            self._add(*sign.span(), "")
        self.generic_visit(node)

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        """Leave texts alone, with what is written into them: before Python 3.12 it has no places of its own."""

    def visit_Constant(self, node: ast.Constant) -> None:
        value = node.value
        if isinstance(value, bool):
            self._add(self._begin(node), self._end(node), str(not value))
        elif isinstance(value, int):
            literal = self._text[self._begin(node) : self._end(node)]
            self._add(
                self._begin(node), self._end(node), oct(value + 1) if literal.startswith("0o") else str(value + 1)
            )
        elif isinstance(value, float):
            self._add(self._begin(node), self._end(node), str(value * 2 or 1.0))


def _is_here(test: ast.expr) -> bool | None:
    """Return whether a condition on the system or for type checkers holds here; None for every other condition."""
    if isinstance(test, ast.Name) and test.id == "TYPE_CHECKING":
        return False
    if not (isinstance(test, ast.Compare) and ast.unparse(test.left) in {"sys.platform", "os.name"}):
        return None
    return bool(eval(ast.unparse(test), {"sys": sys, "os": os}))  # noqa: S307 -- a condition of our own code


def _is_type(node: ast.expr) -> bool:
    """Return whether it names a type, so that `|` makes a union of types and no number."""
    match node:
        case ast.Constant(value=None):
            return True
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name in BUILT_IN_TYPES or (name[0].isupper() and not name.isupper())
        case ast.Subscript(value=value):
            return _is_type(value)
        case ast.BinOp(left=left, op=ast.BitOr(), right=right):
            return _is_type(left) or _is_type(right)
        case _:
            return False
