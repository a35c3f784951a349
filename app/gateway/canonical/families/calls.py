"""Tool calls out of the stretch of an answer that holds them, where models write them as JSON.

A reader takes such a stretch, without the marks around it, and returns its calls; it raises ValueError for what is no
call, which is then text after all.
"""

import re
from collections.abc import Callable, Iterator, Mapping

import msgspec

from app.gateway.canonical.families.json_repair import first, loads

_NAMES = ("name", "tool_name", "function")
_ARGUMENTS = ("arguments", "parameters", "args", "input")
_BETWEEN = re.compile(r"(?:\s|[;,]|```(?:json|tool_call)?|<\|python_tag\|>|\[TOOL_CALLS\]|</?tool_call>)*")


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """A call as a model wrote it. `is_text` if its family writes every value as text, whatever its type."""

    name: str
    arguments: dict[str, object]
    id: str = ""
    is_text: bool = False


Reader = Callable[[str], list[Call]]


def json_calls(text: str) -> list[Call]:
    """Read objects with a name and arguments, one after another or in a list."""
    calls = [_call(one) for value in _values(text) for one in _each(value)]
    if not calls:
        raise ValueError("no call")
    return calls


def named_calls(text: str) -> list[Call]:
    """Read Mistral's calls: JSON in a list, or each as a name and its arguments."""
    pieces = [piece for piece in text.split("[TOOL_CALLS]") if piece.strip()]
    return [call for piece in pieces for call in _mistral(piece)]


_MISTRAL = re.compile(r"\s*([\w.-]+)\s*(?:\[CALL_ID\]\s*(\w+)\s*)?(?:\[ARGS\])?\s*(?=\{)")


def _mistral(piece: str) -> list[Call]:
    found = _MISTRAL.match(piece)
    if found is None:
        return json_calls(piece)
    arguments, end = first(piece[found.end() :])
    if piece[found.end() + end :].strip():
        raise ValueError("something follows the call")
    return [Call(name=found[1], arguments=_arguments(arguments), id=found[2] or "")]


_KIMI = re.compile(
    r"<\|tool_call_begin\|>\s*([^<\s]+)\s*<\|tool_call_argument_begin\|>(.*?)(?:<\|tool_call_end\|>|\Z)", re.DOTALL
)


def kimi_calls(text: str) -> list[Call]:
    """Read Kimi K2's calls: `functions.NAME:NUMBER`, which is also their id, and JSON."""
    found = [
        Call(name=name.rpartition(":")[0].removeprefix("functions.") or name, arguments=_decoded(said), id=name)
        for name, said in _KIMI.findall(text)
    ]
    return _some(found)


_DEEPSEEK = re.compile(r"<｜tool▁call▁begin｜>([^<]*)<｜tool▁sep｜>(.*?)(?:<｜tool▁call▁end｜>|\Z)", re.DOTALL)
_FENCED = re.compile(r"\s*([^\s`]+)\s*```(?:json)?\s*(.*?)\s*(?:```\s*)?\Z", re.DOTALL)


def deepseek_calls(text: str) -> list[Call]:
    """Read DeepSeek's calls: V3 writes the name before fenced JSON, V3.1 before bare JSON."""
    return _some([_deepseek(kind, said) for kind, said in _DEEPSEEK.findall(text)])


def _deepseek(before: str, said: str) -> Call:
    fenced = _FENCED.match(said)
    if fenced is not None:
        return Call(name=fenced[1], arguments=_decoded(fenced[2]))
    return Call(name=before.strip(), arguments=_decoded(said))


_GEMMA = re.compile(r"\s*call:\s*([\w.-]+)\s*(?=\{)")
_GEMMA_QUOTE = re.compile(r'<\|"\|>|<escape>')


def gemma_calls(text: str) -> list[Call]:
    """Read `call:NAME{key:<|"|>text<|"|>,other:5}`."""
    found = _GEMMA.match(text)
    if found is None:
        raise ValueError("not a call")
    pieces = _GEMMA_QUOTE.split(text[found.end() :])
    said = "".join(msgspec.json.encode(piece).decode() if at % 2 else piece for at, piece in enumerate(pieces))
    return [Call(name=found[1], arguments=_decoded(said))]


def _values(text: str) -> Iterator[object]:
    at = _skipped(text, 0)
    while at < len(text):
        value, end = first(text[at:])
        yield value
        at = _skipped(text, at + end)


def _skipped(text: str, at: int) -> int:
    found = _BETWEEN.match(text, at)
    return found.end() if found else at


def _each(value: object) -> list[object]:
    if isinstance(value, dict) and isinstance(value.get("tool_calls"), list):
        value = value["tool_calls"]
    return value if isinstance(value, list) else [value]


def _call(said: object) -> Call:
    if not isinstance(said, dict):
        raise ValueError("not a call")  # noqa: TRY004 -- one kind of error for what is no call
    inner = said.get("function")
    if isinstance(inner, dict):
        said = {**inner, "id": said.get("id")}
    name = next((said[key] for key in _NAMES if isinstance(said.get(key), str)), None)
    if not name:
        raise ValueError("a call without a name")
    given: object = next((said[key] for key in _ARGUMENTS if said.get(key) is not None), {})
    identity = said.get("id")
    return Call(name=str(name), arguments=_arguments(given), id=identity if isinstance(identity, str) else "")


def _decoded(text: str) -> dict[str, object]:
    return _arguments(loads(text) if text.strip() else {})


def _arguments(value: object) -> dict[str, object]:
    if isinstance(value, str):
        value = loads(value) if value.strip() else {}
    if not isinstance(value, Mapping):
        raise ValueError("arguments are an object")  # noqa: TRY004 -- as above
    return dict(value)


def _some(calls: list[Call]) -> list[Call]:
    if not calls:
        raise ValueError("no call")
    return calls
