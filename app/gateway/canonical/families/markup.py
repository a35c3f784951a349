"""Tool calls that models write as markup: a name, and every argument between tags of its own, as text."""

import re

from app.gateway.canonical.families.calls import Call, json_calls
from app.gateway.canonical.families.json_repair import loads

_FUNCTION = re.compile(r"<function=([^>\n]+)>(.*?)(?:</function>|(?=<function=)|\Z)", re.DOTALL)
_PARAMETER = re.compile(r"<parameter=([^>\n]+)>(.*?)(?:</parameter>|(?=<parameter=)|\Z)", re.DOTALL)
_INVOKE = re.compile(r"""<invoke\s+name=["']?([^"'>]+)["']?\s*>(.*?)(?:</invoke>|\Z)""", re.DOTALL)
_NAMED = re.compile(r"""<parameter\s+name=["']?([^"'>]+)["']?[^>]*>(.*?)(?:</parameter>|\Z)""", re.DOTALL)
_GLM = re.compile(r"<arg_key>([^<]*)</arg_key>\s*<arg_value>(.*?)(?:</arg_value>|\Z)", re.DOTALL)
_GLM_NAME = re.compile(r"\s*([\w.-]+)\s*(?=<arg_key>|\Z)")
_DSML = "｜DSML｜"


def tagged_calls(text: str) -> list[Call]:
    """Read whichever of the forms stands between `<tool_call>` tags: JSON, functions with parameters, or GLM's."""
    if "<function=" in text:
        return function_calls(text)
    if _GLM_NAME.match(text):
        return glm_calls(text)
    return json_calls(text)


def function_calls(text: str) -> list[Call]:
    """Read `<function=NAME><parameter=KEY>value</parameter></function>`, or with JSON in place of the parameters."""
    return _some([_function(name.strip(), body) for name, body in _FUNCTION.findall(text)])


def _function(name: str, body: str) -> Call:
    if body.lstrip().startswith("{"):
        arguments = loads(body)
        if not isinstance(arguments, dict):
            raise ValueError("arguments are an object")
        return Call(name=name, arguments=arguments)
    return _texts(name, _PARAMETER.findall(body))


def invoke_calls(text: str) -> list[Call]:
    """Read `<invoke name="NAME"><parameter name="KEY">value</parameter></invoke>`, as MiniMax and DeepSeek V3.2 do."""
    plain = text.replace(_DSML, "")
    return _some([_texts(name, _NAMED.findall(body)) for name, body in _INVOKE.findall(plain)])


def glm_calls(text: str) -> list[Call]:
    """Read a name, and `<arg_key>KEY</arg_key><arg_value>value</arg_value>` for each argument."""
    calls = [_glm(piece) for piece in re.split(r"</?tool_call>", text) if piece.strip()]
    return _some(calls)


def _glm(piece: str) -> Call:
    found = _GLM_NAME.match(piece)
    if found is None:
        raise ValueError("a call without a name")
    return _texts(found[1], _GLM.findall(piece))


def _texts(name: str, pairs: list[tuple[str, str]]) -> Call:
    return Call(name=name, arguments={key.strip(): _trimmed(value) for key, value in pairs}, is_text=True)


def _trimmed(value: str) -> str:
    """Return a value without the line break that templates put before and after it; all others belong to it."""
    return value.removeprefix("\n").removesuffix("\n")


def _some(calls: list[Call]) -> list[Call]:
    if not calls:
        raise ValueError("no call")
    return calls
