"""A question to the Guide: recognised, looked up, said. No model writes any of it, so nothing is invented.

What it looks up is in the answer as calls of tools; none of them changes anything. What could be done next is offered.
"""

import asyncio
import re
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TypeVar

import msgspec

from app import __version__
from app.config.paths import DOCS, guide_gguf
from app.core.advice import EstimateRequest, PlanRequest
from app.core.api import GUIDE
from app.core.documents import AnswerDocuments, Passage, number_sources
from app.core.downloads import Download
from app.core.errors import RoundhouseError
from app.core.guide import (
    GUIDE_TOOLS,
    ActionKind,
    AnswerAction,
    GuideAnswer,
    GuideOutcome,
    GuideSource,
    GuideTool,
)
from app.core.hub import HubUse
from app.core.models import ModelInfo
from app.core.tool_calls import AnswerToolCall, ToolCallState
from app.core.tool_results import (
    EstimateAnswer,
    InstalledModels,
    PlanAnswer,
    SearchAnswer,
    ServiceStatus,
    download_progress,
    estimate_answer,
    installed_model,
    loaded_model,
    picks_answer,
    plan_answer,
)
from app.gateway.guide.manual import Manual
from app.gateway.hub import catalogue_listing
from app.gateway.services import Services
from app.guide import wording
from app.guide.entries import GuideEntry, load_entries
from app.guide.matching import QuestionIndex, choose_match, is_other_subject
from app.guide.names import NameTable, find_context, hide_names
from app.store.rows import new_id

UNKNOWN = (
    "I do not know that. I answer questions about Roundhouse and this computer: which model fits, what is loaded, how "
    "something is done here. For other questions, choose a model at the top of the chat."
)
MANUAL_TOPIC = "manual"
"""The topic of what no entry knows and the manual says."""
_HEADINGS = re.compile(r"\A(?:#{1,6} .*\s+)+")
_PASSAGE_TOKENS = 1000
_USES = {
    HubUse.AUTOCOMPLETE: ("autocomplet", "code completion", "complete code"),
    HubUse.CODING: ("cod", "program", "develop"),
    HubUse.VISION: ("vision", "picture", "image", "photo", "see "),
    HubUse.REASONING: ("reason", "math", "logic", "think"),
    HubUse.EMBEDDING: ("embed",),
    HubUse.RERANK: ("rerank",),
}
_STATUS_WORDS: dict[str, Callable[[ServiceStatus], wording.Statement]] = {
    "downloads": wording.say_downloads,
    "endpoint": wording.say_endpoint,
    "version": wording.say_version,
    "python-client": wording.say_endpoint,
}
_S = TypeVar("_S", bound=msgspec.Struct)


class Guide:
    """Answers questions. What it knows is read when somebody first asks. Belongs to the event loop."""

    def __init__(self, services: Services, list_downloads: Callable[[], list[Download]]) -> None:
        self._services, self._list_downloads = services, list_downloads
        self._reading: asyncio.Task[QuestionIndex] | None = None
        self.manual = Manual(DOCS, services.paths.manual_index)

    async def answer(self, question: str) -> GuideAnswer:
        """Return what the Guide says; what a tool refuses is said, too."""
        index = await self._read_index()
        models = await asyncio.to_thread(self._services.library.list_models)
        things = (await asyncio.to_thread(self._read_names, models)).find_names(question)
        matches = index.rank(hide_names(question, things), {thing.kind for thing in things})
        match = choose_match(matches)
        if match is None:
            return await self._search_manual("" if is_other_subject(matches) else question)
        entry = match.entry
        name = next((thing.name for thing in things if thing.kind == "model"), "")
        calls: list[AnswerToolCall] = []
        text = entry.answer
        actions: list[AnswerAction] = []
        if entry.tool is not None:
            try:
                text, actions = await self._look_up(_Inquiry(question, entry, name, models), calls)
            except RoundhouseError as error:
                text, actions = f"{error} {error.hint}".strip(), []
        return GuideAnswer(
            outcome=GuideOutcome.DENIED if entry.denies else GuideOutcome.ANSWERED,
            text=text,
            topic=entry.id,
            calls=calls,
            actions=[*actions, *_page_actions(entry, name)],
            sources=_sources(entry),
            documents=await self._find_section(entry),
        )

    async def _search_manual(self, question: str) -> GuideAnswer:
        """Return the passage of the manual that answers a question; else that the Guide does not know."""
        passage = await asyncio.to_thread(self.manual.find_answer, question) if question else None
        if passage is None:
            return GuideAnswer(outcome=GuideOutcome.UNKNOWN, text=UNKNOWN)
        heading = passage.heading.rpartition(" > ")[2]
        text = _HEADINGS.sub("", passage.text).strip()
        return GuideAnswer(
            outcome=GuideOutcome.ANSWERED,
            text=f"The manual says of that, under **{heading}**:\n\n{text}",
            topic=MANUAL_TOPIC,
            sources=[GuideSource(file=passage.file, heading=heading)],
            documents=_documents(passage),
        )

    async def _find_section(self, entry: GuideEntry) -> AnswerDocuments:
        """Return the beginning of the chapter that says more about an entry."""
        if not entry.manual:
            return AnswerDocuments()
        (source,) = _sources(entry)
        passage = await asyncio.to_thread(self.manual.find_section, source.file, source.heading)
        return AnswerDocuments() if passage is None else _documents(passage)

    async def _read_index(self) -> QuestionIndex:
        if self._reading is None:
            self._reading = asyncio.create_task(asyncio.to_thread(_read_questions))
        try:
            return await asyncio.shield(self._reading)
        except Exception:
            self._reading = None  # read again by the next question
            raise

    def _read_names(self, models: list[ModelInfo]) -> NameTable:
        from app.connect.connections import TOOLS  # noqa: PLC0415 -- the gateway starts without it

        content = self._services.hub.catalogue.read_content(self._services.settings.get_text("catalogue.key"))
        names = {model.name: model.name for model in models if model.name != GUIDE}
        for entry in content.models:
            names.update((way, entry.names[0]) for way in (*entry.names, entry.title) if way not in names)
        apps = {way: tool.id for tool in TOOLS for way in (tool.name, tool.id)}
        engines = {
            way: id_ for id_, adapter in self._services.adapters.items() for way in (id_, adapter.descriptor.name)
        }
        return NameTable({"model": names, "app": apps | {"VS Code": "vscode", "VSCode": "vscode"}, "engine": engines})

    async def _look_up(self, inquiry: "_Inquiry", calls: list[AnswerToolCall]) -> wording.Statement:
        entry, name = inquiry.entry, inquiry.model
        match entry.tool:
            case GuideTool.SEARCH:
                use = _use_of(inquiry.question)
                search = await self._call(calls, entry.tool, {"best": use.value}, partial(self._search, use))
                return wording.say_recommended(search)
            case GuideTool.ESTIMATE:
                context = find_context(inquiry.question.replace(name, ""))
                given: dict[str, object] = {"model": name} | ({} if context is None else {"context": context})
                estimate = await self._call(calls, entry.tool, given, partial(self._estimate, name, context))
                return wording.say_estimate(estimate, name, is_here=inquiry.is_here)
            case GuideTool.PLAN:
                named = name if entry.needs else ""
                plan = await self._call(
                    calls, entry.tool, {"model": named} if named else {}, partial(self._plan, named)
                )
                if named:
                    return wording.say_plan(plan, name, is_here=inquiry.is_here)
                return wording.say_machine(plan) if entry.id == "machine" else wording.say_engine(plan)
            case GuideTool.LIST_MODELS:
                installed = await self._call(calls, entry.tool, {}, partial(_list_installed, inquiry.models))
                return wording.say_installed(installed, name)
            case _:
                status = await self._call(calls, GuideTool.STATUS, {}, self._status)
                text, actions = _STATUS_WORDS.get(entry.id, wording.say_loaded)(status)
                return "\n\n".join(filter(None, (entry.answer, text))), actions

    async def _call(
        self,
        calls: list[AnswerToolCall],
        tool: GuideTool,
        arguments: dict[str, object],
        lookup: Callable[[], Awaitable[_S]],
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
            calls.append(
                msgspec.structs.replace(call, state=ToolCallState.FAILED, result=f"{error} {error.hint}".strip())
            )
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

    async def _search(self, use: HubUse) -> SearchAnswer:
        return picks_answer(await catalogue_listing.list_best(self._services, use))

    async def _estimate(self, model: str, context: int | None) -> EstimateAnswer:
        from app.gateway.advising import advice  # noqa: PLC0415 -- the gateway starts without the advisor

        return estimate_answer(
            await advice.estimate_model(self._services, EstimateRequest(model=model, context=context))
        )

    async def _plan(self, model: str) -> PlanAnswer:
        return plan_answer(await catalogue_listing.plan_machine(self._services, PlanRequest(model=model)))

    async def _status(self) -> ServiceStatus:
        services = self._services
        return ServiceStatus(
            version=__version__,
            endpoint=services.identity.url,
            loaded=[loaded_model(status) for status in services.supervisor.list_statuses() if status.model != GUIDE],
            downloads=[download_progress(download) for download in self._list_downloads()],
        )


class _Inquiry(msgspec.Struct, frozen=True):
    """A question that was recognised."""

    question: str
    entry: GuideEntry
    model: str
    models: list[ModelInfo]

    @property
    def is_here(self) -> bool:
        """Whether the model that it names is on this computer."""
        return any(model.name == self.model for model in self.models)


async def _list_installed(models: list[ModelInfo]) -> InstalledModels:
    return InstalledModels(models=[installed_model(model) for model in models if not model.is_builtin])


def _read_questions() -> QuestionIndex:
    return QuestionIndex(load_entries(guide_gguf().parent))


def _use_of(question: str) -> HubUse:
    text = question.casefold() + " "
    return next((use for use, stems in _USES.items() if any(stem in text for stem in stems)), HubUse.CHAT)


def _page_actions(entry: GuideEntry, model: str) -> list[AnswerAction]:
    command = entry.command.replace("MODEL", model) if model else entry.command
    if not entry.page:
        return []
    return [AnswerAction(kind=ActionKind.OPEN_PAGE, target=entry.page, task=entry.task, command=command)]


def _sources(entry: GuideEntry) -> list[GuideSource]:
    if not entry.manual:
        return []
    file, _, heading = entry.manual.partition("#")
    return [GuideSource(file=file if "/" in file else f"guide/{file}", heading=heading)]


def _documents(passage: Passage) -> AnswerDocuments:
    return AnswerDocuments(sources=number_sources([("", passage)], most_tokens=_PASSAGE_TOKENS))
