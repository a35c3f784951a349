"""The shadow trial: requests of one's own asked again of the model they went to and of what could take its place.

Each of the two is loaded under a name of its own, greedily asked the same, and unloaded. Requests are those that the
inspector keeps with their words; none goes to another computer. Words stay in memory, beside the inspector's.
"""

import asyncio
import time
from typing import TYPE_CHECKING

import msgspec

from app import __version__
from app.core.benchmarks import BenchmarkSettings, BenchmarkTarget, StartBenchmark, Workload
from app.core.errors import BadRequest, Conflict, EngineFailed, UserError
from app.core.events import SettingChanged, TrialChanged
from app.core.trials import StartTrial, TrialResult, TrialSide, TrialSwitch, TrialWords
from app.gateway.advising.measuring_job import MeasuringJob
from app.gateway.advising.quiet_rounds import read_processor_times
from app.gateway.benchmarking.race import keep_settings, require_own_model
from app.gateway.library.model_choices import settings_for_engine
from app.gateway.services import Services

if TYPE_CHECKING:
    from app.benchmark.trials import WrittenAnswer
    from app.core.models import ModelInfo, ModelSettings
    from app.gateway.benchmarking.kept_requests import KeptRequest
    from app.gateway.benchmarking.system_watch import ReadCounters
    from app.gateway.watching.inspector import RequestInspector

_DEFAULT, _ALIASES = "models.default", "models.aliases"


class _TrialUndo(msgspec.Struct, frozen=True, kw_only=True):
    """What was set before a switch."""

    default: str = ""
    aliases: list[str] = []
    settings: "tuple[ModelInfo, ModelSettings] | None" = None
    changed: list[str] = []


class Trials(MeasuringJob[TrialChanged]):
    """Runs one trial at a time in the background. Belongs to the event loop's thread."""

    def __init__(self, services: Services, read: "ReadCounters | None" = None) -> None:
        super().__init__(
            services,
            read_processor_times,
            title="The trial",
            conflict=lambda job: Conflict(f"A trial of {job.model} goes on."),
        )
        self._read = read
        self._words: list[TrialWords] = []
        self._undo: _TrialUndo | None = None
        self._request: StartTrial | None = None

    async def start(self, request: StartTrial, inspector: "RequestInspector") -> TrialChanged:
        """Begin. Raises NotFound, BadRequest where there is nothing to ask or to compare, Conflict while one runs."""
        from app.gateway.benchmarking.kept_requests import find_kept_requests  # noqa: PLC0415 -- start-up must not pay for it
        from app.gateway.benchmarking.targets import check_request  # noqa: PLC0415 -- as above

        self.job.check_idle()
        models = [await require_own_model(self._services, name) for name in (request.model, _against(request))]
        if models[0].name == models[1].name and not request.engine:
            raise BadRequest("Name another model or an engine to set against.", code="nothing_to_compare")
        kept_requests = find_kept_requests(inspector, model=models[0].name, count=request.requests, ids=request.ids)
        for engine, name in (("", request.model), (request.engine, _against(request))):
            await check_request(self._services, _load_for(request, kept_requests, engine, name))
        self._words, self._undo, self._request = [], None, None
        return self.job.start(
            TrialChanged(model=models[0].name, stage="Getting ready", fraction=0.0),
            lambda: self._measure(self._run(request, models[0], kept_requests)),
        )

    def list_words(self, inspector: "RequestInspector") -> list[TrialWords]:
        """Return the answers in words, of requests whose words the inspector still keeps."""
        self._words = [words for words in self._words if inspector.keeps_words(words.id)]
        return self._words

    async def switch(self) -> TrialSwitch:
        """Have the second take the first's place. Raises BadRequest where the last trial came to nothing."""
        result = self.job.last.result if self.job.last is not None else None
        request = self._request
        if result is None or request is None or not result.can_switch:
            raise BadRequest("There is no trial to switch by.", code="no_trial")
        if self._undo is not None:
            raise BadRequest("It is switched already.", code="trial_switched")
        first = await require_own_model(self._services, request.model)
        second = await require_own_model(self._services, _against(request))
        undo = _TrialUndo()
        if request.engine:
            own = self._services.model_settings.settings_of(second.runs_as)
            other_settings = await asyncio.to_thread(settings_for_engine, self._services, second, own, request.engine)
            await keep_settings(self._services, second, other_settings)
            undo = _TrialUndo(settings=(second, own), changed=[f"model.{second.runs_as}"])
        if first.name != second.name:
            undo = self._replace_model(first.name, second.name, undo)
        self._undo = undo
        return TrialSwitch(sentence=_switch_sentence(first, second, request.engine), changed=undo.changed)

    async def undo(self) -> TrialSwitch:
        """Set everything as it was before the switch. Raises BadRequest where nothing was switched."""
        undo = self._undo
        if undo is None:
            raise BadRequest("Nothing was switched.", code="nothing_to_undo")
        if undo.settings is not None:
            await keep_settings(self._services, *undo.settings)
        names = [name for name in undo.changed if name in {_DEFAULT, _ALIASES}]
        self._change_values({_DEFAULT: undo.default, _ALIASES: undo.aliases}, names)
        self._undo = None
        return TrialSwitch(sentence="Everything is set as before the switch.", changed=undo.changed)

    def _replace_model(self, first: str, second: str, undo: _TrialUndo) -> _TrialUndo:
        """Make the second the model of new chats, and of the aliases that meant the first."""
        settings = self._services.settings
        default, before = settings.get_text(_DEFAULT), settings.get_list(_ALIASES)
        aliases = [
            f"{alias.rpartition('=')[0]}={second}" if alias.rpartition("=")[2] == first else alias for alias in before
        ]
        names = [*([_DEFAULT] if default != second else []), *([_ALIASES] if aliases != before else [])]
        self._change_values({_DEFAULT: second, _ALIASES: aliases}, names)
        return msgspec.structs.replace(undo, default=default, aliases=before, changed=[*undo.changed, *names])

    def _change_values(self, values: "dict[str, str | list[str]]", names: list[str]) -> None:
        if names:
            self._services.settings.change_values({name: values[name] for name in names})
            for name in names:
                self._services.events.publish(SettingChanged(name=name))

    async def _run(self, request: StartTrial, model: "ModelInfo", kept_requests: "list[KeptRequest]") -> None:
        from app.benchmark.trials import compare_answers, summarize_side, summarize_trial  # noqa: PLC0415 -- start-up must not pay for it

        first, written_before = await self._ask_side(request, kept_requests, ("", request.model), 0.0)
        second, second_answers = await self._ask_side(request, kept_requests, (request.engine, _against(request)), 0.5)
        comparisons = [
            compare_answers(part.id, _prompt_text(part), before, after)
            for part, before, after in zip(kept_requests, written_before, second_answers, strict=True)
        ]
        result = TrialResult(
            at=time.time(),
            roundhouse=__version__,
            model=model.name,
            first=summarize_side(first.side, [part.first for part in comparisons]),
            second=summarize_side(second.side, [part.second for part in comparisons]),
            requests=comparisons,
            disturbances=[*first.disturbances, *second.disturbances],
        )
        self._words = [
            TrialWords(id=part.id, first=before.text, second=after.text)
            for part, before, after in zip(kept_requests, written_before, second_answers, strict=True)
        ]
        self._request = request
        summary = summarize_trial(result)
        await self._services.chats.add_trial(summary)
        self.job.keep(result=summary)

    async def _ask_side(
        self, request: StartTrial, kept_requests: "list[KeptRequest]", model_on_engine: tuple[str, str], begin: float
    ) -> "tuple[_AskedSide, list[WrittenAnswer]]":
        """Return what one side came to, and its answers: those that did not come say why."""
        from app.benchmark.trials import WrittenAnswer  # noqa: PLC0415 -- as above
        from app.core.trials import TrialAnswer  # noqa: PLC0415 -- as above
        from app.gateway.benchmarking.system_watch import read_counters  # noqa: PLC0415 -- as above
        from app.gateway.benchmarking.targets import open_target  # noqa: PLC0415 -- as above
        from app.gateway.benchmarking.trial_requests import TrialAsker  # noqa: PLC0415 -- as above

        engine, model = model_on_engine
        start = _load_for(request, kept_requests, engine, model)
        self.job.tell(stage=f"{model}: Loading the model", fraction=begin)
        try:
            async with open_target(self._services, start) as target:
                asker = TrialAsker(self._services, target, request.answer_tokens, self._read or read_counters)
                await asker.warm_up()
                answers: list[WrittenAnswer] = []
                for number, part in enumerate(kept_requests):
                    share = begin + 0.5 * number / len(kept_requests)
                    self.job.tell(stage=f"{model}: Request {number + 1} of {len(kept_requests)}", fraction=share)
                    answers.append(await asker.ask(part.conversation))
                side = TrialSide(target=target.about, load_s=target.load_s, memory=await asker.read_memory())
                return _AskedSide(side, asker.disturbances), answers
        except (EngineFailed, UserError) as error:
            if begin == 0.0:  # without the first there is nothing to set against
                raise
            side = TrialSide(target=BenchmarkTarget(model=model, engine=engine), error=str(error))
            return _AskedSide(side, []), [WrittenAnswer(about=TrialAnswer(error=str(error))) for _ in kept_requests]


class _AskedSide(msgspec.Struct, frozen=True):
    """One side, and what slowed it down."""

    side: TrialSide
    disturbances: list[str]


def _against(request: StartTrial) -> str:
    return request.against or request.model


def _load_for(request: StartTrial, kept_requests: "list[KeptRequest]", engine: str, model: str) -> StartBenchmark:
    """Return what loads a side as a benchmark would, with room for the requests."""
    settings = BenchmarkSettings(
        workload=Workload.FILE, requests=len(kept_requests), answer_tokens=max(2, request.answer_tokens), engine=engine
    )
    return StartBenchmark(model=model, settings=settings, prompts=[part.prompt for part in kept_requests])


def _prompt_text(part: "KeptRequest") -> str:
    return "\n\n".join(message.content for message in part.prompt.messages)


def _switch_sentence(first: "ModelInfo", second: "ModelInfo", engine: str) -> str:
    ran = f" on {engine}" if engine else ""
    if first.name == second.name:
        return f"{second.name} runs{ran} from its next load on."
    return (
        f"New chats begin with {second.name}{ran}, and aliases that meant {first.name} mean it. "
        f"Programs that ask for {first.name} by its own name still get that."
    )
