"""Results of benchmarks as the demo gateway lists them. Invented, and only shown in screenshots."""

import random
import time
from collections.abc import Mapping, Sequence

import msgspec

from app.benchmark.results import BenchmarkRound, RequestTiming, summarize_level
from app.core.benchmarks import (
    AnswerFigures,
    AnswerRatios,
    BenchmarkMachine,
    BenchmarkMemory,
    BenchmarkMessage,
    BenchmarkPrediction,
    BenchmarkPrompt,
    BenchmarkReceipt,
    BenchmarkSample,
    BenchmarkSettings,
    BenchmarkTarget,
    CandidateResult,
    Correctness,
    Figure,
    PredictionAccuracy,
    PrefixReuse,
    RaceCandidate,
    RaceEntry,
    RacePlan,
    RaceResult,
    TuneResult,
    Workload,
)
from app.core.events import BenchmarkChanged, RaceChanged, TrialChanged, TuneChanged
from app.core.models import ModelSettings
from app.core.trials import TrialAnswer, TrialComparison, TrialResult, TrialSide, TrialSwitch, TrialWords

_PROMPT = BenchmarkPrompt(messages=[BenchmarkMessage(role="user", content="Why is the sky blue?")])
_MACHINE = BenchmarkMachine(
    system="Linux 6.8 x86_64", processor="AMD Ryzen 7 7840U", cores=8, summary="AMD Ryzen 7 7840U, 32.0 GiB of memory"
)


def _make_request(draw: random.Random, level: int, token_s: float) -> RequestTiming:
    prompt, tokens = draw.randint(200, 4000), 96
    pace = token_s * (1 + prompt / 16_000) * draw.gauss(1, 0.02) * level**0.6
    first = prompt / 900 * level**0.5 * draw.gauss(1, 0.05)
    sample = BenchmarkSample(
        concurrency=level,
        prompt_tokens=prompt,
        cached_tokens=0,
        answer_tokens=tokens,
        ttft_s=first,
        e2e_s=first + pace * (tokens - 1),
        prefill_s=first,
    )
    return RequestTiming(sample=sample, gaps_s=[pace] * (tokens - 1), answer="", prompt=_PROMPT)


def _make_receipt(  # noqa: PLR0913 -- what a receipt is made of
    number: int,
    engine: str,
    token_s: float,
    levels: Sequence[int],
    hours: float,
    *,
    workload: Workload = Workload.RAG,
    context: int = 8192,
) -> BenchmarkReceipt:
    draw = random.Random(number)  # noqa: S311 -- invented figures
    rounds = {
        level: [
            BenchmarkRound(
                concurrency=level,
                duration_s=sum(request.sample.e2e_s for request in requests) / level,
                requests=requests,
            )
            for requests in ([_make_request(draw, level, token_s) for _ in range(max(6, level))] for _ in range(3))
        ]
        for level in levels
    }
    return BenchmarkReceipt(
        id=f"bench{number}",
        at=time.time() - hours * 3600,
        roundhouse="0.1.0",
        target=BenchmarkTarget(
            model="unsloth/Qwen3-8B-GGUF:Q4_K_M",
            engine=engine,
            engine_version="2026.4",
            backend="cpu",
            quantization="Q4_K_M",
            weights_sha256="4" * 64,
            options={"context": context, "slots": max(levels), "threads": 8},
        ),
        machine=_MACHINE,
        settings=BenchmarkSettings(workload=workload, concurrency=list(levels)),
        prompts_sha256="0" * 64,
        levels=[summarize_level(parts) for parts in rounds.values()],
        prefix=PrefixReuse(
            prompt_tokens=1844,
            cold_ttft_s=Figure(value=2.1, low=2.0, high=2.2),
            warm_ttft_s=Figure(value=0.06, low=0.05, high=0.07),
        ),
        load_s=2.4,
        memory=BenchmarkMemory(
            peak_bytes=int((5.2 + context * max(levels) * 72e-6) * (1 << 30)),
            engine_bytes=5 << 30,
            estimate_bytes=int(5.9 * (1 << 30)),
            free_bytes=14 << 30,
        ),
        prediction=BenchmarkPrediction(decode_tokens_s=0.95 / token_s),
        correctness=Correctness(equal_answers=1.0),
        samples=[request.sample for parts in rounds.values() for part in parts for request in part.requests],
    )


RECEIPTS = [
    _make_receipt(1, "llama.cpp", 0.085, (1, 2, 4), 0.2),
    _make_receipt(2, "openvino", 0.097, (1, 2, 4), 3),
    msgspec.structs.replace(
        _make_receipt(3, "llama.cpp", 0.12, (1,), 50),
        disturbances=["With 1 at once, other programs used 41 % of the processors."],
    ),
]
HISTORY = [
    *RECEIPTS,
    _make_receipt(4, "llama.cpp", 0.071, (1, 2, 4), 80, workload=Workload.CHAT, context=2048),
    _make_receipt(5, "llama.cpp", 0.074, (1,), 400, workload=Workload.CHAT, context=4096),
    _make_receipt(6, "openvino", 0.081, (1,), 402, workload=Workload.CHAT, context=4096),
    _make_receipt(7, "llama.cpp", 0.092, (1, 2, 4), 900, context=16384),
]
"""What was measured of one model over some weeks."""
RUNNING = BenchmarkChanged(model="unsloth/Qwen3-8B-GGUF:Q4_K_M", stage="Round 2 with 4 at once", fraction=0.46)

_MODEL = "unsloth/Qwen3-8B-GGUF:Q4_K_M"
RACE_PLAN = RacePlan(
    model=_MODEL,
    candidates=[
        RaceCandidate(
            engine="llama.cpp",
            name="llama.cpp",
            version="2026.5",
            is_installed=True,
            is_current=True,
            measured_version="2026.4",
            measure_s=212,
        ),
        RaceCandidate(engine="openvino", name="OpenVINO GenAI", version="2026.4", is_installed=True, measure_s=240),
        RaceCandidate(
            engine="mistral.rs",
            name="mistral.rs",
            download_bytes=26_000_000,
            disk_bytes=80_000_000,
            download_s=4.2,
            measure_s=190,
        ),
    ],
)
RACE_RESULT = RaceResult(
    model=_MODEL,
    engine_before="llama.cpp",
    settings_before=ModelSettings(),
    settings=ModelSettings(engine="openvino"),
    winner="openvino",
    is_change=True,
    sentence="OpenVINO GenAI is used from now on: its answers take at most 0.89 times as long as with llama.cpp, with "
    "95 % confidence (0.86 measured).",
    entries=[
        RaceEntry(
            engine="llama.cpp",
            receipt="bench1",
            e2e_s=10.4,
            ratio=Figure(value=1, low=0.98, high=1.02),
            note="1.12 (1.05 to 1.20) times as slow as version 2026.4",
        ),
        RaceEntry(engine="openvino", receipt="bench2", e2e_s=8.9, ratio=Figure(value=0.86, low=0.84, high=0.89)),
        RaceEntry(engine="mistral.rs", problem="It does not know this architecture."),
    ],
)
RACING = RaceChanged(model=_MODEL, stage="openvino: Round 2 with 1 at once", fraction=0.6)

TRYING = TrialChanged(model=_MODEL, stage=f"{_MODEL}: Request 4 of 10", fraction=0.2)
TRIAL_RESULT = TrialResult(
    at=1.8e9,
    roundhouse="0.1.0",
    model=_MODEL,
    first=TrialSide(
        target=BenchmarkTarget(model=_MODEL, engine="llama.cpp", engine_version="2026.4", quantization="Q4_K_M"),
        answered=2,
        ttft_s=0.8,
        tokens_s=21.0,
        memory=BenchmarkMemory(engine_bytes=5 << 30),
    ),
    second=TrialSide(
        target=BenchmarkTarget(
            model="unsloth/Qwen3-4B-GGUF:Q8_0", engine="llama.cpp", engine_version="2026.4", quantization="Q8_0"
        ),
        answered=2,
        ttft_s=0.4,
        tokens_s=34.0,
        valid_calls=0.5,
        memory=BenchmarkMemory(engine_bytes=4 << 30),
    ),
    requests=[
        TrialComparison(
            id="r1",
            prompt_sha256="f",
            prompt_length=840,
            first=TrialAnswer(tokens=90),
            second=TrialAnswer(tokens=88, calls=2, valid_calls=1),
            is_equal=False,
            diverges_at=41,
            diverges_at_token=9,
        ),
        TrialComparison(
            id="r2", prompt_sha256="f", prompt_length=84, first=TrialAnswer(), second=TrialAnswer(), is_equal=True
        ),
    ],
    equal=0.5,
    can_switch=True,
    sentence="1 of 2 answers are equal; the others differ from character 42 on (median).",
)
TRIAL_WORDS = [
    TrialWords(
        id="r1",
        first="The sky is blue because air scatters short waves of light more than long ones. In the evening light "
        "crosses more air, so that mostly red is left.",
        second="The sky is blue because air scatters blue light. This is called Rayleigh scattering, and it grows with "
        "the fourth power of the frequency.",
    ),
    TrialWords(id="r2", first="Paris.", second="Paris."),
]

TUNING = TuneChanged(model=_MODEL, stage="Trying threads 6", fraction=0.3)
TUNING_RESULT = TuneResult(
    model=_MODEL,
    engine="llama.cpp",
    is_change=True,
    sentence="Faster: threads 6. Whole answers take at most 0.91 times as long as before, with 95 % confidence (0.88 "
    "measured). First token: 0.85 (0.80 to 0.93) times as long; each token after it: 0.89 (0.86 to 0.92) times as "
    "long.",
    entries=[
        CandidateResult(
            name="threads 6", requests=12, e2e_s=5.1, ratio=Figure(value=0.88, low=0.86, high=0.91), is_kept=True
        ),
        CandidateResult(name="batch 128", requests=3, e2e_s=6.2, ratio=Figure(value=1.07, low=1.02, high=1.11)),
        CandidateResult(name="draft ngram", problem="This build of llama.cpp does not support draft models."),
        CandidateResult(name="KV cache", problem="The engine does not say which next tokens it holds for likely."),
    ],
    before=AnswerFigures(ttft_s=1.2, tpot_s=0.096, e2e_s=5.8),
    after=AnswerFigures(ttft_s=1.02, tpot_s=0.085, e2e_s=5.1),
    ratios=AnswerRatios(
        ttft=Figure(value=0.85, low=0.80, high=0.93),
        tpot=Figure(value=0.89, low=0.86, high=0.92),
        e2e=Figure(value=0.88, low=0.86, high=0.91),
    ),
    settings_before=ModelSettings(),
    settings=ModelSettings(threads=6),
    duration_s=118,
)


def benchmark_replies() -> Mapping[str, object]:
    """Return what the demo gateway answers about benchmarks."""
    receipts = [msgspec.structs.replace(receipt, samples=[]) for receipt in RECEIPTS]
    whole = {f"GET /benchmarks/{receipt.id}": receipt for receipt in RECEIPTS}
    return {
        "GET /benchmarks": receipts,
        **whole,
        **{f"DELETE /benchmarks/{receipt.id}": None for receipt in RECEIPTS},
        "GET /benchmarks/accuracy": PredictionAccuracy(
            first_count=3,
            first_error=0.21,
            later_count=5,
            later_error=0.04,
            sentence="Speeds were predicted 21 % off before anything was measured of a model (median of 3), and 4 % "
            "off after (median of 5).",
        ),
        "POST /benchmarks": RUNNING,
        "DELETE /benchmarks/job": None,
        "POST /tunings": TUNING,
        "DELETE /tunings/job": None,
        "GET /races/plan": RACE_PLAN,
        "POST /races": RACING,
        "DELETE /races/job": None,
        "POST /trials": TRYING,
        "DELETE /trials/job": None,
        "GET /trials/words": TRIAL_WORDS,
        "POST /trials/switch": TrialSwitch(sentence="New chats begin with the second.", changed=["models.default"]),
        "POST /trials/undo": TrialSwitch(sentence="As before.", changed=["models.default"]),
    }
