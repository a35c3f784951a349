"""The notations in which models write tool calls, and how each is read: JSON, markup, and Python's syntax.

A reader takes the stretch of an answer between a notation's marks and returns its calls; it raises ValueError for what
is no call, which is then text after all. Python is read as syntax, never run.
"""

import ast
import re
from collections.abc import Callable, Iterator, Mapping

import msgspec

from app.gateway.canonical.families.arguments import parse_first_json, parse_json

_NAMES = ("name", "tool_name", "function")
_ARGUMENTS = ("arguments", "parameters", "args", "input")
_BETWEEN = re.compile(r"(?:\s|[;,]|```(?:json|tool_call)?|<\|python_tag\|>|\[TOOL_CALLS\]|</?tool_call>)*")


class ParsedCall(msgspec.Struct, frozen=True, kw_only=True):
    """A call as a model wrote it. `is_text` if its family writes every value as text, whatever its type."""

    name: str
    arguments: dict[str, object]
    id: str = ""
    is_text: bool = False


CallReader = Callable[[str], list[ParsedCall]]


def json_calls(text: str) -> list[ParsedCall]:
    """Read objects with a name and arguments, one after another or in a list."""
    calls = [_call_from_json(entry) for value in _values(text) for entry in _call_entries(value)]
    if not calls:
        raise ValueError("no call")
    return calls


def mistral_calls(text: str) -> list[ParsedCall]:
    """Read Mistral's calls: JSON in a list, or each as a name and its arguments."""
    pieces = [piece for piece in text.split("[TOOL_CALLS]") if piece.strip()]
    return [call for piece in pieces for call in _mistral(piece)]


_MISTRAL = re.compile(r"\s*+([\w.-]++)\s*+(?:\[CALL_ID\]\s*+(\w++)\s*+)?(?:\[ARGS\])?\s*+(?=\{)")


def _mistral(piece: str) -> list[ParsedCall]:
    match = _MISTRAL.match(piece)
    if match is None:
        return json_calls(piece)
    arguments, end = parse_first_json(piece[match.end() :])
    if piece[match.end() + end :].strip():
        raise ValueError("something follows the call")
    return [ParsedCall(name=match[1], arguments=_require_arguments(arguments), id=match[2] or "")]


_KIMI = re.compile(
    r"<\|tool_call_begin\|>\s*([^<\s]+)\s*<\|tool_call_argument_begin\|>(.*?)(?:<\|tool_call_end\|>|\Z)", re.DOTALL
)


def kimi_calls(text: str) -> list[ParsedCall]:
    """Read Kimi K2's calls: `functions.NAME:NUMBER`, which is also their id, and JSON."""
    calls = [
        ParsedCall(
            name=name.rpartition(":")[0].removeprefix("functions.") or name,
            arguments=_decode_arguments(arguments_text),
            id=name,
        )
        for name, arguments_text in _KIMI.findall(text)
    ]
    return _require_calls(calls)


_DEEPSEEK = re.compile(r"<｜tool▁call▁begin｜>([^<]*)<｜tool▁sep｜>(.*?)(?:<｜tool▁call▁end｜>|\Z)", re.DOTALL)
_FENCED = re.compile(r"\s*+([^\s`]++)\s*+```(?:json)?(.*)", re.DOTALL)


def deepseek_calls(text: str) -> list[ParsedCall]:
    """Read DeepSeek's calls: V3 writes the name before fenced JSON, V3.1 before bare JSON."""
    return _require_calls([_deepseek(kind, body) for kind, body in _DEEPSEEK.findall(text)])


def _deepseek(before: str, body: str) -> ParsedCall:
    fence_match = _FENCED.match(body)
    if fence_match is not None:
        return ParsedCall(name=fence_match[1], arguments=_decode_arguments(fence_match[2].rstrip().removesuffix("```")))
    return ParsedCall(name=before.strip(), arguments=_decode_arguments(body))


_GEMMA = re.compile(r"\s*call:\s*([\w.-]+)\s*(?=\{)")
_GEMMA_QUOTE = re.compile(r'<\|"\|>|<escape>')


def gemma_calls(text: str) -> list[ParsedCall]:
    """Read `call:NAME{key:<|"|>text<|"|>,other:5}`."""
    match = _GEMMA.match(text)
    if match is None:
        raise ValueError("not a call")
    pieces = _GEMMA_QUOTE.split(text[match.end() :])
    arguments_text = "".join(
        msgspec.json.encode(piece).decode() if at % 2 else piece for at, piece in enumerate(pieces)
    )
    return [ParsedCall(name=match[1], arguments=_decode_arguments(arguments_text))]


def name_key_calls(text: str) -> list[ParsedCall]:
    """Read Apertus's calls: objects in which the tool's name is the key of its arguments."""
    entries = [entry for value in _values(text) for entry in (value if isinstance(value, list) else [value])]
    if not all(isinstance(entry, dict) for entry in entries):
        raise ValueError("not a call")
    return _require_calls(
        [
            ParsedCall(name=name, arguments=_require_arguments(arguments))
            for entry in entries
            if isinstance(entry, dict)
            for name, arguments in entry.items()
        ]
    )


def _values(text: str) -> Iterator[object]:
    at = _skip_separators(text, 0)
    while at < len(text):
        value, end = parse_first_json(text[at:])
        yield value
        at = _skip_separators(text, at + end)


def _skip_separators(text: str, at: int) -> int:
    match = _BETWEEN.match(text, at)
    return match.end() if match else at


def _call_entries(value: object) -> list[object]:
    if isinstance(value, dict) and isinstance(value.get("tool_calls"), list):
        value = value["tool_calls"]
    return value if isinstance(value, list) else [value]


def _call_from_json(entry: object) -> ParsedCall:
    if not isinstance(entry, dict):
        raise ValueError("not a call")  # noqa: TRY004 -- one kind of error for what is no call
    inner = entry.get("function")
    if isinstance(inner, dict):
        entry = {**inner, "id": entry.get("id")}
    name = next((entry[key] for key in _NAMES if isinstance(entry.get(key), str)), None)
    if not name:
        raise ValueError("a call without a name")
    arguments: object = next((entry[key] for key in _ARGUMENTS if entry.get(key) is not None), {})
    identity = entry.get("id")
    return ParsedCall(
        name=str(name), arguments=_require_arguments(arguments), id=identity if isinstance(identity, str) else ""
    )


def _decode_arguments(text: str) -> dict[str, object]:
    return _require_arguments(parse_json(text) if text.strip() else {})


def _require_arguments(value: object) -> dict[str, object]:
    if isinstance(value, str):
        value = parse_json(value) if value.strip() else {}
    if not isinstance(value, Mapping):
        raise ValueError("arguments are an object")  # noqa: TRY004 -- as above
    return dict(value)


def _require_calls(calls: list[ParsedCall]) -> list[ParsedCall]:
    if not calls:
        raise ValueError("no call")
    return calls


_FUNCTION = re.compile(
    r"""<function(?:=|\s+name=["'])([^<>"'\n]++)["']?>(.*?)(?:</function>|(?=<function[= ])|\Z)""", re.DOTALL
)
_PARAMETER = re.compile(
    r"""<param(?:eter=|\s+name=["'])([^<>"'\n]++)["']?>(.*?)(?:</param(?:eter)?>|(?=<param(?:eter=|\s+name=))|\Z)""",
    re.DOTALL,
)
_INVOKE = re.compile(r"""<invoke\s+name=["']?([^"'<>]++)["']?\s*>(.*?)(?:</invoke>|\Z)""", re.DOTALL)
_NAMED = re.compile(r"""<parameter\s+name=["']?([^"'<>]++)["']?[^<>]*+>(.*?)(?:</parameter>|\Z)""", re.DOTALL)
_GLM = re.compile(r"<arg_key>([^<]*)</arg_key>\s*<arg_value>(.*?)(?:</arg_value>|\Z)", re.DOTALL)
_GLM_NAME = re.compile(r"\s*([\w.-]+)\s*(?=<arg_key>|\Z)")
_DSML = "｜DSML｜"


def tag_calls(text: str) -> list[ParsedCall]:
    """Read whichever of the forms stands between `<tool_call>` tags: JSON, functions with parameters, or GLM's."""
    if "<function=" in text:
        return function_calls(text)
    if _GLM_NAME.match(text):
        return glm_calls(text)
    return json_calls(text)


def function_calls(text: str) -> list[ParsedCall]:
    """Read `<function=NAME><parameter=KEY>value</parameter></function>`, or with JSON in place of the parameters.

    MiniCPM writes the same with attributes: `<function name="NAME"><param name="KEY">value</param></function>`.
    """
    return _require_calls([_function_call(name.strip(), body) for name, body in _FUNCTION.findall(text)])


def _function_call(name: str, body: str) -> ParsedCall:
    if body.lstrip().startswith("{"):
        arguments = parse_json(body)
        if not isinstance(arguments, dict):
            raise ValueError("arguments are an object")
        return ParsedCall(name=name, arguments=arguments)
    return _texts(name, _PARAMETER.findall(body))


def invoke_calls(text: str) -> list[ParsedCall]:
    """Read `<invoke name="NAME"><parameter name="KEY">value</parameter></invoke>`, as MiniMax and DeepSeek V3.2 do."""
    plain = text.replace(_DSML, "")
    return _require_calls([_texts(name, _NAMED.findall(body)) for name, body in _INVOKE.findall(plain)])


MINIMAX_M3_MARK = "]<]minimax[>["
_KEY_TAGS = re.compile(r"<([\w.-]++)>(.*?)(?:</\1>|\Z)", re.DOTALL)


def namespace_calls(text: str) -> list[ParsedCall]:
    """Read MiniMax M3's calls: `<invoke name="NAME"><KEY>value</KEY></invoke>`, a mark of its own before every tag."""
    plain = text.replace(MINIMAX_M3_MARK, "")
    return _require_calls([_texts(name, _KEY_TAGS.findall(body)) for name, body in _INVOKE.findall(plain)])


def glm_calls(text: str) -> list[ParsedCall]:
    """Read a name, and `<arg_key>KEY</arg_key><arg_value>value</arg_value>` for each argument."""
    calls = [_glm(piece) for piece in re.split(r"</?tool_call>", text) if piece.strip()]
    return _require_calls(calls)


def _glm(piece: str) -> ParsedCall:
    match = _GLM_NAME.match(piece)
    if match is None:
        raise ValueError("a call without a name")
    return _texts(match[1], _GLM.findall(piece))


def _texts(name: str, pairs: list[tuple[str, str]]) -> ParsedCall:
    return ParsedCall(
        name=name, arguments={key.strip(): _trim_line_breaks(value) for key, value in pairs}, is_text=True
    )


def _trim_line_breaks(value: str) -> str:
    """Return a value without the line break that templates put before and after it; all others belong to it.

    A break at the end alone is the last line's own where there are several: a file's text ends with one.
    """
    inner = value.removeprefix("\n")
    is_layout = inner != value or "\n" not in value[:-1]
    return inner.removesuffix("\n") if is_layout else inner


_LONGEST = 64 * 1024
"""Python's own parser is not to be kept busy with more."""
_PYTHON_WORDS: dict[str, object] = {"true": True, "false": False, "null": None, "none": None}
_PYTHON_MARKS = re.compile(r"<\|python_(?:start|end|tag)\|>|\A\s*```(?:tool_code|python)?|```\s*\Z")


def pythonic_calls(text: str) -> list[ParsedCall]:
    """Read calls with arguments by name. Raises ValueError for anything else that Python could do."""
    plain = _PYTHON_MARKS.sub("", text).strip()
    if len(plain) > _LONGEST:
        raise ValueError("too long")
    try:
        tree = ast.parse(plain, mode="eval").body
        nodes = tree.elts if isinstance(tree, ast.List) else [tree]
        calls = [_python_call(_unwrap_print(node)) for node in nodes]
    except (SyntaxError, RecursionError, MemoryError) as error:
        raise ValueError(str(error)) from None
    return _require_calls(calls)


def _unwrap_print(node: ast.expr) -> ast.expr:
    """Return what is printed: Gemma writes `print(get_weather(...))`."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print" and node.args:
        return node.args[0]
    return node


def _python_call(node: ast.expr) -> ParsedCall:
    if not isinstance(node, ast.Call) or node.args:
        raise ValueError("not a call with arguments by name")
    arguments = {word.arg: _literal(word.value) for word in node.keywords if word.arg is not None}
    if len(arguments) < len(node.keywords):
        raise ValueError("arguments without names")
    return ParsedCall(name=_name_path(node.func), arguments=arguments)


def _name_path(node: ast.expr) -> str:
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        return f"{_name_path(node.value)}.{node.attr}"
    raise ValueError("not a name")


def _literal(node: ast.expr) -> object:
    match node:
        case ast.Name(id=word) if word in _PYTHON_WORDS:
            return _PYTHON_WORDS[word]
        case ast.List(elts=items) | ast.Tuple(elts=items):
            return [_literal(item) for item in items]
        case ast.Dict(keys=keys, values=values):
            return {_literal_key(key): _literal(value) for key, value in zip(keys, values, strict=True)}
    literal: object = ast.literal_eval(node)  # raises ValueError
    if not isinstance(literal, (str, int, float, bool, type(None))):
        raise ValueError("not a value of JSON")  # noqa: TRY004 -- one kind of error for what is no call
    return literal


def _literal_key(node: ast.expr | None) -> str:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    raise ValueError("a key that is no text")
