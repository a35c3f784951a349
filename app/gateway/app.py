"""The aiohttp application: which module answers which routes."""

from functools import cache, partial

from aiohttp import web

from app.config.store import SettingsStore
from app.gateway.admin import routes as admin
from app.gateway.admin.calls import GUIDE_ANSWERS
from app.gateway.dialects.anthropic import routes as anthropic
from app.gateway.dialects.google import routes as google
from app.gateway.dialects.llama_server import routes as llama_server
from app.gateway.dialects.lmstudio import routes as lmstudio
from app.gateway.dialects.lmstudio.chat import EARLIER_CHATS, LmStudioHistoryCache
from app.gateway.dialects.ollama import pull as ollama_pull
from app.gateway.dialects.ollama import routes as ollama
from app.gateway.dialects.openai import files, vector_stores
from app.gateway.dialects.openai import routes as openai
from app.gateway.dialects.responses import routes as responses
from app.gateway.dialects.responses.stored import ACTIVE_RESPONSES
from app.gateway.documents.endpoint_files import EndpointFiles
from app.gateway.entry.access import Access
from app.gateway.entry.dispatch import Router
from app.gateway.entry.guard import Guard, is_wide
from app.gateway.entry.keys import KeyStore
from app.gateway.entry.middleware import ENTRY, Entry, send_continue
from app.gateway.entry.responses import GUARD, add_headers
from app.gateway.exchange.handling import ENGINE_ACCESS
from app.gateway.exchange.observer import Observers
from app.gateway.exchange.prompt_caches import PromptCaches
from app.gateway.exchange.upstream import EngineAccess
from app.gateway.hub.downloads import add_downloads
from app.gateway.hub.model_search import add_catalogue
from app.gateway.instance import own_names
from app.gateway.kept_prompts.service import KEPT_PROMPTS, WarmPromptService
from app.gateway.library.file_jobs import add_library
from app.gateway.own_updates import add_updates
from app.gateway.services import SERVICES, Identity, Services
from app.gateway.watching import routes as public
from app.gateway.watching.connection_log import add_connections
from app.gateway.watching.inspector import INSPECTOR, KEEPS_BODIES, USAGE, RequestInspector, UsageRecorder
from app.gateway.watching.journal import JournalSink
from app.gateway.watching.trace_exporter import TRACES, TraceExporter

_MIB = 1024 * 1024


def build_app(services: Services) -> web.Application:
    """Return the application around `services`, ready to be served."""
    settings = services.settings
    app = web.Application(client_max_size=settings.get_int("gateway.max_body_mib") * _MIB)
    app._router = _make_router()  # noqa: SLF001 -- the argument for it is deprecated, and nothing took its place
    app[SERVICES] = services
    app[GUARD] = guard = _guard(settings)
    app[ENTRY] = Entry(guard, _access(settings, services.keys, services.identity), _observe(app, services))
    app.middlewares.append(app[ENTRY].answer_routed)
    add_connections(app)
    add_downloads(app)
    add_catalogue(app)
    add_library(app)
    add_updates(app)
    app.on_response_prepare.append(add_headers)
    app[files.ENDPOINT_FILES] = EndpointFiles(services.paths.endpoint_files)
    app[ACTIVE_RESPONSES] = {}
    app[EARLIER_CHATS] = LmStudioHistoryCache()
    admin.add_admin(app)
    return app


@cache
def _make_router() -> web.UrlDispatcher:
    """Return every address with what answers it, the same for all applications of a process: it knows none of them."""
    router = Router()
    public.add_routes(router)
    openai.add_routes(router)
    files.add_routes(router)
    vector_stores.add_routes(router)
    responses.add_routes(router)
    ollama.add_routes(router)
    ollama_pull.add_routes(router)
    lmstudio.add_routes(router)
    anthropic.add_routes(router)
    google.add_routes(router)
    llama_server.add_routes(router)
    admin.add_routes(router)
    for route in router.routes():
        route._expect_handler = send_continue  # noqa: SLF001 -- aiohttp takes it with each route only, and not for all
    return router


def _guard(settings: SettingsStore) -> Guard:
    host = settings.get_text("gateway.host")
    own = own_names() if is_wide(host) else ()
    return Guard(
        host, settings.get_list("gateway.allowed_origins"), (*own, *settings.get_list("gateway.allowed_hosts"))
    )


def _access(settings: SettingsStore, keys: KeyStore, identity: Identity) -> Access:
    return Access(
        keys,
        identity.token,
        is_wide=is_wide(settings.get_text("gateway.host")),
        asks_always=partial(settings.get_flag, "gateway.require_key"),
    )


async def _look_up(app: web.Application, question: str) -> str:
    """Return what the Guide answers, as text: requests of all dialects get the same as the window and `ask`."""
    return (await app[GUIDE_ANSWERS].answer(question)).markdown


def _observe(app: web.Application, services: Services) -> Observers:
    """Return who notes exchanges: for metrics, for what is learnt of speeds, in the inspector, as usage, in the log."""
    inspector = app[INSPECTOR] = RequestInspector(services.settings, services.supervisor, services.events)
    usage = app[USAGE] = UsageRecorder(services.chats, services.keys)
    sinks = (services.metrics, services.speed_measurements, inspector, usage, JournalSink())
    observers = Observers(sinks, partial(services.settings.get_flag, KEEPS_BODIES))
    traces = app[TRACES] = TraceExporter(services, observers)
    kept_prompts = app[KEPT_PROMPTS] = WarmPromptService(services, observers)
    engines = app[ENGINE_ACCESS] = EngineAccess(
        services.supervisor,
        services.adapters,
        services.connections,
        prompt_caches=PromptCaches(partial(services.settings.get_flag, "engine.share_cache")),
        unreadable=services.unreadable,
        look_up=partial(_look_up, app),
        warm=kept_prompts.resume,
    )
    kept_prompts.resume.ask = engines.ask_engine

    async def close(_app: web.Application) -> None:
        await engines.stuck_checks.close()
        await kept_prompts.resume.close()
        observers.notify()
        await traces.close()
        inspector.close()
        await usage.close()

    app.on_cleanup.append(close)
    return observers
