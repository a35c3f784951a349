"""The table of Roundhouse's own API (see `core.api`): what is listed here is served, and is in the OpenAPI document.

The document is made from the table and the types of what its rows take and give.
"""

import functools
import re
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
from aiohttp import web

from app.core.advice import EstimateAccuracy
from app.core.api import API_VERSION, PREFIX
from app.core.connections import ConnectionReason
from app.core.engine_store import EngineListing, EngineVersion
from app.core.engines import EnginePlanRequest
from app.core.errors import ErrorBody
from app.core.hub import HubSearchHit
from app.core.keys import KeyWithSecret
from app.core.library import ModelHolding, TrashContents
from app.core.machine import DiagnosticBundle, EngineBuild
from app.gateway.admin import (
    across,
    advice,
    agents,
    attachments,
    benchmarks,
    chats,
    deployments,
    documents,
    engines,
    fleets,
    gateway,
    guide,
    hub,
    library,
    loading,
    machines,
    mcp,
    models,
    presets,
    profiles,
    quantizations,
    tools,
    traffic,
)
from app.gateway.admin.calls import (
    AGENTS,
    ANSWERS,
    BENCHMARKS,
    BINARY,
    CALIBRATOR,
    DRAFT_TRIALS,
    ENGINES,
    FILES,
    GUIDE_ANSWERS,
    MACHINES,
    PROFILES,
    QUANTIZER,
    RACES,
    TRIALS,
    TUNINGS,
    AdminEndpoint,
    LazyEngineStore,
    check_manager,
    make_handler,
)
from app.gateway.advising.calibration import Calibrator
from app.gateway.advising.draft_trials import DraftTrials
from app.gateway.advising.idle_trials import IdleTrials
from app.gateway.agents.sessions import AgentSessions
from app.gateway.attachments.reading_child import FileReader
from app.gateway.background import BACKGROUND, Background
from app.gateway.benchmarking.job import Benchmarks
from app.gateway.benchmarking.race import Races
from app.gateway.benchmarking.self_tuning import SelfTuning
from app.gateway.benchmarking.trial import Trials
from app.gateway.chats.answer_writer import AnswerHelpers
from app.gateway.chats.answers import ChatAnswers
from app.gateway.chats.pictures import PictureDrawer
from app.gateway.chats.sources import SourceFinder
from app.gateway.chats.tidying import keep_chats_tidy
from app.gateway.documents.attached_files import AttachmentIndexes
from app.gateway.documents.collections import COLLECTIONS, Collections
from app.gateway.documents.model_calls import DocumentModels
from app.gateway.documents.searching import PASSAGES, PassageSearch
from app.gateway.exchange.handling import ENGINE_ACCESS
from app.gateway.fleets.keeper import FLEETS, FleetKeeper
from app.gateway.guide.answering import Guide
from app.gateway.hub.downloads import DOWNLOADS
from app.gateway.kept_prompts.service import KEPT_PROMPTS
from app.gateway.library.quantizing import Quantizer
from app.gateway.machines.service import Machines
from app.gateway.mcp.servers import MCP_SERVERS, McpServers
from app.gateway.profiles.hours import HoursWatch
from app.gateway.profiles.switching import ProfileSwitcher
from app.gateway.services import SERVICES

TABLES = (
    gateway.routes,
    engines.routes,
    models.routes,
    fleets.routes,
    machines.routes,
    deployments.routes,
    across.routes,
    loading.routes,
    profiles.routes,
    hub.routes,
    library.routes,
    quantizations.routes,
    gateway.update_routes,
    chats.routes,
    attachments.routes,
    presets.routes,
    advice.routes,
    guide.routes,
    benchmarks.routes,
    tools.routes,
    mcp.routes,
    agents.routes,
    documents.routes,
    traffic.routes,
)
ENDPOINTS: tuple[AdminEndpoint, ...] = tuple(row for table in TABLES for row in table.endpoints)
PUBLISHED_NAMES: dict[type, str] = {
    ConnectionReason: "Why",
    DiagnosticBundle: "Bundle",
    EngineBuild: "app.core.report.EngineVersion",
    EngineListing: "EngineStock",
    EnginePlanRequest: "AskPlan",
    EngineVersion: "app.core.engine_store.EngineVersion",
    EstimateAccuracy: "LoadTruth",
    HubSearchHit: "HubFound",
    KeyWithSecret: "MadeKey",
    ModelHolding: "Holding",
    TrashContents: "Trashed",
}
"""Names of schemas in the document, where they are not those of the classes: clients are generated from them."""

_REFERENCE = "#/components/schemas/{name}"
_VARIABLE = re.compile(r"{(\w+)}")

Document = dict[str, Any]


def add_routes(router: web.UrlDispatcher) -> None:
    """Serve the table and its OpenAPI document."""
    for endpoint in ENDPOINTS:
        # Names of models may hold slashes; clients quote them, and the ones people type by hand do not.
        router.add_route(endpoint.method, PREFIX + endpoint.path.replace("{name}", "{name:.+}"), make_handler(endpoint))
    router.add_route("GET", f"{PREFIX}/openapi.json", _serve_openapi)


def add_admin(app: web.Application) -> None:
    """Own what the table's rows work with, the answers being written among it."""
    app[BACKGROUND] = Background()
    app[FILES] = FileReader()
    app[MCP_SERVERS] = McpServers(app[SERVICES].paths, app[SERVICES].events)
    app[AGENTS] = AgentSessions(app[SERVICES])
    app[COLLECTIONS] = Collections(
        app[SERVICES].paths,
        app[SERVICES].events,
        app[FILES],
        DocumentModels(app[SERVICES], app[ENGINE_ACCESS]),
    )
    app[PASSAGES] = PassageSearch(app[COLLECTIONS])
    app[GUIDE_ANSWERS] = Guide(app[SERVICES], app[ENGINE_ACCESS], lambda: app[DOWNLOADS].all())  # noqa: PLW0108 -- the queue is made after this table
    app[ANSWERS] = ChatAnswers(app[SERVICES], app[ENGINE_ACCESS], _answer_helpers(app))
    app[BENCHMARKS] = Benchmarks(app[SERVICES])
    app[PROFILES] = ProfileSwitcher(app[SERVICES])
    app[FLEETS] = FleetKeeper(app[SERVICES], app[ENGINE_ACCESS].stuck_checks.list_silent)
    app[MACHINES] = Machines(app[SERVICES], note_revoked=app[DOWNLOADS].leave_machine)
    app[DOWNLOADS].find_sources = app[MACHINES].find_sources
    app[RACES] = Races(app[SERVICES])
    app[TRIALS] = Trials(app[SERVICES])
    app[TUNINGS] = SelfTuning(app[SERVICES])
    app[QUANTIZER] = Quantizer(app[SERVICES])
    app[CALIBRATOR] = Calibrator(app[SERVICES])
    app[DRAFT_TRIALS] = DraftTrials(app[SERVICES])
    app[ENGINES] = LazyEngineStore(app[SERVICES])
    app.on_startup.append(_watch_idle)
    app.on_startup.append(_keep_tidy)
    app.on_startup.append(_keep_collections)
    app.on_startup.append(_keep_hours)
    app.on_startup.append(_keep_machines)
    app.on_startup.append(_watch_kept_prompts)
    app.on_startup.append(_keep_fleets)
    app.on_shutdown.append(_close_services)


def _answer_helpers(app: web.Application) -> AnswerHelpers:
    indexes = AttachmentIndexes(app[SERVICES].paths, app[COLLECTIONS].models)
    finder = SourceFinder(app[SERVICES].chats, app[COLLECTIONS], app[PASSAGES], indexes)
    drawer = PictureDrawer(app[SERVICES], app[ENGINE_ACCESS], app[FILES])
    return AnswerHelpers(app[MCP_SERVERS], finder, app[GUIDE_ANSWERS], drawer)


async def _serve_openapi(request: web.Request) -> web.Response:
    check_manager(request)
    return web.Response(body=openapi_document(ENDPOINTS), content_type="application/json")


async def _watch_idle(app: web.Application) -> None:
    app[BACKGROUND].spawn(IdleTrials(app[SERVICES], app[DRAFT_TRIALS]).watch())


async def _keep_tidy(app: web.Application) -> None:
    app[BACKGROUND].spawn(keep_chats_tidy(app[SERVICES].chats, app[SERVICES].events))


async def _keep_collections(app: web.Application) -> None:
    app[BACKGROUND].spawn(app[COLLECTIONS].keep_up_to_date())


async def _keep_hours(app: web.Application) -> None:
    app[BACKGROUND].spawn(HoursWatch(app[SERVICES], app[PROFILES]).run_forever())


async def _watch_kept_prompts(app: web.Application) -> None:
    app[BACKGROUND].spawn(app[KEPT_PROMPTS].watch_events())


async def _keep_fleets(app: web.Application) -> None:
    app[BACKGROUND].spawn(app[FLEETS].run_forever())


async def _keep_machines(app: web.Application) -> None:
    app[BACKGROUND].spawn(app[MACHINES].run_forever())


async def _close_services(app: web.Application) -> None:
    await app[PROFILES].close()
    await app[FLEETS].close()
    await app[MACHINES].close()
    await app[BENCHMARKS].stop()
    await app[RACES].stop()
    await app[TRIALS].stop()
    await app[TUNINGS].stop()
    await app[QUANTIZER].stop_run()
    await app[CALIBRATOR].stop()
    await app[DRAFT_TRIALS].stop()
    await app[ENGINES].close()
    await app[ANSWERS].close()
    await app[COLLECTIONS].close()
    await app[MCP_SERVERS].close()
    await app[AGENTS].close()
    await app[BACKGROUND].join(cancel=True)


@functools.cache
def openapi_document(endpoints: tuple[AdminEndpoint, ...]) -> bytes:
    """Return the document as JSON."""
    kinds = _table_types(endpoints)
    schemas, components = _make_schemas(kinds)
    queries = {endpoint.query: _make_schemas([endpoint.query])[1] for endpoint in endpoints}
    for query, parts in queries.items():  # what its parameters refer to is published too, itself not
        components |= {name: part for name, part in parts.items() if name != query.__name__}
    schema_of = dict(zip(map(repr, kinds), schemas, strict=True))
    paths: Document = {}
    for endpoint in endpoints:
        paths.setdefault(PREFIX + endpoint.path, {})[endpoint.method.lower()] = _describe_operation(
            endpoint, schema_of, queries[endpoint.query][endpoint.query.__name__]
        )
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


def _make_schemas(kinds: Iterable[Any]) -> tuple[list[Document], Document]:
    """Return the schema of each type, and those that they refer to by the names they are published under."""
    schemas, components = msgspec.json.schema_components(kinds, ref_template=_REFERENCE)
    published_names = {kind.__name__: name for kind, name in PUBLISHED_NAMES.items()}
    references = {_REFERENCE.format(name=own): _REFERENCE.format(name=name) for own, name in published_names.items()}
    for own in published_names.keys() & components.keys():
        components[own]["title"] = published_names[own].rpartition(".")[2]
    components = {published_names.get(own, own): schema for own, schema in components.items()}
    for schema in (*schemas, *components.values()):
        _replace_references(schema, references)
    return list(schemas), components


def _replace_references(schema: object, references: Mapping[str, str]) -> None:
    """Have every reference in `schema` that is a key of `references` name the value instead."""
    if isinstance(schema, dict):
        if schema.get("$ref") in references:
            schema["$ref"] = references[schema["$ref"]]
        schema = list(schema.values())
    if isinstance(schema, list):
        for value in schema:
            _replace_references(value, references)


def _describe_operation(endpoint: AdminEndpoint, schema_of: Document, query: Document) -> Document:
    operation: Document = {
        "operationId": endpoint.handler.__name__,
        "summary": endpoint.summary,
        "parameters": [*_path_parameters(endpoint), *_query_parameters(query)],
        "responses": {
            str(endpoint.status): _describe_reply(endpoint, schema_of),
            "default": {
                "description": "The request failed; the sentence says why.",
                "content": {"application/json": {"schema": schema_of[repr(ErrorBody)]}},
            },
        },
    }
    if endpoint.body is not None:
        content = _describe_content(endpoint.body, schema_of)
        operation["requestBody"] = {"required": True, "content": content}
    return operation


def _describe_reply(endpoint: AdminEndpoint, schema_of: Document) -> Document:
    if endpoint.reply is None:
        return {"description": "Done."}
    schema = schema_of[repr(endpoint.reply)]
    if endpoint.streams:
        return {"description": "Events.", "content": {"text/event-stream": {"schema": _event_schema(schema)}}}
    return {"description": "The answer.", "content": _describe_content(endpoint.reply, schema_of)}


def _describe_content(kind: Any, schema_of: Document) -> Document:  # noqa: ANN401 -- a type of the table
    if kind is bytes:
        return {BINARY: {"schema": {"type": "string", "format": "binary"}}}
    return {"application/json": {"schema": schema_of[repr(kind)]}}


def _event_schema(schema: Document) -> Document:
    """Return the schema of one server-sent event, as OpenAPI 3.2 has it: its data is text that holds JSON."""
    data = {"type": "string", "contentMediaType": "application/json", "contentSchema": schema}
    return {"type": "object", "required": ["event", "data"], "properties": {"event": {"type": "string"}, "data": data}}


def _path_parameters(endpoint: AdminEndpoint) -> list[Document]:
    return [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
        for name in _VARIABLE.findall(endpoint.path)
    ]


def _query_parameters(schema: Document) -> list[Document]:
    required_names = schema.get("required", [])
    return [
        {"name": name, "in": "query", "required": name in required_names, "schema": value}
        for name, value in schema["properties"].items()
    ]
