"""What coding agents ask of an endpoint, as `tests/data/clients` keeps it: the forms, without what was said.

Of a body its keys, types, sizes and the protocol's own words are kept; other text is a mark that tells its length.
Headers are names, with the values that change how a request is read; those of a connection are left out, and those in
which one SDK tells about itself. Of a reply its status, its kind and the places
of its values are kept, which is what the agent was content with. `RECORD=1 make clients` writes the files anew.
"""

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import msgspec

from tests.client_recorder import Exchange

RECORD = "RECORD"
"""The variable that has the files written."""
FOLDER = Path(__file__).parent / "data" / "clients"
MODEL = "MODEL"
"""Stands for the name of the model that was asked."""
_ARGUMENTS = ("arguments", "partial_json")
"""Keys of texts that are JSON."""
_IDS = ("id", "tool_call_id", "call_id", "tool_use_id")
_NAMES = ("type", "name", "role", "required", "enum", "$schema", "$ref", "include")
_LONGEST_WORD = 40
_WORD = re.compile(rf"[A-Za-z_][A-Za-z_.,:/$-]{{0,{_LONGEST_WORD}}}")
"""Words of the protocol; what has digits or blanks is somebody's text, a date or an id."""
_TEXT = re.compile(r"<text of (\d+)>")
_HEADER_VALUES = ("accept", "content-type", "content-encoding", "anthropic-version", "anthropic-beta")
_TRANSPORT = ("accept-encoding", "connection", "content-length", "host", "keep-alive", "transfer-encoding")
_ECHOES = ("tools", "instructions", "metadata", "schema")
"""Keys below which replies say the request again."""
_FILLER = "word "
_DIGITS = 2
"""Lengths are told to so many digits: prompts name the folder and the day."""


class ClientRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request, what came back, and how often it came."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    """Names in small letters; the value is empty where it does not matter."""
    body: Any
    status: int
    content_type: str
    reply: list[str]
    """The places of the reply's values; of a stream, each with the event's type before it."""
    times: int = 1


class ClientTranscript(msgspec.Struct, frozen=True, kw_only=True):
    """What one agent asked while it wrote a file by one call."""

    tool: str
    package: str
    version: str
    tools: list[Any]
    """Lists of tools that were offered; a body names them by their place."""
    requests: list[ClientRequest]


def transcript_file(tool: str) -> Path:
    """Return where the transcript of a tool is kept."""
    return FOLDER / f"{tool}.json"


def read_transcript(tool: str) -> ClientTranscript:
    """Return what is kept."""
    return msgspec.json.decode(transcript_file(tool).read_bytes(), type=ClientTranscript)


def write_transcript(transcript: ClientTranscript) -> None:
    """Keep a transcript, one request and one list of tools per line."""
    document = msgspec.to_builtins(transcript)
    lines = [_line({name: document[name] for name in ("tool", "package", "version")})[:-1]]
    for name in ("tools", "requests"):
        lines.append(f', "{name}": [')
        lines.extend([",\n".join(map(_line, document[name])), "]"])
    FOLDER.mkdir(exist_ok=True)
    transcript_file(transcript.tool).write_text("\n".join([*lines, "}", ""]), encoding="utf-8")


def _line(document: object) -> str:
    return json.dumps(document, ensure_ascii=False)


def make_transcript(
    tool: str, package: str, version: str, exchanges: Iterable[Exchange], model: str
) -> ClientTranscript:
    """Return the forms of what was exchanged, each once."""
    tools: list[Any] = []
    requests: list[ClientRequest] = []
    for exchange in exchanges:
        request = _form_request(exchange, model, tools)
        same = next((place for place, each in enumerate(requests) if _is_same(each, request)), None)
        if same is None:
            requests.append(request)
        else:
            requests[same] = msgspec.structs.replace(requests[same], times=requests[same].times + 1)
    return ClientTranscript(tool=tool, package=package, version=version, tools=tools, requests=requests)


def _is_same(one: ClientRequest, other: ClientRequest) -> bool:
    return msgspec.structs.replace(one, times=1, headers={}) == msgspec.structs.replace(other, times=1, headers={})


def _form_request(exchange: Exchange, model: str, tools: list[Any]) -> ClientRequest:
    target = urlsplit(exchange.target.replace(model, MODEL))
    headers = {
        name: _header_value(name, value)
        for name, value in sorted(exchange.headers.items())
        if name not in _TRANSPORT and not name.startswith("x-stainless-")
    }
    body = json.loads(exchange.body.replace(model.encode(), MODEL.encode())) if exchange.body else None
    if isinstance(body, dict) and body.get("tools"):
        tool_form = _tool_form(body["tools"])
        if tool_form not in tools:
            tools.append(tool_form)
        body["tools"] = tools.index(tool_form)
    return ClientRequest(
        method=exchange.method,
        path=target.path,
        query=dict(parse_qsl(target.query, keep_blank_values=True)),
        headers=headers,
        body=_form(body, {}),
        status=exchange.status,
        content_type=exchange.content_type,
        reply=reply_form(exchange.content_type, exchange.reply),
    )


def _header_value(name: str, value: str) -> str:
    if name == "user-agent":
        return value.split(" ", 1)[0]
    return value if name in _HEADER_VALUES else ""


def _form(value: Any, ids: dict[str, str], key: str = "") -> Any:  # noqa: ANN401 -- a JSON value
    match value:
        case dict():
            return {name: _form(each, ids, name) for name, each in value.items()}
        case list():
            return [_form(each, ids, key) for each in value]
        case str():
            return _text_form(value, ids, key)
        case _:
            return value


def _text_form(text: str, ids: dict[str, str], key: str) -> str:
    if key in _IDS:
        return ids.setdefault(text, f"id_{len(ids) + 1}")
    if key in _ARGUMENTS and text.startswith("{"):
        return json.dumps(_form(json.loads(text), ids))
    is_word = _WORD.fullmatch(text) is not None or (key in _NAMES and len(text) <= _LONGEST_WORD and " " not in text)
    return text if is_word or not text else f"<text of {_round(len(text))}>"


def _round(length: int) -> int:
    return int(float(f"{length:.{_DIGITS}g}"))


def _tool_form(value: Any, key: str = "") -> Any:  # noqa: ANN401 -- a JSON value
    """Return a list of tools with their names and schemas, whose descriptions are lengths."""
    match value:
        case dict():
            return {name: _tool_form(each, name) for name, each in value.items()}
        case list():
            return [_tool_form(each, key) for each in value]
        case str():
            return _text_form(value, {}, "name" if key in _IDS else key)
        case _:
            return value


def fill_in(value: Any, model: str) -> Any:  # noqa: ANN401 -- a JSON value
    """Return a body as it may have been sent: with text of the length that a mark tells, and the model's name."""
    match value:
        case dict():
            return {name: fill_in(each, model) for name, each in value.items()}
        case list():
            return [fill_in(each, model) for each in value]
        case str():
            return _TEXT.sub(lambda mark: _filler(int(mark[1])), value).replace(MODEL, model)
        case _:
            return value


def _filler(length: int) -> str:
    return (_FILLER * (length // len(_FILLER) + 1))[:length]


def body_of(transcript: ClientTranscript, request: ClientRequest, model: str) -> Any:  # noqa: ANN401 -- a JSON value
    """Return the body of a request to send it again."""
    body = fill_in(request.body, model)
    if isinstance(body, dict) and isinstance(body.get("tools"), int):
        body["tools"] = fill_in(transcript.tools[body["tools"]], model)
    return body


def reply_form(content_type: str, data: bytes) -> list[str]:
    """Return the places of a reply's values: of each event of a stream, and of a document."""
    return sorted({place for event in _documents(content_type, data) for place in _event_places(event)})


def _documents(content_type: str, data: bytes) -> Iterator[Any]:
    text = data.decode(errors="replace")
    if content_type == "application/json":
        yield json.loads(text)
    for line in text.splitlines() if content_type in ("text/event-stream", "application/x-ndjson") else ():
        document = line.removeprefix("data:").strip() if line.startswith("data:") else line.strip()
        if document == "[DONE]":
            yield {document: True}
        elif document.startswith("{"):
            yield json.loads(document)


def _event_places(event: Any) -> Iterator[str]:  # noqa: ANN401 -- a JSON value
    kind = event.get("type") if isinstance(event, Mapping) else None
    yield from (f"{kind}: {place}" if isinstance(kind, str) else place for place in _places(event))


def _places(value: Any, place: str = "") -> Iterator[str]:  # noqa: ANN401 -- a JSON value
    match value:
        case dict() if value:
            for name, each in value.items():
                below = f"{place}.{name}" if place else name
                yield from [below] if name in _ECHOES else _places(each, below)
        case list() if value:
            for each in value:
                yield from _places(each, f"{place}[]")
        case _:
            yield place


def is_recording() -> bool:
    """Tell whether the files are to be written."""
    return bool(os.environ.get(RECORD))
