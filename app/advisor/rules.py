"""Which engine a machine deserves: the decision guide as rows, the first that applies wins.

The rows are a hardware strategy for one person. What is wanted and what this build can run are two things: the best
installed engine is chosen, and a better one is named rather than silently missed.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from app.advisor import hardware, wording
from app.core.engines import EngineChoice, EngineInfo
from app.core.machine import Machine

EVERYWHERE = "llama.cpp"
"""Runs on any processor and most GPUs, so it is the engine when no row's own can run."""

NAMES = {
    "llama.cpp": "llama.cpp",
    "mlx-lm": "MLX-LM",
    "exllamav2": "ExLlamaV2",
    "exllamav3": "ExLlamaV3",
    "vllm": "vLLM",
    "sglang": "SGLang",
    "tensorrt-llm": "TensorRT-LLM",
    "openvino-genai": "OpenVINO GenAI",
}


@dataclass(frozen=True, slots=True)
class Rule:
    """One row: for such hardware these engines, best first. `strength` completes "<engine> ..."."""

    subject: str
    applies: Callable[[Machine], bool]
    engines: tuple[str, ...]
    strength: str


RULES: tuple[Rule, ...] = (
    Rule("Apple silicon", hardware.is_apple_silicon, ("mlx-lm",), "is made for memory that processor and GPU share"),
    Rule(
        "NVIDIA data-centre GPUs",
        lambda machine: hardware.data_centre_gpus(machine) > 0,
        ("vllm", "sglang", "tensorrt-llm"),
        "keeps such cards busy with many requests at once",
    ),
    Rule(
        "AMD Instinct accelerators",
        lambda machine: hardware.instinct_gpus(machine) > 0,
        ("vllm", "sglang"),
        "is built for them and runs on ROCm",
    ),
    Rule(
        "more than four NVIDIA RTX cards",
        lambda machine: hardware.rtx_gpus(machine) > hardware.FEW,
        ("vllm", "sglang"),
        "spreads a model over many cards",
    ),
    Rule(
        "two to four NVIDIA RTX cards",
        lambda machine: hardware.rtx_gpus(machine) > 1,
        ("exllamav3",),
        "splits tensors and experts across consumer cards",
    ),
    Rule(
        "one NVIDIA RTX card",
        lambda machine: hardware.rtx_gpus(machine) == 1,
        ("exllamav3", "exllamav2"),
        "gets the most speed and the largest model out of one such card",
    ),
    Rule("other NVIDIA GPUs", lambda machine: hardware.has_vendor(machine, "nvidia"), (EVERYWHERE,), "runs on them"),
    Rule(
        "Intel Arc GPUs",
        lambda machine: hardware.arc_gpus(machine) > 0,
        ("openvino-genai",),
        "has Intel's own kernels for them",
    ),
    Rule("AMD Radeon GPUs", lambda machine: hardware.has_vendor(machine, "amd"), (EVERYWHERE,), "runs on them"),
    Rule(
        "Intel Xeon and Core Ultra processors",
        hardware.is_recent_intel,
        ("openvino-genai",),
        "has Intel's own kernels for their vector and matrix units",
    ),
    Rule("any processor", lambda _machine: True, (EVERYWHERE,), "runs everywhere"),
)


def choose(machine: Machine, engines: Sequence[EngineInfo]) -> EngineChoice:
    """Return the best installed engine for this machine, why, and the better one this build cannot run, if any."""
    rule = next(rule for rule in RULES if rule.applies(machine))
    chosen = _best_installed(rule, engines)
    if chosen is None:
        return _nothing_installed(machine, engines)
    wanted = "" if chosen.id in rule.engines else rule.engines[0]
    return EngineChoice(
        engine=chosen.id,
        name=chosen.name,
        backend=chosen.backend,
        sentence=wording.sentence(machine, chosen, because=_because(machine, chosen, rule)),
        reasons=wording.reasons(machine),
        wanted=NAMES.get(wanted, wanted),
        wanted_why=_wanted_why(rule, wanted, engines) if wanted else "",
    )


def _best_installed(rule: Rule, engines: Sequence[EngineInfo]) -> EngineInfo | None:
    """Return the row's best installed engine, else the one that runs everywhere, else whatever there is."""
    installed = {engine.id: engine for engine in engines if engine.installed}
    in_order = (*rule.engines, EVERYWHERE, *installed)
    return next((installed[engine] for engine in in_order if engine in installed), None)


def _because(machine: Machine, chosen: EngineInfo, rule: Rule) -> str:
    if chosen.id in rule.engines and chosen.id != EVERYWHERE:
        return f"for {rule.subject} it is the best: it {rule.strength}"
    if chosen.backend != wording.CPU:
        return f"it is the installed engine that can use {wording.gpus(machine) or 'the GPU'}"
    if machine.gpus:
        return f"no engine of this version can use {wording.gpus(machine)}"
    if hardware.failed_probes(machine):
        return "no GPU was found, though not every place could be looked at"
    return "this machine has no GPU it can use"


def _wanted_why(rule: Rule, wanted: str, engines: Sequence[EngineInfo]) -> str:
    name = NAMES.get(wanted, wanted)
    is_known = any(engine.id == wanted for engine in engines)
    lack = "It is not installed." if is_known else "This version of Roundhouse cannot run it yet."
    return f"For {rule.subject}, {name} would be the best: it {rule.strength}. {lack}"


def _nothing_installed(machine: Machine, engines: Sequence[EngineInfo]) -> EngineChoice:
    problem = next((engine.problem for engine in engines if engine.id == EVERYWHERE), "")
    return EngineChoice(
        engine=EVERYWHERE,
        name=NAMES[EVERYWHERE],
        backend="",
        sentence=f"No engine is installed, so no model can run. {problem}".strip(),
        reasons=wording.reasons(machine),
    )
