"""Every end gets its cause: captured and reproduced logs of engines in `tests/fixtures/engine_logs`, line by line."""

import tomllib
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from engines.api import Exit, Failure, FailureKind, LaunchOptions, RemedyKind, Suspicion
from engines.failures import FailureReader, root_cause
from engines.registry import ADAPTERS
from engines.remedies import RemedyOptions

LOGS = Path(__file__).resolve().parents[1] / "fixtures" / "engine_logs"
RAN_WITH = LaunchOptions(context=40_960, slots=4)


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """One end: where its log is, its exit code, what it is, and what is said about it."""

    engine: str
    case: str
    code: int
    kind: FailureKind
    real: bool = False
    log: str = ""
    says: str = ""
    remedy: str = ""
    options: dict[str, int | float | str] = {}

    @property
    def lines(self) -> list[str]:
        path = LOGS / (self.log or f"{self.engine}/{self.case}.log")
        return path.read_text(encoding="utf-8").splitlines()


def cases() -> Iterator[Case]:
    tables = tomllib.loads((LOGS / "cases.toml").read_text(encoding="utf-8"))
    for engine, rows in tables.items():
        for row in rows:
            yield msgspec.convert({"engine": engine, **row}, Case)


CASES = list(cases())
EACH = pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.engine}-{case.case}")


def explain_case(case: Case) -> Failure:
    adapter = ADAPTERS[case.engine]
    events = [event for line in case.lines for event in adapter.read_log(line)]
    suspicions = [event for event in events if isinstance(event, Suspicion)]
    return adapter.classify_exit(
        Exit(code=case.code, suspicions=suspicions[:50], tail=case.lines[-60:], was_ready=False, options=RAN_WITH)
    )


@pytest.mark.slow(cases=41)
@EACH
def test_an_end_has_its_cause(case: Case) -> None:
    failure = explain_case(case)
    assert failure.kind is case.kind, failure


@pytest.mark.slow(cases=43)
@EACH
def test_it_is_said_with_the_figures_and_what_may_help(case: Case) -> None:
    failure = explain_case(case)
    assert case.says in failure.sentence
    assert failure.sentence.endswith(".")
    assert "exit code" not in failure.sentence
    assert failure.remedies, "nothing to do is no help"
    if case.remedy:
        first = failure.remedies[0]
        assert (first.kind, dict(first.options) or case.options) == (case.remedy, case.options or dict(first.options))


@pytest.mark.slow(cases=41)
@EACH
def test_what_gave_it_away_is_shown(case: Case) -> None:
    failure = explain_case(case)
    if case.code not in {1, 2, 84, 83, 127}:  # the code alone may have told
        return
    assert any(failure.evidence[:40] in line for line in case.lines)
    assert failure.evidence


def test_there_are_enough_of_them_and_many_are_real() -> None:
    assert len(CASES) >= 80
    assert sum(case.real for case in CASES) >= 50
    assert len({case.kind for case in CASES}) >= 17
    assert len({(case.engine, case.case) for case in CASES}) == len(CASES)


def test_every_log_belongs_to_a_case() -> None:
    on_disk = {f"{path.parent.name}/{path.stem}" for path in LOGS.rglob("*.log")}
    assert on_disk == {f"{case.engine}/{case.case}" for case in CASES if not case.log}


PLAIN = FailureReader(name="Engine", means=RemedyOptions(cache_type="q8_0", gpu_layers=True, gpu_share=True))


def end(*lines: str, code: int = 1, **options: int | str) -> Failure:
    suspicions = [suspicion for line in lines if (suspicion := PLAIN.suspect(line))]
    ran_with = LaunchOptions(**options)  # type: ignore[arg-type]  # fields of several types
    return PLAIN.explain(Exit(code=code, suspicions=suspicions, tail=lines, was_ready=False, options=ran_with))


@pytest.mark.parametrize(
    "line",
    [
        "(APIServer pid=1) INFO 11-21 10:00:00 [utils.py:1] args: {'trust_remote_code': True, 'x': 'CUDA error'}",
        "WARNING 11-21 10:00:00 [x.py:1] Cannot connect to the telemetry, no such file or directory",
        "2026-11-21 10:00:00,000 - WARNING - tokenizer: permission denied, using the default",
        "[11/21/2026-10:00:01] [TRT-LLM] [W] address already in use, trying another",
        "/env/x.py:3: UserWarning: no CUDA GPUs are available",
        "2026-11-21T10:00:00Z  WARN dynamo::x: failed to bind, will try again",
        "ggml: failed to allocate, retrying without pipeline parallelism",
    ],
)
def test_a_line_that_only_mentions_a_cause_is_none(line: str) -> None:
    assert PLAIN.suspect(line) is None


def test_the_first_error_counts_and_a_vague_one_yields() -> None:
    assert (
        end("CUDA error: unknown", "torch.OutOfMemoryError: CUDA out of memory").kind is FailureKind.OUT_OF_GPU_MEMORY
    )
    assert end("No CUDA GPUs are available", "Address already in use").kind is FailureKind.DRIVER


def test_what_an_engine_went_on_after_takes_what_led_to_it_along() -> None:
    suspicions = [
        Suspicion(kind=FailureKind.OUT_OF_GPU_MEMORY, line="no room"),
        Suspicion(kind=FailureKind.OUT_OF_GPU_MEMORY, line="again with less", survived="It goes on with less."),
        Suspicion(kind=FailureKind.BACKEND_CRASH, line="CUDA error"),
    ]
    ends = [Exit(code=-6, suspicions=suspicions[:count], tail=[], was_ready=False) for count in (1, 2, 3)]
    assert [PLAIN.explain(end).kind for end in ends] == [
        FailureKind.OUT_OF_GPU_MEMORY,
        FailureKind.CRASHED,
        FailureKind.BACKEND_CRASH,
    ]


def test_a_context_beyond_the_model_is_said_and_what_it_was_made_for_is_offered() -> None:
    adapter = ADAPTERS["sglang"]
    line = "Warning: User-specified context_length (400000) is greater than the derived context_length (40960)."
    (suspicion,) = adapter.read_log(line)
    assert isinstance(suspicion, Suspicion)
    ran_with = LaunchOptions(context=400_000)
    failure = adapter.classify_exit(
        Exit(code=1, suspicions=[suspicion], tail=[line], was_ready=False, options=ran_with)
    )
    assert failure.sentence.startswith("The model was not made for a context this large.")
    assert failure.remedies[0].options == {"context": 40_960}


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (137, FailureKind.KILLED),
        (139, FailureKind.CRASHED),
        (132, FailureKind.ILLEGAL_INSTRUCTION),
        (3, FailureKind.UNKNOWN),
    ],
)
def test_codes_of_shells_and_containers_are_signals(code: int, kind: FailureKind) -> None:
    assert end(code=code).kind is kind


def test_an_unknown_end_shows_the_first_exception() -> None:
    failure = end(
        "Traceback (most recent call last):", "  File x", "ValueError: odd", "Traceback (most recent call last):"
    )
    assert (failure.kind, failure.evidence) == (FailureKind.UNKNOWN, "ValueError: odd")


def test_the_root_is_the_first_traceback_whoever_wrote_it() -> None:
    lines = [
        "(EngineCore pid=2) ERROR 11-21 10:00:00 [core.py:1] Traceback (most recent call last):",
        "(EngineCore pid=2) ERROR 11-21 10:00:00 [core.py:1]   File x",
        "(EngineCore pid=2) ERROR 11-21 10:00:00 [core.py:1] KeyError: 'layers.0'",
        "Traceback (most recent call last):",
        "RuntimeError: Engine core initialization failed.",
    ]
    assert root_cause(lines) == "KeyError: 'layers.0'"
    assert root_cause(["nothing"]) == ""


def list_remedies(failure: Failure) -> dict[RemedyKind, dict[str, int | float | str]]:
    return {remedy.kind: dict(remedy.options) for remedy in failure.remedies}


def test_too_little_memory_offers_what_needs_less() -> None:
    remedies = list_remedies(end("cudaMalloc failed: out of memory", context=8192, slots=4, gpu_layers=40))
    assert remedies[RemedyKind.FEWER_LAYERS] == {"gpu_layers": 20}
    assert remedies[RemedyKind.FEWER_SLOTS] == {"slots": 1}
    assert remedies[RemedyKind.SMALLER_CACHE] == {"kv_type": "q8_0"}
    assert remedies[RemedyKind.LESS_CONTEXT] == {"context": 4096}


def test_what_was_done_already_is_not_offered_again() -> None:
    remedies = list_remedies(
        end("cudaMalloc failed: out of memory", context=1536, slots=1, gpu_layers=0, kv_type="q8_0")
    )
    tries = {RemedyKind.FEWER_LAYERS, RemedyKind.FEWER_SLOTS, RemedyKind.SMALLER_CACHE, RemedyKind.LESS_CONTEXT}
    assert not tries & remedies.keys()


def test_without_anything_known_a_gpu_can_be_left_alone() -> None:
    assert list_remedies(end("cudaMalloc failed: out of memory"))[RemedyKind.FEWER_LAYERS] == {"gpu_layers": 0}


@pytest.mark.parametrize(
    ("engine", "line", "says"),
    [
        (
            "llama.cpp",
            "error loading model architecture: unknown model architecture: 'kimi-k3'",
            "llama.cpp b11434 knows it.",
        ),
        ("llama.cpp", "unknown model architecture: 'starship9'", "It is of the kind “starship9”."),
        ("mlx-lm", "ValueError: Model type gemma4 not supported.", "MLX-LM 0.32.2 knows it."),
        ("vllm", "Value error, Model architectures ['XForCausalLM'] are not supported for now.", "“XForCausalLM”"),
    ],
)
def test_an_unknown_kind_of_model_is_named_and_so_is_the_version_that_knows_it(
    engine: str, line: str, says: str
) -> None:
    adapter = ADAPTERS[engine]
    suspicions = [event for event in adapter.read_log(line) if isinstance(event, Suspicion)]
    failure = adapter.classify_exit(Exit(code=1, suspicions=suspicions, tail=[line], was_ready=False))
    assert failure.kind is FailureKind.MODEL_UNSUPPORTED
    assert failure.sentence.endswith(says) or says in failure.sentence
