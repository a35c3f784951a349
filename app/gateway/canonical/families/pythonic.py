"""Tool calls that models write as Python: `[get_weather(city="Paris"), now()]`. Read as syntax, never run."""

import ast
import re

from app.gateway.canonical.families.calls import Call

_LONGEST = 64 * 1024
"""Python's own parser is not to be kept busy with more."""
_WORDS: dict[str, object] = {"true": True, "false": False, "null": None, "none": None}
_MARKS = re.compile(r"<\|python_(?:start|end|tag)\|>|\A\s*```(?:tool_code|python)?|```\s*\Z")


def pythonic_calls(text: str) -> list[Call]:
    """Read calls with arguments by name. Raises ValueError for anything else that Python could do."""
    plain = _MARKS.sub("", text).strip()
    if len(plain) > _LONGEST:
        raise ValueError("too long")
    try:
        tree = ast.parse(plain, mode="eval").body
        nodes = tree.elts if isinstance(tree, ast.List) else [tree]
        calls = [_call(_unprinted(node)) for node in nodes]
    except (SyntaxError, RecursionError, MemoryError) as error:
        raise ValueError(str(error)) from None
    if not calls:
        raise ValueError("no call")
    return calls


def _unprinted(node: ast.expr) -> ast.expr:
    """Return what is printed: Gemma writes `print(get_weather(...))`."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print" and node.args:
        return node.args[0]
    return node


def _call(node: ast.expr) -> Call:
    if not isinstance(node, ast.Call) or node.args:
        raise ValueError("not a call with arguments by name")
    arguments = {word.arg: _value(word.value) for word in node.keywords if word.arg is not None}
    if len(arguments) < len(node.keywords):
        raise ValueError("arguments without names")
    return Call(name=_name(node.func), arguments=arguments)


def _name(node: ast.expr) -> str:
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        return f"{_name(node.value)}.{node.attr}"
    raise ValueError("not a name")


def _value(node: ast.expr) -> object:
    match node:
        case ast.Name(id=word) if word in _WORDS:
            return _WORDS[word]
        case ast.List(elts=items) | ast.Tuple(elts=items):
            return [_value(item) for item in items]
        case ast.Dict(keys=keys, values=values):
            return {_text(key): _value(value) for key, value in zip(keys, values, strict=True)}
    found: object = ast.literal_eval(node)  # raises ValueError
    if not isinstance(found, (str, int, float, bool, type(None))):
        raise ValueError("not a value of JSON")  # noqa: TRY004 -- one kind of error for what is no call
    return found


def _text(node: ast.expr | None) -> str:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    raise ValueError("a key that is no text")
