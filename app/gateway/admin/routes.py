"""The table of Roundhouse's own API (see `core.api`): what is listed here is served, and is in the OpenAPI document.

The document is made from the table and the types of what its rows take and give.
"""

import functools
import re
from collections.abc import Iterable
from typing import Any

import msgspec
from aiohttp import web

from app.core.api import API_VERSION, PREFIX
from app.core.errors import ErrorBody
from app.gateway.admin import advice, chats, engines, gateway, hub, library, loading, models, tools, traffic
from app.gateway.admin.calls import (
    ANSWERS,
    BACKGROUND,
    CALIBRATOR,
    ENGINES,
    AdminEndpoint,
    LazyEngineStore,
    check_manager,
    make_handler,
)
from app.gateway.advising.calibration import Calibrator
from app.gateway.background import Background
from app.gateway.chats.answers import ChatAnswers
from app.gateway.exchange.handling import ENGINE_ACCESS
from app.gateway.services import SERVICES

PARTS = (gateway, engines, models, loading, hub, library, gateway, chats, advice, tools, traffic)
ENDPOINTS: tuple[AdminEndpoint, ...] = tuple(row for part in PARTS for row in part.routes.endpoints)
_REFERENCE = "#/components/schemas/{name}"
_VARIABLE = re.compile(r"{(\w+)}")

Document = dict[str, Any]


def add_routes(app: web.Application) -> None:
    """Serve the table and its OpenAPI document, and own the answers being written."""
    app[ANSWERS] = ChatAnswers(app[SERVICES], app[ENGINE_ACCESS])
    app[BACKGROUND] = Background()
    app[CALIBRATOR] = Calibrator(app[SERVICES])
    app[ENGINES] = LazyEngineStore(app[SERVICES])
    app.on_shutdown.append(_close_services)
    for endpoint in ENDPOINTS:
        # Names of models may hold slashes; clients quote them, and the ones people type by hand do not.
        app.router.add_route(
            endpoint.method, PREFIX + endpoint.path.replace("{name}", "{name:.+}"), make_handler(endpoint)
        )
    app.router.add_route("GET", f"{PREFIX}/openapi.json", _serve_openapi)


async def _serve_openapi(request: web.Request) -> web.Response:
    check_manager(request)
    return web.Response(body=openapi_document(ENDPOINTS), content_type="application/json")


async def _close_services(app: web.Application) -> None:
    await app[CALIBRATOR].stop()
    await app[ENGINES].close()
    await app[ANSWERS].close()
    await app[BACKGROUND].join(cancel=True)


@functools.cache
def openapi_document(endpoints: tuple[AdminEndpoint, ...]) -> bytes:
    """Return the document as JSON."""
    kinds = _table_types(endpoints)
    schemas, components = msgspec.json.schema_components(kinds, ref_template=_REFERENCE)
    schema_of = dict(zip(map(repr, kinds), schemas, strict=True))
    paths: Document = {}
    for endpoint in endpoints:
        paths.setdefault(PREFIX + endpoint.path, {})[endpoint.method.lower()] = _describe_operation(endpoint, schema_of)
    openapi = {
        "openapi": "3.1.0",
        "info": {"title": "Roundhouse", "version": str(API_VERSION), "license": {"name": "Apache-2.0"}},
        "paths": paths,
        "security": [{"token": []}],
        "components": {
            "schemas": components,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }
    return msgspec.json.encode(openapi)


def _table_types(endpoints: Iterable[AdminEndpoint]) -> list[Any]:
    """Return every type of the table once."""
    types = [ErrorBody, *(kind for row in endpoints for kind in (row.body, row.reply) if kind is not None)]
    return list({repr(kind): kind for kind in types}.values())


def _describe_operation(endpoint: AdminEndpoint, schema_of: Document) -> Document:
    operation: Document = {
        "operationId": endpoint.handler.__name__,
        "summary": endpoint.summary,
        "parameters": [*_path_parameters(endpoint), *_query_parameters(endpoint)],
        "responses": {
            str(endpoint.status): _describe_reply(endpoint, schema_of),
            "default": {
                "description": "The request failed; the sentence says why.",
                "content": {"application/json": {"schema": schema_of[repr(ErrorBody)]}},
            },
        },
    }
    if endpoint.body is not None:
        content = {"application/json": {"schema": schema_of[repr(endpoint.body)]}}
        operation["requestBody"] = {"required": True, "content": content}
    return operation


def _describe_reply(endpoint: AdminEndpoint, schema_of: Document) -> Document:
    if endpoint.reply is None:
        return {"description": "Done."}
    schema = schema_of[repr(endpoint.reply)]
    if endpoint.streams:
        return {"description": "Events.", "content": {"text/event-stream": {"schema": _event_schema(schema)}}}
    return {"description": "The answer.", "content": {"application/json": {"schema": schema}}}


def _event_schema(schema: Document) -> Document:
    """Return the schema of one server-sent event, as OpenAPI 3.2 has it: its data is text that holds JSON."""
    data = {"type": "string", "contentMediaType": "application/json", "contentSchema": schema}
    return {"type": "object", "required": ["event", "data"], "properties": {"event": {"type": "string"}, "data": data}}


def _path_parameters(endpoint: AdminEndpoint) -> list[Document]:
    return [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
        for name in _VARIABLE.findall(endpoint.path)
    ]


def _query_parameters(endpoint: AdminEndpoint) -> list[Document]:
    (_, components) = msgspec.json.schema_components([endpoint.query], ref_template=_REFERENCE)
    schema = components[endpoint.query.__name__]
    required = schema.get("required", [])
    return [
        {"name": name, "in": "query", "required": name in required, "schema": value}
        for name, value in schema["properties"].items()
    ]
