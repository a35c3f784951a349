"""Requests that the gateway makes for itself, of models that answer in one piece: vectors, orders, pictures."""

from app.gateway.exchange.handling import engine_path
from app.gateway.exchange.observer import Caller, ExchangeOutcome, Observation, Observers
from app.gateway.exchange.translating import fetch_body
from app.gateway.exchange.upstream import EngineAccess, UpstreamRequest
from app.gateway.loading.requested_model import ResolvedModel
from app.gateway.services import Services
from engines.api import Route


class OwnRequests:
    """Asks models on behalf of the gateway, counted as every exchange is."""

    def __init__(self, services: Services, engines: EngineAccess) -> None:
        self._services, self._engines = services, engines
        self._observers = Observers((services.metrics, services.speed_measurements))

    async def fetch(self, target: ResolvedModel, route: Route, body: bytes) -> bytes:
        """Return the answer to a request. Raises RoundhouseError."""
        services, name = self._services, target.model.name
        upstream = UpstreamRequest(
            load=target.load,
            path=engine_path(services.adapters, services.library, target.load.engine, target.model, route),
            body=body,
            model=name,
        )
        observation = Observation(Caller(), self._observers)
        observation.note_model(route, name)
        try:
            answer = await fetch_body(self._engines, upstream, observation)
            observation.outcome = ExchangeOutcome.OK
        finally:
            observation.end()
        return answer
