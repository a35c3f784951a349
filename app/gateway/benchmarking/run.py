"""One benchmark from its first request to its receipt: warm-up, rounds in a drawn order, repeats of those disturbed.

Whatever else runs slows an engine down, so a round that something disturbed is run again after a wait for quiet. What
is still disturbed, or differs too much between equal rounds, is refused and not averaged away, unless it was to be
kept.
"""

import asyncio
import hashlib
import itertools
import random
import secrets
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence

import aiohttp
import msgspec

from app import __version__
from app.benchmark.gains import find_saturation
from app.benchmark.results import (
    BenchmarkRound,
    RequestTiming,
    check_answers,
    compare_speeds,
    pick_rounds,
    round_disturbances,
    summarize_cost,
    summarize_level,
    summarize_prefix,
)
from app.benchmark.workloads import (
    Conversation,
    hash_prompts,
    longest_prompt,
    mark_conversation,
    pick_conversations,
)
from app.core.advice import Generation
from app.core.benchmarks import BenchmarkMachine, BenchmarkReceipt, SpeedRatio, StartBenchmark, Workload
from app.core.errors import Conflict, RoundhouseError
from app.core.machine import Machine
from app.core.models import ModelSettings
from app.gateway.advising.quiet_rounds import QuietRounds
from app.gateway.benchmarking.client import WARM_UP_TOKENS, BenchmarkClient
from app.gateway.benchmarking.system_watch import ReadCounters, SystemCounters, read_counters
from app.gateway.benchmarking.targets import OpenTarget, hash_weights, open_target
from app.gateway.benchmarking.text_density import TextDensities
from app.gateway.benchmarking.tool_checks import count_valid_calls
from app.gateway.services import Services
from app.hardware.card_energy import CardEnergyReader
from app.hardware.energy import describe_sources

PREFIX_PAIRS = 3
PREFIX_ANSWER_TOKENS = 16
SCHEMA_PAIRS = 6
"""Prompts that are asked with their schema and without."""
LEAST_ROUND_S = 2.0
"""Its prompts are asked again, each with a beginning of its own, until a round has taken so long: counters of the
system are in hundredths of a second, and one pause of another program is much of a tenth."""
MOST_ROUNDS = 3
"""Times as many rounds as are asked for are run at most, with those that were disturbed."""
_LEARN_FROM = 5
"""Answers that predictions learn from: those of a benchmark would otherwise outweigh a week's."""
_LOAD_SHARE = 0.1
"""Of the time, roughly, what comes before the first round."""


class BenchmarkRun:
    """Runs one benchmark; once `off` is set it reads no further. Belongs to the event loop's thread.

    `publish_stage` is told what goes on and how far it is.
    """

    def __init__(
        self,
        services: Services,
        off: threading.Event,
        publish_stage: Callable[[str, float], None],
        read: ReadCounters = read_counters,
        cards: CardEnergyReader | None = None,
    ) -> None:
        self._services = services
        self._cards = cards or CardEnergyReader()
        self._off = off
        self._publish_stage = publish_stage
        self._read = read
        self._fraction = 0.0
        self._peak_bytes = 0
        self.densities = TextDensities()
        self._quiet = QuietRounds(
            lambda stage: publish_stage(stage, self._fraction), lambda pids: self._read(pids).processors
        )

    async def measure(self, request: StartBenchmark) -> BenchmarkReceipt:
        """Return what came of it.

        Raises Conflict where it was disturbed or is too noisy, EngineFailed and UserError where it cannot be run.
        """
        self._publish("Getting ready", 0.0)
        await self._quiet.wait_for_quiet()
        weights = await self._hash(request)
        self._publish("Loading the model", 0.02)
        async with open_target(self._services, request, densities=self.densities) as target, self._cards:
            target.about = msgspec.structs.replace(target.about, weights_sha256=weights[0], template_sha256=weights[1])
            client = BenchmarkClient(self._services.http, target.endpoint)
            await self._warm_up(client, target, request)
            rounds = await self._run_levels(client, target, request)
            disturbances = [sentence for level in rounds.values() for sentence in round_disturbances(level)]
            if disturbances and not request.keeps_disturbed:
                raise _refusal(disturbances, rounds)
            cold, warm = await self._measure_prefix(client, target)
            schema_cost = await self._measure_schema_cost(client, target, request.settings.seed)
            tasks, valid = await self._check_calls(target, request)
        lora_cost = await self._measure_lora_cost(request, target, rounds)
        receipt = await self._conclude(request, target, rounds, (cold, warm))
        right = msgspec.structs.replace(receipt.correctness, tool_tasks=tasks, valid_calls=valid)
        receipt = msgspec.structs.replace(receipt, correctness=right, schema_cost=schema_cost, lora_cost=lora_cost)
        if not disturbances:
            self._teach(receipt)
        return msgspec.structs.replace(receipt, disturbances=disturbances)

    async def time_settings(self, request: StartBenchmark, own: ModelSettings) -> tuple[BenchmarkRound, str]:
        """Return one quiet round with other settings of the model, and the engine that ran it.

        Raises Conflict where others disturb every round, EngineFailed and UserError where it cannot be run.
        """
        if not request.keeps_disturbed:
            await self._quiet.wait_for_quiet()
        target_opening = open_target(self._services, request, own=own, densities=self.densities)
        async with target_opening as target, self._cards:
            client = BenchmarkClient(self._services.http, target.endpoint)
            await self._warm_up(client, target, request)
            level = max(request.settings.concurrency)
            rounds: list[BenchmarkRound] = []
            while self._needs_round(rounds, 1) and not (rounds and request.keeps_disturbed):
                if rounds:
                    await self._quiet.wait_for_quiet(target.pids)
                rounds.append(await self._run_round(client, target, request, level))
        last = rounds[-1]
        if not last.is_quiet and not request.keeps_disturbed:
            raise _refusal(round_disturbances([last]), {level: [last]})
        return last, target.about.engine

    def _publish(self, stage: str, fraction: float) -> None:
        self._fraction = fraction
        self._publish_stage(stage, fraction)

    async def _hash(self, request: StartBenchmark) -> tuple[str, str]:
        """Return the hashes of weights and chat template; empty for what runs elsewhere."""
        if request.url:
            return "", ""
        model = await asyncio.to_thread(self._services.library.find_model, request.model)
        if model.attached:
            return "", ""
        self._publish("Reading the weights for their hash", 0.01)
        weights = await asyncio.to_thread(hash_weights, model, self._off)
        facts = await self._services.facts.of_model(model)
        template = facts.chat_template if facts is not None else ""
        return weights, _sha256(template) if template else ""

    async def _warm_up(self, client: BenchmarkClient, target: OpenTarget, request: StartBenchmark) -> None:
        """Have the engine do once what it will be measured at, and find out what it accepts."""
        self._publish("Warming up", _LOAD_SHARE)
        first = mark_conversation(target.conversations[0], _new_mark())[0]
        await client.find_accepted_fields(first)
        most = max(request.settings.concurrency)
        if most > 1:
            prompts = [mark_conversation(part, _new_mark())[0] for part in target.conversations[:most]]
            short = [msgspec.structs.replace(prompt, answer_tokens=WARM_UP_TOKENS) for prompt in prompts]
            await asyncio.gather(*(client.send(prompt) for prompt in short))

    async def _run_levels(
        self, client: BenchmarkClient, target: OpenTarget, request: StartBenchmark
    ) -> dict[int, list[BenchmarkRound]]:
        settings = request.settings
        rounds: dict[int, list[BenchmarkRound]] = {level: [] for level in sorted(set(settings.concurrency))}
        order = [level for level in rounds for _ in range(settings.rounds)]
        if not settings.stops_saturated:
            random.Random(settings.seed).shuffle(order)  # noqa: S311 -- drawn so that no level has the cold start
        queue, done_count, expected_count = deque(order), 0, len(order)
        while queue:
            level = queue.popleft()
            if settings.stops_saturated and not rounds[level] and _is_saturated(rounds):
                queue.clear()
                rounds = {level: done_rounds for level, done_rounds in rounds.items() if done_rounds}
            else:
                share = _LOAD_SHARE + (1 - _LOAD_SHARE) * done_count / (expected_count + 1)
                self._publish(f"Round {len(rounds[level]) + 1} with {level} at once", min(share, 1.0))
                rounds[level].append(await self._run_round(client, target, request, level))
                done_count += 1
            if not queue:
                queue.extend(level for level in rounds if self._needs_round(rounds[level], settings.rounds))
                if queue:
                    await self._quiet.wait_for_quiet(target.pids)
        return {level: pick_rounds(done_rounds, settings.rounds) for level, done_rounds in rounds.items()}

    @staticmethod
    def _needs_round(rounds: Sequence[BenchmarkRound], count: int) -> bool:
        """Whether another round may help: too few quiet ones, or those that count differ too much."""
        if len(rounds) >= MOST_ROUNDS * count:
            return False
        return sum(part.is_quiet for part in rounds) < count

    async def _run_round(
        self, client: BenchmarkClient, target: OpenTarget, request: StartBenchmark, level: int
    ) -> BenchmarkRound:
        mark = _new_mark()
        conversations = pick_conversations(target.conversations, request.settings, level)
        numbers = itertools.count()
        places = list(itertools.accumulate(map(len, conversations), initial=0))
        queue: deque[tuple[int, Conversation]] = deque()
        requests: list[RequestTiming] = []
        failures: list[Exception] = []

        def add_pass() -> None:
            for place, part in zip(places, conversations, strict=False):
                queue.append((place, mark_conversation(part, f"{mark}-{next(numbers)}")))

        async def work() -> None:
            while queue:
                await self._run_conversation(client, queue.popleft(), level, requests, failures)
                if not queue and not failures and time.monotonic() - begun_at < LEAST_ROUND_S:
                    add_pass()

        add_pass()
        before = await self._read_counters(target)
        begun_at = time.monotonic()
        await asyncio.gather(*(work() for _ in range(level)))
        duration_s = time.monotonic() - begun_at
        after = await self._read_counters(target)
        self._peak_bytes = max(self._peak_bytes, after.engine_bytes)
        if len(failures) > len(requests):
            raise failures[0]
        share = after.other_share(before) if target.pids else 0.0
        return BenchmarkRound(
            concurrency=level,
            duration_s=duration_s,
            requests=requests,
            failures=len(failures),
            other_share=share,
            is_busy=bool(target.pids) and not _is_quiet(share, target.backend),
            swap_bytes=after.swapped_bytes - before.swapped_bytes,
            throttles=after.throttles - before.throttles,
            joules=after.joules(before),
            energy_source=describe_sources(after.energy),
        )

    async def _read_counters(self, target: OpenTarget) -> SystemCounters:
        """Return the counters of the system and, of what computes on a card here, of NVIDIA's cards."""
        counters = await asyncio.to_thread(self._read, target.pids)
        if not target.pids or target.backend in {"", "cpu"}:
            return counters
        cards = await self._cards.read_counters()
        return msgspec.structs.replace(counters, energy={**counters.energy, **cards})

    @staticmethod
    async def _run_conversation(
        client: BenchmarkClient,
        part: tuple[int, Conversation],
        level: int,
        requests: list[RequestTiming],
        failures: list[Exception],
    ) -> None:
        first_place, conversation = part
        for place, prompt in enumerate(conversation, first_place):
            try:
                requests.append(await client.send(prompt, concurrency=level, place=place))
            except (RoundhouseError, OSError, aiohttp.ClientError) as error:
                failures.append(error)

    async def _measure_prefix(
        self, client: BenchmarkClient, target: OpenTarget
    ) -> tuple[list[RequestTiming], list[RequestTiming]]:
        """Return requests with prompts never seen, and the same again."""
        self._publish("Asking the same again", 0.97)
        longest = longest_prompt(target.conversations)
        short = msgspec.structs.replace(longest, answer_tokens=min(longest.answer_tokens, PREFIX_ANSWER_TOKENS))
        cold: list[RequestTiming] = []
        warm: list[RequestTiming] = []
        for _ in range(PREFIX_PAIRS):
            (prompt,) = mark_conversation((short,), _new_mark())
            cold.append(await client.send(prompt))
            warm.append(await client.send(prompt))
        return cold, warm

    async def _measure_schema_cost(self, client: BenchmarkClient, target: OpenTarget, seed: int) -> SpeedRatio | None:
        """Return what being held to a schema costs, of the same prompts in turns with and without; None for none."""
        prompts = [prompt for part in target.conversations for prompt in part if prompt.json_schema is not None]
        if not prompts or not client.endpoint.is_chat:
            return None
        self._publish("Asking without the schema", 0.98)
        schema_timings: list[RequestTiming] = []
        free: list[RequestTiming] = []
        for place, prompt in enumerate(prompts[:SCHEMA_PAIRS]):
            turns = [(schema_timings, prompt), (free, msgspec.structs.replace(prompt, json_schema=None))]
            for requests, turn in turns if len(schema_timings) % 2 else reversed(turns):
                (marked_turn,) = mark_conversation((turn,), _new_mark())
                requests.append(await client.send(marked_turn, place=place))
        return compare_speeds(free, schema_timings, seed=seed)

    async def _measure_lora_cost(
        self, request: StartBenchmark, target: OpenTarget, rounds: dict[int, list[BenchmarkRound]]
    ) -> SpeedRatio | None:
        """Return what the model's LoRA adapters cost, by one more load without them; None where it has none."""
        if target.resolved is None or target.about.url:
            return None
        own = self._services.model_settings.settings_of(target.resolved.model.runs_as)
        if not own.loras:
            return None
        self._publish("Measuring without LoRA adapters", 0.99)
        request = _at_level(request, max(rounds))
        try:
            without, _ = await self.time_settings(request, msgspec.structs.replace(own, loras=[]))
        except Conflict:
            target.notes.append("Without its LoRA adapters it was not measured: other programs were busy.")
            return None
        with_loras = [timing for part in rounds[max(rounds)] for timing in part.requests]
        return compare_speeds(without.requests, with_loras, seed=request.settings.seed)

    async def _check_calls(self, target: OpenTarget, request: StartBenchmark) -> tuple[int, int]:
        """Return how many tasks a tool's benchmark set, and how many were answered by calls that can be made."""
        if request.settings.workload is not Workload.TOOL or target.resolved is None:
            return 0, 0

        def publish(done_count: int, count: int) -> None:
            self._publish(f"Asking for tool calls, {done_count} of {count} done", 0.98 + 0.02 * done_count / count)

        tool = request.settings.tool
        return await count_valid_calls(self._services, target, self._read, tool=tool, publish=publish)

    async def _conclude(
        self,
        request: StartBenchmark,
        target: OpenTarget,
        rounds: dict[int, list[BenchmarkRound]],
        prefix: tuple[list[RequestTiming], list[RequestTiming]],
    ) -> BenchmarkReceipt:
        settings = request.settings
        every = [part for level in rounds.values() for part in level]
        timings = [make_timing for part in every for make_timing in part.requests]
        cold, warm = prefix
        machine = await self._services.machine.read()
        return BenchmarkReceipt(
            id=secrets.token_hex(6),
            at=time.time(),
            roundhouse=__version__,
            target=target.about,
            machine=describe_machine(machine),
            settings=settings,
            prompts_sha256=hash_prompts(target.conversations),
            levels=[summarize_level(level, seed=settings.seed) for level in rounds.values()],
            prefix=summarize_prefix([part.sample for part in cold], [part.sample for part in warm], seed=settings.seed),
            load_s=target.load_s,
            memory=msgspec.structs.replace(target.memory, peak_bytes=self._peak_bytes or None),
            prediction=target.prediction,
            cost=summarize_cost(every, price_kwh=settings.price_kwh),
            correctness=check_answers([*timings, *cold, *warm]),
            notes=target.notes,
            samples=[part.sample for part in timings],
        )

    def _teach(self, receipt: BenchmarkReceipt) -> None:
        """Have predictions for this model learn from what it did, asked one thing at a time."""
        target = receipt.target
        if not target.engine or target.url:
            return
        samples = [part for part in receipt.samples if part.concurrency == 1 and part.answer_tokens > 1]
        for sample in samples[:_LEARN_FROM]:
            self._services.speed_measurements.learn(
                Generation(
                    model=target.model,
                    engine=target.engine,
                    version=target.engine_version,
                    backend=target.backend,
                    device=target.backend if target.backend == "cpu" else "",
                    prompt_tokens=sample.prompt_tokens - sample.cached_tokens,
                    cached_tokens=sample.cached_tokens,
                    completion_tokens=sample.answer_tokens,
                    prefill_s=sample.prefill_s,
                    decode_s=sample.e2e_s - sample.ttft_s,
                    at=receipt.at,
                )
            )


def _is_saturated(rounds: dict[int, list[BenchmarkRound]]) -> bool:
    """Tell whether the level that ran last writes no more than one with fewer requests at once."""
    levels = [summarize_level(done_rounds) for done_rounds in rounds.values() if done_rounds]
    return len(levels) > 1 and find_saturation(levels) is not None


def _at_level(request: StartBenchmark, level: int) -> StartBenchmark:
    """Return the request with so many requests at once and no others, loaded as for the most."""
    settings = request.settings
    load = msgspec.structs.replace(settings.load, slots=settings.load.slots or max(settings.concurrency))
    return msgspec.structs.replace(request, settings=msgspec.structs.replace(settings, concurrency=[level], load=load))


def describe_machine(machine: Machine) -> BenchmarkMachine:
    """Return what a receipt says of the computer."""
    from app.advisor.choosing.wording import machine_summary, memory_bytes  # noqa: PLC0415 -- the advisor is brought in once it is needed

    system = machine.os
    return BenchmarkMachine(
        system=" ".join(filter(None, [system.name.value, system.version.value, system.architecture.value])),
        processor=machine.cpu.model.value or "",
        cores=machine.cpu.physical_cores.value,
        memory_bytes=memory_bytes(machine),
        gpus=[gpu.name.value or "" for gpu in machine.gpus],
        summary=machine_summary(machine),
    )


def _refusal(disturbances: Sequence[str], rounds: dict[int, list[BenchmarkRound]]) -> Conflict:
    is_busy = any(not part.is_quiet for level in rounds.values() for part in level)
    return Conflict(
        f"The benchmark was {'disturbed' if is_busy else 'too noisy'}, so it has no result. {' '.join(disturbances)}",
        code="benchmark_disturbed" if is_busy else "benchmark_noisy",
        hint="Close what is busy and try again.",
    )


def _is_quiet(share: float, backend: str) -> bool:
    from app.advisor.speed.disturbance import is_quiet  # noqa: PLC0415 -- as above

    return is_quiet(share, backend or "cpu")


def _new_mark() -> str:
    return secrets.token_hex(4)


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
