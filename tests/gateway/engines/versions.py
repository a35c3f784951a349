"""A gateway with an engine store, whose fake engine behaves as the number of its version says."""

import dataclasses
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import aiohttp
import msgspec

from app.core.api import PREFIX
from app.core.engine_store import EngineJob, EngineListing, EngineVersion
from app.core.events import Notice
from app.engine_store.recipe import InstallRecipe
from app.gateway.engines import smoke_tests
from app.gateway.engines.rollback import VersionMoves
from app.gateway.services import Services
from engines.api import (
    EngineInstallation,
    EngineLocation,
    Exit,
    Failure,
    FailureKind,
    LaunchOptions,
    LaunchPlan,
    ListenOptions,
    ModelSource,
    Remedy,
    RemedyKind,
)
from tests.fake_engine.adapter import FakeAdapter
from tests.fake_engine.behaviour import Behaviour

WELL = Behaviour(token=smoke_tests.EXPECTED, tokens=1)
BUNDLED_VERSION = "0.5"
VERSIONS = {
    BUNDLED_VERSION: WELL,
    "1.0": WELL,
    "2.0": dataclasses.replace(WELL, dies_after=0, dies_by="abort", exit_code=3),
    "2.1": Behaviour(says=("libmagic.so.1: cannot open shared object file",), exit_code=127),
    "2.2": Behaviour(token="word", tokens=30),
    "2.3": Behaviour(is_silent=True),
    "2.4": Behaviour(never_answers=True),
    "2.5": dataclasses.replace(WELL, dies_after=0, dies_by="kill"),
    "2.6": Behaviour(exit_code=132),  # as a shell has SIGILL: what AMX kernels come to in some virtual machines
}
BAD = {
    "2.0": ("crashed", "ended with 3"),
    "2.1": ("missing_library", "A library is missing"),
    "2.2": ("gibberish", "nonsense"),
    "2.3": ("stalled", "no sign of life"),
    "2.4": ("hung", "never answered"),
    "2.5": ("killed", "ended with -9"),
    "2.6": ("crashed", "ended with 132"),
}


class Versioned(FakeAdapter):
    """A fake engine whose behaviour hangs on the version that runs; `later` says what it does once it is trusted."""

    def __init__(self) -> None:
        super().__init__()
        self.later: dict[str, Behaviour] = {}
        self.came_along = True

    def probe(self, place: EngineLocation | None = None) -> EngineInstallation | Failure:
        if place is None and not self.came_along:
            return Failure(kind=FailureKind.NOT_INSTALLED, sentence="It is not installed.", hint="Install it.")
        if place is None or place.executable is not None:
            return EngineInstallation(
                engine="fake", version=BUNDLED_VERSION, backend="cpu", python=Path(sys.executable)
            )
        return EngineInstallation(engine="fake", version=place.version, backend="cpu", python=place.python)

    def plan(
        self, model: ModelSource, options: LaunchOptions, net: ListenOptions, installation: EngineInstallation
    ) -> LaunchPlan:
        self.behaviours[model.name] = VERSIONS[installation.version]
        if model.name != "trial":
            self.behaviours[model.name] = self.later.get(installation.version, VERSIONS[installation.version])
        return super().plan(model, options, net, installation)

    def classify_exit(self, end: Exit) -> Failure:
        if any("shared object" in line for line in end.tail):
            return Failure(kind=FailureKind.MISSING_LIBRARY, sentence="A library is missing: libmagic.so.1.")
        if any("unknown model architecture" in line for line in end.tail):
            remedy = Remedy(kind=RemedyKind.OTHER_RUNTIME, label="Use another engine")
            return Failure(kind=FailureKind.MODEL_UNSUPPORTED, sentence="It knows no starship.", remedies=(remedy,))
        return super().classify_exit(end)


@dataclasses.dataclass
class Store:
    """A gateway with an engine store, asked over HTTP."""

    url: str
    http: aiohttp.ClientSession
    services: Services
    adapter: Versioned
    recipe: Callable[[str], InstallRecipe]
    notices: list[Notice]
    may_move: list[bool]
    """Whether a person wants other versions tried, last."""
    moves: VersionMoves

    async def call(self, method: str, path: str, body: object = None, *, fails: bool = False) -> Any:  # noqa: ANN401 -- any JSON
        headers = {"Authorization": f"Bearer {self.services.identity.token}"}
        data = None if body is None else json.dumps(body)
        async with self.http.request(method, self.url + PREFIX + path, data=data, headers=headers) as reply:
            content = await reply.read()
            assert (reply.status >= 400) is fails, content
            return json.loads(content) if content else None

    async def run_job(self, path: str, body: object) -> EngineJob:
        """Begin a job and wait for its end, as the events tell it."""
        with self.services.events.subscribe() as events:
            first_job = msgspec.convert(await self.call("POST", path, body), EngineJob)
            async for event in events:
                job = getattr(event, "job", None)
                if job is not None and job.id == first_job.id and job.is_done:
                    return msgspec.convert(msgspec.to_builtins(job), EngineJob)
        raise AssertionError("the gateway ended")

    async def install(self, version: str) -> EngineJob:
        self.services.catalogue.recipes["fake"] = self.recipe(version)
        return await self.run_job("/engines/fake/install", {})

    async def stock(self) -> EngineListing:
        return msgspec.convert(await self.call("GET", "/engines/stock"), list[EngineListing])[0]

    async def versions(self) -> dict[str, EngineVersion]:
        return {version.name: version for version in (await self.stock()).versions}

    async def answer(self, model: str = "model") -> str:
        body = {"model": model, "messages": [{"role": "user", "content": "Hi"}]}
        async with self.http.post(f"{self.url}/v1/chat/completions", json=body) as reply:
            document = await reply.json()
            assert reply.status == 200, document
            return str(document["choices"][0]["message"]["content"])

    async def refusal(self) -> Any:  # noqa: ANN401 -- any JSON
        body = {"model": "model", "messages": [{"role": "user", "content": "Hi"}]}
        async with self.http.post(f"{self.url}/v1/chat/completions", json=body) as reply:
            assert reply.status >= 400
            return await reply.json()

    def current(self) -> str:
        return self.services.catalogue.shelf.read_state("fake").current


LATER: dict[str, Behaviour] = {
    "crash": Behaviour(exit_code=3),
    "missing library": Behaviour(says=("libmagic.so.1: cannot open shared object file",), exit_code=127),
    "hang": Behaviour(is_silent=True),
}
