"""The table of Roundhouse's own API (see `core.api`): what is listed here is served, and is in the OpenAPI document."""

from aiohttp import web

from app.core.advice import Advice, Calibration, Estimate, EstimateRequest, LoadTruth, PlanRequest
from app.core.api import PREFIX, Status
from app.core.chats import AnswerEvent, Chat, ChatPatch, ChatSummary, Message, NewChat, NewTurn, Turn
from app.core.downloads import Download, MoveDownload, Pull
from app.core.engines import EngineChoice, EngineInfo, EngineStatus
from app.core.events import Event, LogLine
from app.core.hub import CatalogueInfo, HubModel, HubPick, HubQuery, HubResults, HubTokenState, SetHubToken
from app.core.machine import Machine
from app.core.models import LoadModel, ModelInfo, RegisterModel, UnloadModel
from app.core.report import Bundle, DoctorReport
from app.core.requests import RequestDetail, RequestInfo, Usage
from app.core.settings import SettingInfo
from app.core.tools import ToolChange, ToolInfo, ToolProbe, WireTool
from app.gateway.admin import (
    advice,
    attached,
    chats,
    connections,
    downloads,
    engines,
    gateway,
    hub,
    keys,
    library,
    lifecycle,
    made,
    models,
    requests,
    tools,
    updates,
)
from app.gateway.admin.calls import ANSWERS, BACKGROUND, CALIBRATOR, ENGINES, Endpoint, answering, check_manager
from app.gateway.admin.openapi import document
from app.gateway.advising.calibration import Calibrator
from app.gateway.background import Background
from app.gateway.chats.answers import Answers
from app.gateway.engines.slot import EnginesSlot
from app.gateway.exchange.handling import ENGINE_ACCESS
from app.gateway.services import SERVICES

_CHAT = "/chats/{id}"
_ANSWER = "/chats/{id}/answers/{message}"
_TOOL = "/tools/{id}"


ENDPOINTS: tuple[Endpoint, ...] = (
    Endpoint(
        method="GET", path="/status", handler=gateway.status, summary="Say who and where the gateway is", reply=Status
    ),
    Endpoint(
        method="POST",
        path="/shutdown",
        handler=gateway.shutdown,
        summary="End the gateway and every engine",
        status=202,
    ),
    Endpoint(
        method="GET",
        path="/machine",
        handler=gateway.machine,
        summary="Describe this computer",
        reply=Machine,
        query=gateway.MachineQuery,
    ),
    Endpoint(
        method="GET",
        path="/engines",
        handler=gateway.engines,
        summary="List the engines this build knows",
        reply=list[EngineInfo],
    ),
    *engines.ENDPOINTS,
    Endpoint(
        method="GET",
        path="/choice",
        handler=gateway.choice,
        summary="Name the engine this computer should use, and why",
        reply=EngineChoice,
    ),
    Endpoint(
        method="GET",
        path="/models",
        handler=models.list_models,
        summary="List the models on this computer",
        reply=list[ModelInfo],
    ),
    Endpoint(
        method="POST",
        path="/models",
        handler=models.register,
        summary="List a model file where it lies",
        body=RegisterModel,
        reply=ModelInfo,
    ),
    Endpoint(
        method="DELETE",
        path="/models/{name}",
        handler=models.forget,
        summary="Forget a registered file and leave it on disk",
        status=204,
    ),
    *made.ENDPOINTS,
    *attached.ENDPOINTS,
    Endpoint(
        method="GET",
        path="/hub/model",
        handler=hub.model,
        summary="Say what a repository of the hub offers to this machine",
        reply=HubModel,
        query=hub.ModelQuery,
    ),
    Endpoint(
        method="GET",
        path="/hub/search",
        handler=hub.search,
        summary="Look for models on the hub, one card per model",
        reply=HubResults,
        query=HubQuery,
    ),
    Endpoint(
        method="GET",
        path="/hub/best",
        handler=hub.best,
        summary="Say which models of the catalogue suit this machine, the best first",
        reply=list[HubPick],
        query=hub.BestQuery,
    ),
    Endpoint(
        method="POST",
        path="/hub/catalogue",
        handler=hub.refresh_catalogue,
        summary="Fetch the catalogue anew, if its signature holds",
        reply=CatalogueInfo,
    ),
    Endpoint(
        method="GET",
        path="/hub/token",
        handler=hub.token,
        summary="Say whether there is a token for the hub",
        reply=HubTokenState,
    ),
    Endpoint(
        method="POST",
        path="/hub/token",
        handler=hub.set_token,
        summary="Keep a token for the hub in the system's keyring",
        body=SetHubToken,
        reply=HubTokenState,
    ),
    Endpoint(
        method="DELETE",
        path="/hub/token",
        handler=hub.forget_token,
        summary="Forget the token for the hub that was kept",
        status=204,
    ),
    Endpoint(
        method="GET",
        path="/downloads",
        handler=downloads.list_downloads,
        summary="List the downloads, in the order of the queue",
        reply=list[Download],
    ),
    Endpoint(
        method="POST",
        path="/downloads",
        handler=downloads.pull,
        summary="Download a model from the hub, or go on with it",
        body=Pull,
        reply=Download,
    ),
    Endpoint(
        method="POST",
        path="/downloads/{id}/pause",
        handler=downloads.pause,
        summary="Stop a download and keep what came",
        reply=Download,
    ),
    Endpoint(
        method="POST",
        path="/downloads/{id}/resume",
        handler=downloads.resume,
        summary="Go on with a download",
        reply=Download,
    ),
    Endpoint(
        method="POST",
        path="/downloads/{id}/move",
        handler=downloads.move,
        summary="Give a download another place in the queue",
        body=MoveDownload,
        reply=list[Download],
    ),
    Endpoint(
        method="DELETE",
        path="/downloads/{id}",
        handler=downloads.remove,
        summary="Take a download off the list, and delete what came of one that is not done",
        status=204,
    ),
    Endpoint(
        method="GET",
        path="/running",
        handler=models.running,
        summary="List the engine processes",
        reply=list[EngineStatus],
    ),
    Endpoint(
        method="POST",
        path="/load",
        handler=models.load,
        summary="Make a model ready",
        body=LoadModel,
        reply=EngineStatus,
    ),
    Endpoint(
        method="POST",
        path="/unload",
        handler=models.unload,
        summary="Stop a model's engine",
        body=UnloadModel,
        reply=EngineStatus,
    ),
    *library.ENDPOINTS,
    *lifecycle.ENDPOINTS,
    *updates.ENDPOINTS,
    Endpoint(
        method="GET",
        path="/logs",
        handler=models.logs,
        summary="Show the last lines an engine wrote",
        reply=list[LogLine],
        query=models.LogQuery,
    ),
    Endpoint(
        method="GET",
        path="/chats",
        handler=chats.list_chats,
        summary="List or search chats, newest first",
        reply=list[ChatSummary],
        query=chats.ListQuery,
    ),
    Endpoint(method="POST", path="/chats", handler=chats.create, summary="Begin a chat", body=NewChat, reply=Chat),
    Endpoint(method="GET", path=_CHAT, handler=chats.read, summary="Show a chat with all its messages", reply=Chat),
    Endpoint(
        method="PATCH",
        path=_CHAT,
        handler=chats.change,
        summary="Change what is about a chat",
        body=ChatPatch,
        reply=Chat,
    ),
    Endpoint(
        method="DELETE",
        path=_CHAT,
        handler=chats.delete,
        summary="Delete a chat; it can be restored for 30 days",
        status=204,
    ),
    Endpoint(
        method="POST", path=_CHAT + "/restore", handler=chats.restore, summary="Bring a deleted chat back", reply=Chat
    ),
    Endpoint(
        method="POST",
        path=_CHAT + "/turns",
        handler=chats.ask,
        summary="Ask and be answered, or have a question answered again",
        body=NewTurn,
        reply=Turn,
    ),
    Endpoint(
        method="GET",
        path=_ANSWER,
        handler=chats.follow,
        summary="Follow an answer while it is written",
        reply=AnswerEvent,
        streams=True,
        query=chats.FollowQuery,
    ),
    Endpoint(
        method="POST",
        path=_ANSWER + "/stop",
        handler=chats.stop,
        summary="Stop an answer and keep what is written",
        reply=Message,
    ),
    Endpoint(
        method="POST",
        path="/plan",
        handler=advice.plan,
        summary="Say which engine, format and settings fit, best first, and why",
        body=PlanRequest,
        reply=Advice,
    ),
    Endpoint(
        method="POST",
        path="/estimate",
        handler=advice.estimate,
        summary="Say what a model takes, whether it fits, and how fast it will be",
        body=EstimateRequest,
        reply=Estimate,
    ),
    Endpoint(
        method="GET",
        path="/calibration",
        handler=advice.calibrations,
        summary="List what was measured of this computer's speed",
        reply=list[Calibration],
    ),
    Endpoint(
        method="DELETE",
        path="/calibration",
        handler=advice.forget,
        summary="Forget what was measured",
        status=204,
    ),
    Endpoint(
        method="POST",
        path="/calibrate",
        handler=advice.calibrate,
        summary="Measure this computer's speed; takes about a minute",
        status=202,
    ),
    Endpoint(
        method="DELETE",
        path="/calibrate",
        handler=advice.stop_calibrating,
        summary="Stop measuring",
        status=204,
    ),
    Endpoint(
        method="GET",
        path="/loads",
        handler=advice.loads,
        summary="List what loads took against what was predicted",
        reply=list[LoadTruth],
    ),
    Endpoint(
        method="GET",
        path="/doctor",
        handler=advice.doctor,
        summary="Write a report about this computer without names or serial numbers",
        reply=DoctorReport,
    ),
    Endpoint(
        method="GET",
        path="/bundle",
        handler=advice.bundle,
        summary="Gather what helps to find a mistake: report, versions, settings, logs; no prompts, keys or names",
        reply=Bundle,
    ),
    *keys.ENDPOINTS,
    Endpoint(
        method="GET",
        path="/tools",
        handler=tools.list_tools,
        summary="List the tools that can use the endpoint, those found here first",
        reply=list[ToolInfo],
    ),
    Endpoint(
        method="POST",
        path=_TOOL + "/preview",
        handler=tools.preview,
        summary="Show what wiring a tool would change",
        body=WireTool,
        reply=ToolChange,
    ),
    Endpoint(
        method="POST",
        path=_TOOL + "/connect",
        handler=tools.connect,
        summary="Wire a tool to the endpoint",
        body=WireTool,
        reply=ToolChange,
    ),
    Endpoint(
        method="POST",
        path=_TOOL + "/undo",
        handler=tools.undo,
        summary="Put a tool's file back as it was",
        reply=ToolChange,
    ),
    Endpoint(
        method="POST",
        path=_TOOL + "/probe",
        handler=tools.try_out,
        summary="Ask the endpoint for one token as a tool would",
        body=WireTool,
        reply=ToolProbe,
    ),
    Endpoint(
        method="GET", path="/settings", handler=gateway.settings, summary="List the settings", reply=list[SettingInfo]
    ),
    Endpoint(
        method="PATCH",
        path="/settings",
        handler=gateway.change_settings,
        summary="Change settings; null resets one",
        body=gateway.SettingChanges,
        reply=list[SettingInfo],
    ),
    *connections.ENDPOINTS,
    Endpoint(
        method="GET",
        path="/requests",
        handler=requests.list_requests,
        summary="List the last requests at the endpoint, newest first",
        reply=list[RequestInfo],
        query=requests.RequestsQuery,
    ),
    Endpoint(
        method="DELETE",
        path="/requests",
        handler=requests.forget,
        summary="Forget the requests that are over",
        status=204,
    ),
    Endpoint(
        method="GET",
        path="/requests/{id}",
        handler=requests.show,
        summary="Show one request, with its words if they were kept",
        reply=RequestDetail,
    ),
    Endpoint(
        method="POST",
        path="/requests/{id}/cancel",
        handler=requests.cancel,
        summary="Stop a request; its client is told so",
        reply=RequestInfo,
    ),
    Endpoint(
        method="GET",
        path="/usage",
        handler=requests.usage,
        summary="Sum up what clients used, today and in seven days",
        reply=Usage,
    ),
    Endpoint(
        method="GET",
        path="/events",
        handler=gateway.events,
        summary="Follow what happens",
        reply=Event,
        streams=True,
        query=gateway.EventsQuery,
    ),
)


def add_routes(app: web.Application) -> None:
    """Serve the table and its OpenAPI document, and own the answers being written."""
    app[ANSWERS] = Answers(app[SERVICES], app[ENGINE_ACCESS])
    app[BACKGROUND] = Background()
    app[CALIBRATOR] = Calibrator(app[SERVICES])
    app[ENGINES] = EnginesSlot(app[SERVICES])
    app.on_shutdown.append(_end)
    for endpoint in ENDPOINTS:
        # Names of models may hold slashes; clients quote them, and the ones people type by hand do not.
        app.router.add_route(
            endpoint.method, PREFIX + endpoint.path.replace("{name}", "{name:.+}"), answering(endpoint)
        )
    app.router.add_route("GET", f"{PREFIX}/openapi.json", _openapi)


async def _openapi(request: web.Request) -> web.Response:
    check_manager(request)
    return web.Response(body=document(ENDPOINTS), content_type="application/json")


async def _end(app: web.Application) -> None:
    await app[CALIBRATOR].stop()
    await app[ENGINES].close()
    await app[ANSWERS].close()
    await app[BACKGROUND].join(cancel=True)
