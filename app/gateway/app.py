"""The aiohttp application: which module answers which routes."""

from aiohttp import web

from app.gateway import anthropic, ollama, openai, public
from app.gateway.admin.routes import add_routes as add_admin_routes
from app.gateway.guard import Guard
from app.gateway.middleware import GUARD, add_headers, answer
from app.gateway.services import SERVICES, Services

_MIB = 1024 * 1024


def build_app(services: Services) -> web.Application:
    """Return the application around `services`, ready to be served."""
    settings = services.settings
    app = web.Application(middlewares=[answer], client_max_size=settings.integer("gateway.max_body_mib") * _MIB)
    app[SERVICES] = services
    app[GUARD] = Guard(settings.text("gateway.host"), settings.items("gateway.allowed_origins"))
    app.on_response_prepare.append(add_headers)
    public.add_routes(app)
    openai.add_routes(app)
    anthropic.add_routes(app)
    ollama.add_routes(app)
    add_admin_routes(app)
    return app
