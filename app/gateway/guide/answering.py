"""A question to the Guide: recognised, looked up, said. No model writes it, unless a larger one is loaded.

What it looks up is in the answer as calls of tools; none of them changes anything. What could be done next is offered.
"""

import asyncio
import re
from collections.abc import Callable
from functools import partial

import msgspec

from app.config.paths import DOCS, guide_gguf
from app.core.advice import PlanRequest
from app.core.api import GUIDE
from app.core.documents import AnswerDocuments
from app.core.downloads import Download
from app.core.errors import RoundhouseError
from app.core.guide import (
    ActionKind,
    AnswerAction,
    GuideAnswer,
    GuideOutcome,
    GuideSource,
    GuideTool,
)
from app.core.hub import HubUse
from app.core.models import ModelInfo
from app.core.tool_calls import AnswerToolCall
from app.core.tool_results import (
    ServiceStatus,
)
from app.gateway.exchange.upstream import EngineAccess
from app.gateway.guide.larger_model import LargerModel
from app.gateway.guide.lookups import TOOL_DEFINITIONS, Lookups, LookupSession, call_lookup, manual_documents
from app.gateway.guide.manual import Manual
from app.gateway.services import Services
from app.guide import wording
from app.guide.entries import GuideEntry, load_entries
from app.guide.matching import QuestionIndex, choose_match, is_other_subject
from app.guide.names import NameTable, find_context, hide_names
from app.guide.recogniser import read_recogniser

UNKNOWN = (
    "I do not know that. I answer questions about Roundhouse and this computer: which model fits, what is loaded, how "
    "something is done here. For other questions, choose a model at the top of the chat."
)
MANUAL_TOPIC = "manual"
"""The topic of what no entry knows and the manual says."""
_HEADINGS = re.compile(r"\A(?:#{1,6} .*\s+)+")
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


class Guide:
    """Answers questions. What it knows is read when somebody first asks. Belongs to the event loop."""

    def __init__(self, services: Services, engines: EngineAccess, list_downloads: Callable[[], list[Download]]) -> None:
        self._services = services
        self._lookups = Lookups(services, list_downloads)
        self._larger = LargerModel(services, engines)
        self._read_task: asyncio.Task[QuestionIndex] | None = None
        self.manual = Manual(DOCS, services.paths.manual_index)

    async def answer(self, question: str) -> GuideAnswer:
        """Return what the Guide says, or a larger model from what it looked up; what a tool refuses is said, too."""
        looked_up = await self._look_up_answer(question)
        target = self._larger.find() if looked_up.outcome is not GuideOutcome.DENIED else None
        if target is None:
            return looked_up
        session = LookupSession(self._lookups, self.manual)
        text = await self._larger.answer(target, question, TOOL_DEFINITIONS, session.run)
        if not text:
            return looked_up
        pages = [action for action in looked_up.actions if action.kind is ActionKind.OPEN_PAGE]
        return msgspec.structs.replace(
            looked_up,
            outcome=GuideOutcome.ANSWERED,
            text=f"{text}\n\n*{target.model.name} wrote this from what it looked up.*",
            calls=session.calls,
            actions=[*session.actions, *pages],
            documents=session.documents if session.documents.sources else looked_up.documents,
            model=target.model.name,
        )

    async def _look_up_answer(self, question: str) -> GuideAnswer:
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
            documents=manual_documents(passage),
        )

    async def _find_section(self, entry: GuideEntry) -> AnswerDocuments:
        """Return the beginning of the chapter that says more about an entry."""
        if not entry.manual:
            return AnswerDocuments()
        (source,) = _sources(entry)
        passage = await asyncio.to_thread(self.manual.find_section, source.file, source.heading)
        return AnswerDocuments() if passage is None else manual_documents(passage)

    async def _read_index(self) -> QuestionIndex:
        if self._read_task is None:
            self._read_task = asyncio.create_task(asyncio.to_thread(_read_questions))
        try:
            return await asyncio.shield(self._read_task)
        except Exception:
            self._read_task = None  # read again by the next question
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
                search = await call_lookup(calls, entry.tool, {"best": use.value}, partial(self._lookups.search, use))
                return wording.say_recommended(search)
            case GuideTool.ESTIMATE:
                context = find_context(inquiry.question.replace(name, ""))
                arguments: dict[str, object] = {"model": name} | ({} if context is None else {"context": context})
                estimate = await call_lookup(
                    calls, entry.tool, arguments, partial(self._lookups.estimate, name, context)
                )
                return wording.say_estimate(estimate, name, is_here=inquiry.is_here)
            case GuideTool.PLAN:
                named_model = name if entry.needs else ""
                look_up = partial(self._lookups.plan, PlanRequest(model=named_model))
                plan = await call_lookup(calls, entry.tool, {"model": named_model} if named_model else {}, look_up)
                if named_model:
                    return wording.say_plan(plan, name, is_here=inquiry.is_here)
                return wording.say_machine(plan) if entry.id == "machine" else wording.say_engine(plan)
            case GuideTool.LIST_MODELS:
                installed_models = await call_lookup(calls, entry.tool, {}, self._lookups.list_models)
                return wording.say_installed(installed_models, name)
            case _:
                status = await call_lookup(calls, GuideTool.STATUS, {}, self._lookups.status)
                text, actions = _STATUS_WORDS.get(entry.id, wording.say_loaded)(status)
                return "\n\n".join(filter(None, (entry.answer, text))), actions


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


def _read_questions() -> QuestionIndex:
    folder = guide_gguf().parent
    return QuestionIndex(load_entries(folder), read_recogniser(folder))


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
