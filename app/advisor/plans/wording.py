"""A plan in words: the one sentence, the reasons with values and sources, and what a reader should be warned of."""

from collections.abc import Callable, Iterator, Sequence

from app.advisor.choosing import hardware, wording
from app.advisor.choosing.intents import Workload, find_need
from app.advisor.memory.estimate import expert_notes
from app.advisor.plans.quantisations import FULL, USUAL, format_title, nominal_bits
from app.advisor.plans.selection import EngineQuery, FitQuality, PlanPick
from app.core import words
from app.core.advice import Estimate, Intent
from app.core.engines import Reason
from app.core.machine import Gpu, Machine
from engines.api.traits import EngineAbility, GuideNeed, MachineKind

GUIDE = "decision guide"
_ESTIMATE = "estimate"


def plan_sentence(ask: EngineQuery, pick: PlanPick, *, format_name: str) -> str:
    """Return the plan in one sentence: "ExLlamaV2 with EXL2, because one RTX 4090 is NVIDIA, Ampere or newer, ..."."""
    clauses = [_machine_clause(ask), _offload_clause(ask, pick), _need_clause(ask), _fit_clause(ask, pick)]
    return f"{ask.engine.name} with {format_title(format_name)}, because {_join_clauses(list(filter(None, clauses)))}."


def plan_reasons(ask: EngineQuery, pick: PlanPick, pick_estimate: Estimate | None, *, has_choice: bool) -> list[Reason]:
    """Return what the plan rests on, one fact each. `has_choice` says that there were several files to choose from."""
    return [
        *_hardware_reasons(ask),
        _need_reason(ask.work),
        *_quality_reasons(ask, pick, has_choice=has_choice),
        *_context_reasons(ask, pick),
        *_spread_reasons(ask, pick),
        *_estimate_reasons(pick_estimate),
    ]


def plan_warnings(ask: EngineQuery, pick: PlanPick, pick_estimate: Estimate | None) -> list[str]:
    """Return what a reader should know before following the plan, one sentence each."""
    return [
        *_fit_warnings(pick),
        *(expert_notes(pick.facts, pick.setting) if pick.facts is not None else ()),
        *_context_warnings(ask, pick),
        *_speed_warnings(ask, pick_estimate),
        *_people_warnings(ask, pick),
        *_machine_warnings(ask, pick),
    ]


def memory_lack(ask: EngineQuery, pick: PlanPick) -> str:
    """Return the sum of memory that shows how much too large the best choice of an engine is."""
    if pick.facts is None:
        return ""
    sizes = ask.trials.trial_of(pick.facts).full_estimate(pick.setting).sentence
    return f"{pick.facts.quantization} does not fit: {sizes}."


def why_behind(pick: PlanPick) -> str:
    """Say why an engine stands behind others that the guide puts after it; empty when nothing is wrong with it."""
    if pick.fit is FitQuality.NONE:
        return "the model does not fit into what it can use"
    if pick.fit in {FitQuality.SPILLED, FitQuality.SLOW}:
        return "part of the model would be in system memory"
    return "it would only fit with fewer than four bits" if pick.fit in {FitQuality.SMALL, FitQuality.POOR} else ""


def short_name(gpu: Gpu) -> str:
    """Return a card as people call it: "RTX 4090", "H100"."""
    name = wording.gpu_name(gpu)
    for maker in ("NVIDIA", "GeForce", "AMD", "Intel", "Apple", "(R)", "(TM)", "Corporation"):
        name = name.replace(maker, "")
    return " ".join(name.split()) or wording.gpu_name(gpu)


def _join_clauses(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else ", and ".join([", ".join(parts[:-1]), parts[-1]])


def _machine_clause(ask: EngineQuery) -> str:
    kind = hardware.machine_kind(ask.machine)
    if not ask.target.vendors:
        return _PROCESSOR_CLAUSES.get(kind, _any_processor)(ask)
    if ask.engine.runs_everywhere and kind not in _SAID_OTHERWISE:
        return _runs_on(ask)
    return _GPU_CLAUSES.get(kind, _plain_gpu)(ask)


def _count_cards(gpus: Sequence[Gpu]) -> str:
    names = [short_name(gpu) for gpu in gpus]
    if len(names) == 1:
        return f"one {names[0]}"
    return (
        f"{len(names)} x {names[0]}"
        if len(set(names)) == 1
        else f"{len(names)} cards ({', '.join(dict.fromkeys(names))})"
    )


def _runs_on(ask: EngineQuery) -> str:
    """Return the clause of the engine that runs everywhere."""
    backend = wording.BACKENDS.get(ask.target.backend, ask.target.backend)
    return f"it runs on {_count_cards(ask.gpus)} by {backend}" if ask.gpus else f"it runs by {backend}"


def _apple_clause(ask: EngineQuery) -> str:
    memory, memory_facts = wording.memory_bytes(ask.machine), ask.machine.memory
    speeds = [gpu.bandwidth_gb_s.value for gpu in ask.machine.gpus if gpu.bandwidth_gb_s.value]
    speeds += [fact.value for fact in (memory_facts.theoretical_gb_s, memory_facts.bandwidth_gb_s) if fact.value]
    size = f"this Mac's {_round_size(memory)} are one pool" if memory else "this Mac's memory is one pool"
    at = f" at {speeds[0]:.0f} GB/s" if speeds else ""
    return f"{size}{at}" if not ask.engine.runs_everywhere else f"{size}{at}, and it runs on Metal"


def _rtx_one(ask: EngineQuery) -> str:
    return f"{_count_cards(ask.gpus)} is NVIDIA, Ampere or newer"


def _rtx_several(ask: EngineQuery) -> str:
    if ask.engine.runs_everywhere:
        return f"it runs on {_count_cards(ask.gpus)}, though it is not made for speed on several cards"
    return f"{_count_cards(ask.gpus)} are NVIDIA, Ampere or newer{_strength_clause(ask)}"


def _server_clause(ask: EngineQuery) -> str:
    return f"{_count_cards(ask.gpus)} {_is_or_are(ask)} made for servers{_strength_clause(ask)}"


def _instinct_clause(ask: EngineQuery) -> str:
    runs = "runs" if len(ask.gpus) == 1 else "run"
    return f"{_count_cards(ask.gpus)} {_is_or_are(ask)} AMD's for servers and {runs} it on ROCm"


def _mixed_clause(ask: EngineQuery) -> str:
    together = wording.join_words([f"the {name}" for name in dict.fromkeys(short_name(gpu) for gpu in ask.gpus)])
    if ask.engine.runs_everywhere:
        return f"no other engine computes on {together} together"
    return f"it {ask.engine.strength}, on {together} alone"


def _unified_clause(ask: EngineQuery) -> str:
    return f"the {short_name(ask.gpus[0])} shares {_memory_text(ask.machine)} with its processor{_strength_clause(ask)}"


def _older_nvidia_clause(ask: EngineQuery) -> str:
    capability = max(map(hardware.compute_capability, ask.gpus))
    capability_text = (
        f"compute capability {capability[0]}.{capability[1]}" if capability > (0, 0) else "an unknown capability"
    )
    return (
        f"{_count_cards(ask.gpus)} {'has' if len(ask.gpus) == 1 else 'have'} {capability_text}{_strength_clause(ask)}"
    )


def _arc_clause(ask: EngineQuery) -> str:
    if ask.engine.kernels_of == "intel":
        return f"Intel's own kernels make the most of {_count_cards(ask.gpus)}"
    return _plain_gpu(ask)


def _plain_gpu(ask: EngineQuery) -> str:
    if not ask.gpus:
        return f"it {ask.engine.strength}"
    backend = wording.BACKENDS.get(ask.target.backend, ask.target.backend)
    return f"it {ask.engine.strength}, and uses {_count_cards(ask.gpus)} by {backend}"


def _intel_processor(ask: EngineQuery) -> str:
    if ask.engine.kernels_of != "intel":
        return _any_processor(ask)
    model = ask.machine.cpu.model.value or "Intel processor"
    for noise in ("(R)", "(TM)", "Intel "):
        model = model.replace(noise, "")
    return f"Intel's own kernels make the most of the {model}"


def _any_processor(ask: EngineQuery) -> str:
    if hardware.main_gpus(ask.machine):
        return f"it {ask.engine.strength}, though here it leaves {wording.gpu_names(ask.machine)} idle"
    if ask.engine.runs_everywhere:
        return "it runs on any processor (no GPU here could do the work)"
    return f"it {ask.engine.strength}, and this machine computes on its processor"


def _strength_clause(ask: EngineQuery) -> str:
    """Return what the engine is good at; left out where the number of people says it."""
    return "" if ask.work.serves_several else f", and it {ask.engine.strength}"


def _is_or_are(ask: EngineQuery) -> str:
    return "is" if len(ask.gpus) == 1 else "are"


_GPU_CLAUSES: dict[MachineKind, Callable[[EngineQuery], str]] = {
    MachineKind.APPLE: _apple_clause,
    MachineKind.BLACKWELL_SERVER: _server_clause,
    MachineKind.NVIDIA_SERVER: _server_clause,
    MachineKind.INSTINCT: _instinct_clause,
    MachineKind.MIXED: _mixed_clause,
    MachineKind.RTX_MANY: _rtx_several,
    MachineKind.RTX_FEW: _rtx_several,
    MachineKind.RTX_ONE: _rtx_one,
    MachineKind.RTX_SMALL: _rtx_one,
    MachineKind.NVIDIA_UNIFIED: _unified_clause,
    MachineKind.JETSON: _unified_clause,
    MachineKind.TURING_FEW: _older_nvidia_clause,
    MachineKind.NVIDIA_OLDER: _older_nvidia_clause,
    MachineKind.ARC: _arc_clause,
}
_SAID_OTHERWISE = (MachineKind.APPLE, MachineKind.MIXED, MachineKind.RTX_FEW, MachineKind.RTX_MANY)
"""Where the engine that runs everywhere has a clause of its own."""
_PROCESSOR_CLAUSES: dict[MachineKind, Callable[[EngineQuery], str]] = {MachineKind.INTEL_CPU: _intel_processor}


def _offload_clause(ask: EngineQuery, pick: PlanPick) -> str:
    """Return what sets llama.cpp apart on cards, where no model says it better."""
    can_part = ask.may_offload and ask.engine.is_ggml
    return "it can keep a part of a model in system memory" if can_part and pick.facts is None else ""


def _need_clause(ask: EngineQuery) -> str:
    work, can = ask.work, ask.engine.abilities
    serves = EngineAbility.SERVES in can
    clauses = {
        GuideNeed.TEAM: f"it is made to answer {work.users} people at once" if serves else "",
        GuideNeed.SERVING: f"it is made to answer {work.users} requests at once" if serves else "",
        GuideNeed.SERVING_SHAPED: f"it is made to serve {work.users} at once and {_describe_shape(work)}"
        if serves
        else "",
        GuideNeed.FLEET: f"it {ask.engine.strength}" if EngineAbility.ORCHESTRATES in can else "a fleet is served",
        GuideNeed.BATCH: "batches keep it busy" if serves else "",
        GuideNeed.STRUCTURED: "it holds answers to a JSON schema" if EngineAbility.JSON_SCHEMA in can else "",
        GuideNeed.LORAS: f"{work.loras} adapters are loaded beside each other" if EngineAbility.LORAS in can else "",
        GuideNeed.LONG: f"a context of {words.format_tokens(work.target_context)} is requested",
        GuideNeed.AGENT: "an agent works with it",
        GuideNeed.APP: "an app needs it inside",
        GuideNeed.BROWSER: "a browser or phone will run it",
    }
    return clauses.get(find_need(work), "")


def _describe_shape(work: Workload) -> str:
    if work.intent is Intent.STRUCTURED:
        return "answers follow a schema"
    if work.loras > 1:
        return f"{work.loras} adapters are loaded"
    if work.is_long:
        return f"contexts are long ({words.format_tokens(work.target_context)})"
    return "the model is a mixture of experts"


def _fit_clause(ask: EngineQuery, pick: PlanPick) -> str:
    if pick.facts is None or not pick.is_known:
        return ""
    where = _describe_memory(ask, pick)
    return {
        FitQuality.WHOLE: f"{ask.model} fits in {where}",
        FitQuality.SPILLED: f"the part that does not fit in {where} is fast enough in system memory",
        FitQuality.SMALL: f"{ask.model} fits in {where} with {pick.facts.quantization}",
        FitQuality.POOR: f"{ask.model} fits in {where} with no more than {pick.facts.quantization}",
        FitQuality.SLOW: f"it can keep what does not fit in {where} in system memory",
        FitQuality.NONE: f"it comes closest, though {ask.model} does not fit in {where}",
    }[pick.fit]


def _describe_memory(ask: EngineQuery, pick: PlanPick) -> str:
    """Return the memory the model goes to: "its 24 GB", "their 48 GB", "64 GB of memory"."""
    cards = [gpu for gpu in ask.gpus[: pick.spread.cards] if not hardware.is_shared(gpu)]
    size = hardware.memory_of(cards)
    if cards and size:
        return (
            f"{'its' if len(cards) == 1 else 'their'} {_round_size(size)}"
            if len(cards) == len(ask.gpus)
            else _describe_some_cards(cards)
        )
    return f"{_memory_text(ask.machine)} of memory"


def _describe_some_cards(cards: Sequence[Gpu]) -> str:
    """Return the memory of some of the cards: "80 GB, one of them", "160 GB, 2 of them"."""
    return f"{_round_size(hardware.memory_of(cards))}, {'one' if len(cards) == 1 else len(cards)} of them"


def _memory_text(machine: Machine) -> str:
    total = wording.memory_bytes(machine)
    return _round_size(total) if total else "an unknown amount"


def _round_size(size: int | None) -> str:
    """Return memory as it is sold: "24 GB". Drivers tell a little less than the box."""
    return f"{round((size or 0) / (1 << 30))} GB" if (size or 0) >= 1 << 30 else words.format_bytes(size)


def _hardware_reasons(ask: EngineQuery) -> Iterator[Reason]:
    for gpu in list({wording.gpu_name(gpu): gpu for gpu in ask.gpus}.values())[:4]:
        size = words.format_bytes(gpu.memory_total.value)
        count = sum(wording.gpu_name(other) == wording.gpu_name(gpu) for other in ask.gpus)
        text = f"{ask.engine.name} computes on {_count_cards([gpu] * count)} with {size} each."
        yield Reason(
            text=text.replace(" each", "" if count == 1 else " each"), value=size, source=gpu.memory_total.source
        )
        if gpu.compute.value:
            yield Reason(
                text=f"Its compute level, {gpu.compute.value}, says which kernels exist for it.",
                value=gpu.compute.value,
                source=gpu.compute.source,
            )
    if not ask.gpus:
        yield from wording.processor_reasons(ask.machine)


def _need_reason(work: Workload) -> Reason:
    needs = work.needs
    if work.context:
        how, source = ("is set", "settings") if work.is_context_set else ("was requested", "asked")
        text = f"A context of {words.format_tokens(work.context)} {how}."
        return Reason(text=text, value=str(work.context), source=source)
    text = f"For {needs.title} {words.format_tokens(needs.context)} of context are wanted: {needs.context_why}."
    return Reason(text=text, value=str(needs.context), source=GUIDE)


def _quality_reasons(ask: EngineQuery, pick: PlanPick, *, has_choice: bool) -> Iterator[Reason]:
    if pick.facts is None:
        return
    bits, name = nominal_bits(pick.facts), pick.facts.quantization
    if not has_choice and not ask.is_model_named:
        text = f"{name} is the usual balance of size and quality; {ask.model} stands for what this machine can hold."
    elif not has_choice and bits >= USUAL:
        text = f"{name} is the only one available for this engine."
    elif pick.fit is FitQuality.WHOLE and pick.is_known:
        better = (
            "more bits would gain less than 1 %" if bits >= FULL else "nothing larger fits wholly and is fast enough"
        )
        text = f"{name} is the best quality that fits in fast memory with this context; {better}."
    elif bits < USUAL:
        text = f"{name} has fewer than four bits per weight, since nothing larger fits."
    else:
        text = f"{name} is the usual balance of size and quality."
    yield Reason(text=text, value=name, source=pick.facts.source or pick.facts.confidence.value)


def _context_reasons(ask: EngineQuery, pick: PlanPick) -> Iterator[Reason]:
    trained_context = pick.facts.trained_context if pick.facts else None
    if trained_context is not None and trained_context < ask.work.target_context:
        text = f"The model was trained for {words.format_tokens(trained_context)} of context, so it gets no more."
        yield Reason(text=text, value=str(trained_context), source="model")
    if pick.setting.kv_type != "f16" and ask.kv_type is None:
        text = f"The KV cache is kept in 8 bits ({pick.setting.kv_type}), so that this context fits."
        yield Reason(text=text, value=pick.setting.kv_type, source=_ESTIMATE)


def _spread_reasons(ask: EngineQuery, pick: PlanPick) -> Iterator[Reason]:
    spread = pick.spread
    if spread.cards > 1 and spread.why:
        yield Reason(text=spread.why, value=f"{spread.mode} over {spread.cards}", source="interconnect")
    elif spread.cards == 1 and len(ask.gpus) > 1 and pick.facts is not None and pick.is_known:
        copies = f", and each of {spread.replicas} holds a copy" if spread.replicas > 1 else "; the others stay free"
        yield Reason(text=f"The model fits on one card{copies}.", value="1", source=_ESTIMATE)


def _estimate_reasons(pick_estimate: Estimate | None) -> Iterator[Reason]:
    if pick_estimate is None:
        return
    yield Reason(
        text=f"Memory: {pick_estimate.sentence}.", value=words.format_bytes(pick_estimate.total.bytes), source=_ESTIMATE
    )
    if pick_estimate.decode is not None:
        rate = pick_estimate.decode
        low, high = (words.format_rate(rate_end).removesuffix(" tok/s") for rate_end in (rate.low, rate.high))
        between = f"{low} to {high}"
        filled_memory = (
            f" with {words.format_tokens(pick_estimate.depth)} tokens in the context" if pick_estimate.depth else ""
        )
        yield Reason(
            text=f"Decoding {words.format_rate(rate.tokens_per_second)} ({between}){filled_memory}: {rate.arithmetic}.",
            value=words.format_rate(rate.tokens_per_second),
            source=rate.confidence.value,
        )


def _fit_warnings(pick: PlanPick) -> Iterator[str]:
    if pick.facts is None:
        return
    if not pick.is_known:
        yield "How much memory is free is unknown, so there is no guarantee that anything fits."
    if pick.fit is FitQuality.NONE:
        yield "The model does not fit in the free memory; a smaller one will."
    if pick.is_known and nominal_bits(pick.facts) < USUAL:
        yield f"{pick.facts.quantization} has fewer than four bits per weight: answers get noticeably worse."
    if pick.fit is FitQuality.SLOW:
        yield "Part of the model is in system memory, which limits the speed."


def _context_warnings(ask: EngineQuery, pick: PlanPick) -> Iterator[str]:
    target, context = ask.work.target_context, pick.setting.context
    trained_context = pick.facts.trained_context if pick.facts else None
    if pick.facts is not None and pick.fit is FitQuality.NONE:
        return
    if context < min(target, trained_context or target):
        target_words = words.format_tokens(target)
        yield f"{words.format_tokens(context)} of context fit, {target_words} are wanted for {ask.work.needs.title}."
    elif ask.work.context and context < target:
        target_words = words.format_tokens(target)
        yield f"{target_words} of context were requested; the model was trained for {words.format_tokens(context)}."


def _speed_warnings(ask: EngineQuery, pick_estimate: Estimate | None) -> Iterator[str]:
    floor = ask.work.needs.floor
    if (
        pick_estimate is not None
        and pick_estimate.decode is not None
        and pick_estimate.decode.tokens_per_second < floor
    ):
        rate = words.format_rate(pick_estimate.decode.tokens_per_second)
        yield f"{rate} is slower than the {floor:g} wanted for {ask.work.needs.title}: {ask.work.needs.floor_why}."


def _people_warnings(ask: EngineQuery, pick: PlanPick) -> Iterator[str]:
    at_once = pick.setting.slots * pick.spread.replicas
    if at_once < ask.work.users and ask.work.serves_several and pick.facts is not None:
        run = "conversation runs" if at_once == 1 else "conversations run"
        yield f"{at_once} {run} at a time; the others of {ask.work.users} wait their turn."


_KNOWN_VENDORS = frozenset({"nvidia", "amd", "intel", "apple", "qualcomm"})


def _machine_warnings(ask: EngineQuery, pick: PlanPick) -> Iterator[str]:
    idle = [wording.gpu_name(gpu) for gpu in ask.machine.gpus if gpu.vendor not in _KNOWN_VENDORS]
    if idle:
        yield f"No engine that Roundhouse runs computes on {wording.join_words(list(dict.fromkeys(idle)))}."
    if pick.spread.warning and pick.spread.cards > 1:
        yield pick.spread.warning
    shows = [gpu for gpu in ask.gpus if gpu.drives_display.value is True]
    if EngineAbility.RESERVES in ask.engine.abilities and shows:
        yield f"{ask.engine.name} takes most of the memory at start, and the {short_name(shows[0])} drives a display."
    if hardware.is_translated(ask.machine):
        yield "Roundhouse is running translated (Rosetta); install the build for Apple silicon first."
    if ask.gpus and hardware.is_instinct(ask.gpus[0]):
        yield "Figures published for NVIDIA cards do not apply to these; measure on this machine."
    kind = hardware.machine_kind(ask.machine)
    is_served = kind is MachineKind.NVIDIA_SERVER and ask.work.serves_several
    if is_served or kind is MachineKind.BLACKWELL_SERVER:
        yield "Measure vLLM, SGLang and TensorRT-LLM with your own requests before deciding; they differ by workload."
