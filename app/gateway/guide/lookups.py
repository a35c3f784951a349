"""What the Guide looks up, for itself and for a larger model in its place: the gateway's own functions.

None of it changes anything.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TypeVar

import msgspec

from app import __version__
from app.core.advice import EstimateRequest, PlanRequest
from app.core.api import GUIDE
from app.core.documents import AnswerDocuments, Passage, number_sources
from app.core.downloads import Download
from app.core.errors import BadRequest, RoundhouseError
from app.core.guide import GUIDE_TOOLS, AnswerAction, GuideTool
from app.core.hub import HubQuery, HubUse
from app.core.lookups import (
    LOOKUPS,
    EstimateArguments,
    ManualArguments,
    ModelsArguments,
    PlanArguments,
    SearchArguments,
    object_schema,
)
from app.core.tool_calls import AnswerToolCall, ToolCallState
from app.core.tool_results import (
    EstimateAnswer,
    InstalledModels,
    ManualAnswer,
    ManualPassage,
    PlanAnswer,
    SearchAnswer,
    ServiceStatus,
    download_progress,
    estimate_answer,
    installed_model,
    loaded_model,
    picks_answer,
    plan_answer,
    search_answer,
)
from app.gateway.canonical.request import ToolCall, ToolDefinition
from app.gateway.guide.larger_model import LookupResult
from app.gateway.guide.manual import Manual
from app.gateway.hub import catalogue_listing
from app.gateway.services import Services
from app.guide import wording
from app.store.rows import new_id

_PASSAGE_TOKENS = 1000
_MANUAL_PASSAGES = 4
_S = TypeVar("_S", bound=msgspec.Struct)


class Lookups:
    """The functions. Belongs to the event loop."""

    def __init__(self, services: Services, list_downloads: Callable[[], list[Download]]) -> None:
        self._services, self._list_downloads = services, list_downloads

    async def search(self, use: HubUse) -> SearchAnswer:
        """Return the models of the catalogue that suit this computer for a use."""
        return picks_answer(await catalogue_listing.list_best(self._services, use))

    async def search_hub(self, arguments: SearchArguments) -> SearchAnswer:
        """Return models of the hub by words. Raises BadRequest without any."""
        from app.gateway.hub import model_search  # noqa: PLC0415 -- the gateway starts without it

        if not arguments.text.strip():
            raise BadRequest("A search needs `text` or `best`.", code="search_empty")
        query = HubQuery(text=arguments.text, format=arguments.format.lower())
        return search_answer(await model_search.find(self._services, query))

    async def estimate(self, model: str, context: int | None, slots: int | None = None) -> EstimateAnswer:
        """Return what a model takes here."""
        from app.gateway.advising import advice  # noqa: PLC0415 -- the gateway starts without the advisor

        request = EstimateRequest(model=model, context=context, slots=slots)
        return estimate_answer(await advice.estimate_model(self._services, request))

    async def plan(self, request: PlanRequest) -> PlanAnswer:
        """Return how a model is best run here; without one, which models are."""
        return plan_answer(await catalogue_listing.plan_machine(self._services, request))

    async def list_models(self) -> InstalledModels:
        """Return the models that are here."""
        models = await asyncio.to_thread(self._services.library.list_models)
        return InstalledModels(models=[installed_model(model) for model in models if not model.is_builtin])

    async def status(self) -> ServiceStatus:
        """Return what runs and what is on its way."""
        services = self._services
        return ServiceStatus(
            version=__version__,
            endpoint=services.identity.url,
            loaded=[loaded_model(status) for status in services.supervisor.list_statuses() if status.model != GUIDE],
            downloads=[download_progress(download) for download in self._list_downloads()],
        )


def manual_documents(passage: Passage) -> AnswerDocuments:
    """Return a passage of the manual as what an answer was given."""
    return AnswerDocuments(sources=number_sources([("", passage)], most_tokens=_PASSAGE_TOKENS))


async def call_lookup(
    calls: list[AnswerToolCall], tool: GuideTool, arguments: dict[str, object], lookup: Callable[[], Awaitable[_S]]
) -> _S:
    """Look something up, and note the call with what came of it. Raises what the lookup raises."""
    began = time.monotonic()
    call = AnswerToolCall(
        id=new_id(),
        round=1,
        at=0,
        server=GUIDE_TOOLS,
        tool=tool.value,
        arguments=msgspec.json.encode(arguments).decode(),
        is_read_only=True,
    )
    try:
        result = await lookup()
    except RoundhouseError as error:
        calls.append(msgspec.structs.replace(call, state=ToolCallState.FAILED, result=f"{error} {error.hint}".strip()))
        raise
    calls.append(
        msgspec.structs.replace(
            call,
            state=ToolCallState.ANSWERED,
            result=msgspec.json.encode(result).decode(),
            seconds=time.monotonic() - began,
        )
    )
    return result


class LookupSession:
    """The lookups that a larger model makes for one question: what they were, and what can be done about them."""

    def __init__(self, lookups: Lookups, manual: Manual) -> None:
        self._lookups, self._manual = lookups, manual
        self.calls: list[AnswerToolCall] = []
        self.actions: list[AnswerAction] = []
        self.documents = AnswerDocuments()

    async def run(self, call: ToolCall) -> LookupResult:
        """Return what a call of a model's looks up, or the sentence that says why it cannot."""
        try:
            tool = GuideTool(call.name)
            arguments = msgspec.json.decode(call.arguments or "{}", type=LOOKUPS[tool].arguments)
        except (ValueError, msgspec.DecodeError) as error:
            return LookupResult(f"There is no such tool, or its arguments are not right: {error}", is_error=True)
        noted_arguments = msgspec.to_builtins(arguments)
        try:
            result = await call_lookup(self.calls, tool, noted_arguments, partial(self._look_up, arguments))
        except RoundhouseError as error:
            return LookupResult(f"{error} {error.hint}".strip(), is_error=True)
        return LookupResult(msgspec.json.encode(result).decode())

    async def _look_up(self, arguments: msgspec.Struct) -> msgspec.Struct:
        lookups = self._lookups
        result: msgspec.Struct
        actions: list[AnswerAction] = []
        match arguments:
            case SearchArguments(best=None):
                result = await lookups.search_hub(arguments)
            case SearchArguments(best=HubUse() as use):
                result = search = await lookups.search(use)
                actions = wording.say_recommended(search)[1]
            case EstimateArguments(model=model):
                result = estimate = await lookups.estimate(model, arguments.context, arguments.slots)
                actions = wording.say_estimate(estimate, model, is_here=await self._is_here(model))[1]
            case PlanArguments(model=model):
                request = PlanRequest(
                    model=model, intent=arguments.use, users=arguments.users, context=arguments.context
                )
                result = plan = await lookups.plan(request)
                actions = wording.say_plan(plan, model, is_here=await self._is_here(model))[1] if model else []
            case ManualArguments(text=text):
                result = await self._search_manual(text)
            case ModelsArguments():
                result = await lookups.list_models()
            case _:
                result = status = await lookups.status()
                actions = wording.say_loaded(status)[1]
        self.actions += [action for action in actions if action not in self.actions]
        return result

    async def _is_here(self, model: str) -> bool:
        return any(model_info.name == model for model_info in (await self._lookups.list_models()).models)

    async def _search_manual(self, text: str) -> ManualAnswer:
        passages = await asyncio.to_thread(self._manual.search, text, count=_MANUAL_PASSAGES)
        if passages:
            self.documents = manual_documents(passages[0])
        return ManualAnswer(
            passages=[ManualPassage(file=item.file, heading=item.heading, text=item.text) for item in passages]
        )


TOOL_DEFINITIONS = tuple(
    ToolDefinition(
        name=tool.value,
        description=lookup.description,
        parameters=msgspec.Raw(msgspec.json.encode(object_schema(lookup.arguments))),
    )
    for tool, lookup in LOOKUPS.items()
)
"""The lookups as a model is offered them."""
