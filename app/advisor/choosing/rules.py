"""Which engine a machine deserves: the decision guide as one table, kind of machine x need -> engines, best first.

What is wanted and what this build can run are two things: the best installed engine is chosen, and a better one is
named rather than silently missed. The table says what suits; `ranking` takes out what cannot run here and says why.
"""

from collections.abc import Mapping, Sequence

import msgspec

from app.advisor.choosing import hardware, wording
from app.advisor.choosing.engine_table import ENGINES, EVERYWHERE, NAMES, NOWHERE, EngineTraits, Target
from app.advisor.choosing.hardware import Strategy
from app.advisor.choosing.intents import Need, Workload, need, workload
from app.advisor.choosing.targets import lack, target
from app.core.advice import Intent
from app.core.engines import EngineChoice, EngineInfo
from app.core.machine import Machine

Row = tuple[str, ...]

_APP: Row = ("onnxruntime-genai", "mlc-llm", EVERYWHERE)
_BROWSER: Row = ("mlc-llm", "onnxruntime-genai", EVERYWHERE)
_BUILT_IN: Mapping[Need, Row] = {Need.APP: _APP, Need.BROWSER: _BROWSER}
_SHAPED: Row = ("sglang", "vllm", "lmdeploy")
_SERVED: Row = ("vllm", "sglang", "lmdeploy")

_RTX_ONE: Mapping[Need, Row] = {
    Need.LOCAL: ("exllamav2", EVERYWHERE, "exllamav3", "vllm", "tensorrt-llm"),
    Need.AGENT: (EVERYWHERE, "exllamav2", "vllm", "exllamav3", "tensorrt-llm"),
    Need.STRUCTURED: ("sglang", EVERYWHERE, "vllm", "exllamav3", "exllamav2"),
    Need.LORAS: ("sglang", "vllm", EVERYWHERE, "exllamav2"),
    Need.LONG: ("exllamav2", EVERYWHERE, "sglang", "exllamav3", "vllm"),
    Need.MOE: ("exllamav3", EVERYWHERE, "exllamav2", "vllm", "sglang"),
    Need.BATCH: (*_SERVED, "exllamav2", EVERYWHERE),
    Need.SERVING: (*_SERVED, "exllamav2", EVERYWHERE, "tensorrt-llm"),
    Need.SERVING_SHAPED: (*_SHAPED, "exllamav2", EVERYWHERE, "tensorrt-llm"),
    Need.FLEET: ("dynamo", *_SERVED, "tensorrt-llm", "exllamav2"),
    **_BUILT_IN,
}
_RTX_SMALL: Mapping[Need, Row] = {
    **_RTX_ONE,
    Need.LOCAL: (EVERYWHERE, "exllamav2", "exllamav3", "vllm", "tensorrt-llm"),
    Need.LONG: (EVERYWHERE, "exllamav2", "exllamav3", "sglang"),
    Need.MOE: (EVERYWHERE, "exllamav3", "exllamav2"),
    Need.STRUCTURED: (EVERYWHERE, "sglang", "exllamav3", "exllamav2"),
}
_RTX_FEW: Mapping[Need, Row] = {
    Need.LOCAL: ("exllamav3", "vllm", "sglang", "exllamav2", "tensorrt-llm", EVERYWHERE),
    Need.AGENT: ("exllamav3", "vllm", "sglang", "exllamav2", EVERYWHERE),
    Need.STRUCTURED: ("sglang", "vllm", "exllamav3", EVERYWHERE),
    Need.LORAS: ("sglang", "vllm", "lmdeploy", "exllamav3", EVERYWHERE),
    Need.LONG: ("sglang", "exllamav3", "vllm", EVERYWHERE),
    Need.MOE: ("exllamav3", "vllm", "sglang", EVERYWHERE),
    Need.BATCH: (*_SERVED, "exllamav3", EVERYWHERE),
    Need.SERVING: (*_SERVED, "exllamav3", "tensorrt-llm", EVERYWHERE),
    Need.SERVING_SHAPED: (*_SHAPED, "exllamav3", "tensorrt-llm", EVERYWHERE),
    Need.FLEET: ("dynamo", *_SERVED, "tensorrt-llm", "exllamav3"),
    **_BUILT_IN,
}
_RTX_MANY: Mapping[Need, Row] = {
    **_RTX_FEW,
    Need.LOCAL: (*_SERVED, "exllamav3", "tensorrt-llm", EVERYWHERE),
    Need.AGENT: (*_SERVED, "exllamav3", EVERYWHERE),
    Need.MOE: ("sglang", "vllm", "exllamav3", EVERYWHERE),
    Need.LONG: ("sglang", "vllm", "exllamav3", EVERYWHERE),
}
_TURING_FEW: Mapping[Need, Row] = {
    Need.LOCAL: ("vllm", "lmdeploy", EVERYWHERE),
    Need.FLEET: ("vllm", "lmdeploy"),
    **_BUILT_IN,
}
_NVIDIA_SERVER: Mapping[Need, Row] = {
    Need.LOCAL: ("vllm", "sglang", "tensorrt-llm", "lmdeploy", EVERYWHERE),
    Need.STRUCTURED: ("sglang", "vllm", "tensorrt-llm", "lmdeploy", EVERYWHERE),
    Need.LORAS: ("sglang", "vllm", "tensorrt-llm", "lmdeploy", EVERYWHERE),
    Need.LONG: ("sglang", "vllm", "tensorrt-llm", "lmdeploy", EVERYWHERE),
    Need.MOE: ("sglang", "vllm", "tensorrt-llm", "lmdeploy", EVERYWHERE),
    Need.SERVING_SHAPED: ("sglang", "vllm", "tensorrt-llm", "lmdeploy", EVERYWHERE),
    Need.FLEET: ("dynamo", "tensorrt-llm", "vllm", "sglang", "lmdeploy"),
    **_BUILT_IN,
}
_BLACKWELL_SERVER: Mapping[Need, Row] = {
    Need.LOCAL: ("tensorrt-llm", "sglang", "vllm", "lmdeploy", EVERYWHERE),
    Need.STRUCTURED: ("sglang", "tensorrt-llm", "vllm", EVERYWHERE),
    Need.LORAS: ("sglang", "vllm", "tensorrt-llm", EVERYWHERE),
    Need.LONG: ("sglang", "tensorrt-llm", "vllm", EVERYWHERE),
    Need.MOE: ("sglang", "tensorrt-llm", "vllm", EVERYWHERE),
    Need.SERVING_SHAPED: ("sglang", "tensorrt-llm", "vllm", EVERYWHERE),
    Need.TEAM: ("vllm", "sglang", "tensorrt-llm", "lmdeploy", EVERYWHERE),
    Need.FLEET: ("dynamo", "tensorrt-llm", "sglang", "vllm", "lmdeploy"),
    **_BUILT_IN,
}
_INSTINCT: Mapping[Need, Row] = {
    Need.LOCAL: ("vllm", "sglang", EVERYWHERE),
    Need.STRUCTURED: ("sglang", "vllm", EVERYWHERE),
    Need.LORAS: ("sglang", "vllm", EVERYWHERE),
    Need.LONG: ("sglang", "vllm", EVERYWHERE),
    Need.SERVING_SHAPED: ("sglang", "vllm", EVERYWHERE),
    Need.FLEET: ("vllm", "sglang"),
    **_BUILT_IN,
}
_APPLE: Mapping[Need, Row] = {
    Need.LOCAL: ("mlx-lm", EVERYWHERE, "mlx-vlm", "mlc-llm"),
    Need.STRUCTURED: (EVERYWHERE, "mlx-vlm", "mlx-lm"),
    Need.LORAS: (EVERYWHERE, "mlx-lm"),
    Need.SERVING: (EVERYWHERE, "mlx-lm", "mlx-vlm"),
    Need.SERVING_SHAPED: (EVERYWHERE, "mlx-vlm", "mlx-lm"),
    Need.FLEET: (EVERYWHERE, "mlx-lm"),
    Need.APP: ("mlc-llm", "onnxruntime-genai", "mlx-lm", EVERYWHERE),
    Need.BROWSER: _BROWSER,
}
_UNIFIED: Mapping[Need, Row] = {
    Need.LOCAL: (EVERYWHERE, "vllm", "sglang", "tensorrt-llm"),
    Need.BATCH: ("vllm", "sglang", "tensorrt-llm", EVERYWHERE),
    Need.SERVING: ("vllm", "sglang", "tensorrt-llm", EVERYWHERE),
    Need.SERVING_SHAPED: ("sglang", "vllm", "tensorrt-llm", EVERYWHERE),
    Need.FLEET: ("vllm", "sglang", EVERYWHERE),
    **_BUILT_IN,
}
_OLDER: Mapping[Need, Row] = {
    Need.LOCAL: (EVERYWHERE, "vllm", "lmdeploy", "mlc-llm", "onnxruntime-genai"),
    Need.BATCH: ("vllm", "lmdeploy", EVERYWHERE),
    Need.SERVING: ("vllm", "lmdeploy", EVERYWHERE),
    Need.SERVING_SHAPED: ("vllm", "lmdeploy", EVERYWHERE),
    Need.FLEET: ("vllm", "lmdeploy", EVERYWHERE),
    **_BUILT_IN,
}
_RADEON: Mapping[Need, Row] = {
    Need.LOCAL: (EVERYWHERE, "mlc-llm", "onnxruntime-genai", "vllm"),
    Need.BATCH: ("vllm", EVERYWHERE),
    Need.SERVING: ("vllm", EVERYWHERE),
    Need.SERVING_SHAPED: ("vllm", EVERYWHERE),
    Need.FLEET: ("vllm", EVERYWHERE),
    **_BUILT_IN,
}
_ODD: Mapping[Need, Row] = {Need.LOCAL: (EVERYWHERE, "mlc-llm", "onnxruntime-genai"), **_BUILT_IN}
_INTEL_GPU: Mapping[Need, Row] = {
    Need.LOCAL: ("openvino", "onnxruntime-genai", EVERYWHERE, "mlc-llm"),
    **_BUILT_IN,
}
_INTEL_CPU: Mapping[Need, Row] = {
    Need.LOCAL: ("openvino", EVERYWHERE, "onnxruntime-genai"),
    **_BUILT_IN,
}
_MIXED: Mapping[Need, Row] = {
    Need.LOCAL: (EVERYWHERE, "exllamav2", "exllamav3", "vllm", "openvino", "mlc-llm"),
    Need.SERVING: (*_SERVED, EVERYWHERE),
    Need.SERVING_SHAPED: (*_SHAPED, EVERYWHERE),
    Need.BATCH: (*_SERVED, EVERYWHERE),
    Need.FLEET: (*_SERVED, EVERYWHERE),
    **_BUILT_IN,
}
_CPU_SERVER: Mapping[Need, Row] = {Need.LOCAL: (EVERYWHERE, "openvino", "onnxruntime-genai"), **_BUILT_IN}
_CPU: Mapping[Need, Row] = {Need.LOCAL: (EVERYWHERE, "mlc-llm", "onnxruntime-genai", "openvino"), **_BUILT_IN}

GUIDE: dict[Strategy, Mapping[Need, Row]] = {
    Strategy.APPLE: _APPLE,
    Strategy.BLACKWELL_SERVER: _BLACKWELL_SERVER,
    Strategy.NVIDIA_SERVER: _NVIDIA_SERVER,
    Strategy.INSTINCT: _INSTINCT,
    Strategy.MIXED: _MIXED,
    Strategy.RTX_MANY: _RTX_MANY,
    Strategy.RTX_FEW: _RTX_FEW,
    Strategy.RTX_ONE: _RTX_ONE,
    Strategy.RTX_SMALL: _RTX_SMALL,
    Strategy.NVIDIA_UNIFIED: _UNIFIED,
    Strategy.JETSON: _ODD,
    Strategy.TURING_FEW: _TURING_FEW,
    Strategy.NVIDIA_OLDER: _OLDER,
    Strategy.ARC: _INTEL_GPU,
    Strategy.RADEON: _RADEON,
    Strategy.AMD_APU: _ODD,
    Strategy.SNAPDRAGON: {
        Need.LOCAL: (EVERYWHERE, "onnxruntime-genai"),
        **_BUILT_IN,
    },
    Strategy.INTEL_CPU: _INTEL_CPU,
    Strategy.INTEL_MAC: {Need.LOCAL: (EVERYWHERE,), **_BUILT_IN},
    Strategy.BOARD: {Need.LOCAL: (EVERYWHERE,), **_BUILT_IN},
    Strategy.CPU_SERVER: _CPU_SERVER,
    Strategy.CPU: _CPU,
}
"""A need without a row of its own takes the machine's LOCAL row, a team that of serving."""

_BEYOND_TEXT = (Need.STRUCTURED, Need.TEAM, Need.SERVING, Need.SERVING_SHAPED)
"""Needs that MLX-VLM's server meets and MLX-LM's does not: JSON schemas and keys."""
_SERVERS = (Strategy.BLACKWELL_SERVER, Strategy.NVIDIA_SERVER, Strategy.INSTINCT)


class Ranked(msgspec.Struct, frozen=True, kw_only=True):
    """One engine in the ranking: where it would run, or why it does not; `warnings` are whole sentences."""

    traits: EngineTraits
    target: Target = NOWHERE
    refused: str = ""
    warnings: tuple[str, ...] = ()
    is_discouraged: bool = False


def ranking(machine: Machine, work: Workload, *, sees: bool = False) -> list[Ranked]:
    """Return the guide's engines for this machine and work, best first, then every engine that is refused, and why.

    `sees` says that the model reads images. There is always at least one engine that is not refused.
    """
    kind, asked = hardware.strategy(machine), need(work)
    row = [engine for engine in guide_row(machine, work) if engine != "mlx-vlm" or sees or asked in _BEYOND_TEXT]
    judged = [_judged(machine, ENGINES[engine], kind, asked) for engine in row]
    others = [_unlisted(machine, engine, kind) for engine in ENGINES.values() if engine.id not in row]
    usable = sorted((one for one in judged if not one.refused), key=lambda one: _demotion(machine, one))
    refused = [one for one in (*judged, *others) if one is not None and one.refused]
    return [*(usable or [_last_resort(machine)]), *(one for one in refused if usable or one.traits.id != EVERYWHERE)]


def guide_row(machine: Machine, work: Workload) -> Row:
    """Return the guide's engines for this machine and work, whether they can run here or not."""
    rows, asked = GUIDE[hardware.strategy(machine)], need(work)
    near = rows.get(Need.SERVING) if asked is Need.TEAM else None
    return rows.get(asked) or near or rows[Need.LOCAL]


def _judged(machine: Machine, engine: EngineTraits, kind: Strategy, asked: Need) -> Ranked:
    why_not = lack(machine, engine)
    if why_not:
        return Ranked(traits=engine, refused=why_not)
    return Ranked(
        traits=engine,
        target=target(machine, engine),
        warnings=_warnings(engine, kind, asked),
        is_discouraged=_is_discouraged(engine, kind),
    )


def _unlisted(machine: Machine, engine: EngineTraits, kind: Strategy) -> Ranked | None:
    """Return an engine the guide does not name here: why it cannot run; None when it could and nobody would want it."""
    why_not = lack(machine, engine)
    if not why_not and engine.id == "dynamo":
        why_not = f"{engine.name} {engine.strength}. {engine.limits}"
    if not why_not and engine.id == EVERYWHERE:
        why_not = (
            "llama.cpp reaches other computers only by its RPC, which is fragile and open to anyone: no production."
        )
    if not why_not and engine.id == "mlx-lm" and kind is not Strategy.APPLE:
        why_not = f"{engine.name} needs {engine.needs}."
    return Ranked(traits=engine, refused=why_not) if why_not else None


def _last_resort(machine: Machine) -> Ranked:
    engine = ENGINES[EVERYWHERE]
    return Ranked(traits=engine, target=target(machine, engine), warnings=(_NO_RPC,))


_NO_RPC = "For several computers start one server on each, behind a load balancer; llama.cpp's RPC is open to anyone."
_LOCAL_SERVER = "This is an engine for a desk: nothing in it keeps many users apart or tells one from another."


def _warnings(engine: EngineTraits, kind: Strategy, asked: Need) -> tuple[str, ...]:
    found = []
    is_serving = asked in {Need.TEAM, Need.SERVING, Need.SERVING_SHAPED, Need.FLEET}
    if is_serving and engine.id in {"mlx-lm", "mlx-vlm"}:
        found.append(engine.limits)
    if is_serving and engine.id in {"exllamav2", "exllamav3"}:
        found.append(_LOCAL_SERVER)
    if asked is Need.FLEET and engine.id == EVERYWHERE:
        found.append(_NO_RPC)
    if _is_discouraged(engine, kind):
        found.append(f"Not advised here: {engine.limits[0].lower()}{engine.limits[1:]}")
    return tuple(found)


def _is_discouraged(engine: EngineTraits, kind: Strategy) -> bool:
    return engine.id == "tensorrt-llm" and kind not in _SERVERS


def _demotion(machine: Machine, one: Ranked) -> int:
    """Order what the guide's order does not know: first those that use the GPU, last those not advised."""
    idles_gpu = bool(hardware.main_gpus(machine)) and not one.target.vendors
    return 2 * one.is_discouraged + idles_gpu


def choose(machine: Machine, engines: Sequence[EngineInfo]) -> EngineChoice:
    """Return the best installed engine for one person on this machine, why, and the better one it lacks, if any."""
    usable = [one for one in ranking(machine, workload(Intent.CHAT)) if not one.refused]
    chosen = _best_installed(usable, engines)
    if chosen is None:
        return _nothing_installed(machine, engines)
    wanted = "" if _is_as_good(chosen.id, usable) else usable[0].traits.id
    return EngineChoice(
        engine=chosen.id,
        name=chosen.name,
        backend=chosen.backend,
        sentence=wording.choice_sentence(machine, chosen, because=_because(machine, chosen, usable)),
        reasons=wording.reasons(machine),
        wanted=NAMES.get(wanted, wanted),
        wanted_why=_wanted_why(machine, wanted, engines) if wanted else "",
    )


def _best_installed(usable: Sequence[Ranked], engines: Sequence[EngineInfo]) -> EngineInfo | None:
    """Return the ranking's best installed engine, else the one that runs everywhere, else whatever there is."""
    installed = {engine.id: engine for engine in engines if engine.installed}
    in_order = (*(one.traits.id for one in usable), EVERYWHERE, *installed)
    return next((installed[engine] for engine in in_order if engine in installed), None)


def _is_as_good(chosen: str, usable: Sequence[Ranked]) -> bool:
    """Whether nothing better is missed: it is first, or stands before the engine that runs everywhere."""
    order = [one.traits.id for one in usable]
    if chosen not in order:
        return False
    before = order[: order.index(EVERYWHERE)] if EVERYWHERE in order else order
    return chosen == order[0] or chosen in before


def _because(machine: Machine, chosen: EngineInfo, usable: Sequence[Ranked]) -> str:
    if chosen.id != EVERYWHERE and _is_as_good(chosen.id, usable):
        return f"for {wording.subject(machine)} it is the best: it {ENGINES[chosen.id].strength}"
    if chosen.backend != wording.CPU:
        return f"it is the installed engine that can use {wording.gpus(machine) or 'the GPU'}"
    if machine.gpus:
        return f"no engine of this version can use {wording.gpus(machine)}"
    if hardware.failed_probes(machine):
        return "no GPU was found, though not every place could be looked at"
    return "this machine has no GPU it can use"


def _wanted_why(machine: Machine, wanted: str, engines: Sequence[EngineInfo]) -> str:
    name = NAMES.get(wanted, wanted)
    is_known = any(engine.id == wanted for engine in engines)
    lacks = "It is not installed." if is_known else "This version of Roundhouse cannot run it yet."
    return f"For {wording.subject(machine)}, {name} would be the best: it {ENGINES[wanted].strength}. {lacks}"


def _nothing_installed(machine: Machine, engines: Sequence[EngineInfo]) -> EngineChoice:
    problem = next((engine.problem for engine in engines if engine.id == EVERYWHERE), "")
    return EngineChoice(
        engine=EVERYWHERE,
        name=NAMES[EVERYWHERE],
        backend="",
        sentence=f"No engine is installed, so no model can run. {problem}".strip(),
        reasons=wording.reasons(machine),
    )
