"""llama.cpp as a program: a release archive, one on PATH, or a person's own `llama-server`.

The flags are those its `--help` names: builds differ by the week. Standard input is its lifeline, as for our workers:
told that it runs under a router, it writes its load progress and ends with its input.
"""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from engines.api import (
    EngineInstallation,
    EngineLocation,
    Exit,
    Failure,
    FailureKind,
    LaunchFile,
    LaunchOptions,
    LaunchPlan,
    ListenOptions,
    ModelSource,
    ProcessSpec,
    Readiness,
    SoftStop,
    StopPlan,
)
from engines.flags import Flag, FlagTable, build_arguments, list_flag, task_flag, value_flag
from engines.llama_cpp.descriptor import DESCRIPTOR
from engines.llama_cpp.log import READER
from engines.llama_cpp.states import keeps_states, stateless_reason
from engines.llama_cpp.worker import CACHE_RAM_MIB, LOG_LEVEL, NGRAM_LOOKUP, NGRAM_TOKENS, NOBODY, SPARE_HTTP_THREADS
from engines.program_probe import QUICK_S, ProgramOutput, answer_of, flags_of, output_of

KEY_VARIABLE = "LLAMA_API_KEY"
TEMPLATE = "chat_template.jinja"
KV_TYPES = ("f32", "f16", "bf16", "q8_0", "q5_1", "q5_0", "q4_1", "q4_0", "iq4_nl")
"""What llama.cpp accepts for its KV cache."""
_SPECULATION = {"model": "draft-simple", "eagle3": "draft-eagle3", "mtp": "draft-mtp", "ngram": "ngram-simple"}
_NGRAM_SIZES = ("--spec-ngram-simple-size-n", "--spec-ngram-simple-size-m")
_USUAL_UBATCH = 512
"""Tokens that llama.cpp computes at once where nobody says."""
SAMPLING_FLAGS = {
    "temperature": "--temp",
    "top_p": "--top-p",
    "top_k": "--top-k",
    "min_p": "--min-p",
    "repeat_penalty": "--repeat-penalty",
}
USUAL_SAMPLING: Mapping[str, float | int] = {
    "temperature": 0.8,
    "top_p": 0.95,
    "top_k": 40,
    "min_p": 0.05,
    "repeat_penalty": 1.0,
}
"""What llama.cpp does where nobody says anything (common.h)."""
_NEEDED = frozenset({"--model", "--ctx-size", "--port"})
"""Every `llama-server` has these, and nothing else has all of them."""
_IF_THERE = (
    ("--no-ui", ()),
    ("--offline", ()),
    ("--metrics", ()),
    ("--log-jsonl", ()),
    ("--log-verbosity", (str(LOG_LEVEL),)),
    ("--cors-origins", (NOBODY,)),
    ("--cache-ram", (str(CACHE_RAM_MIB),)),
)
"""Said where the build has it. Our key and the loopback address close the doors also where it has not."""


MAX_SEQUENCES = 256
"""`LLAMA_MAX_SEQ`: with more, it ends with "n_seq_max must be <= 256"."""
TOO_MANY_SLOTS = f"llama.cpp answers at most {MAX_SEQUENCES} requests at once."
_STATE_FLAG = "--slot-save-path"
_PER_SLOT = "--kv-unified-per-slot"
"""Keeps each slot of a shared cache to its context; builds without it say more than an input may have."""


def _context_flags(options: LaunchOptions) -> Sequence[str]:
    """Return the sum of all slots' contexts, as llama.cpp counts."""
    return ("--ctx-size", str((options.context or 0) * options.slots))


def _slot_flags(options: LaunchOptions) -> Sequence[str]:
    """Return nothing: slots are a part of what is always said. Raises ValueError for more than it can have."""
    if options.slots > MAX_SEQUENCES:
        raise ValueError(TOO_MANY_SLOTS)
    return ()


def _draft_flags(options: LaunchOptions) -> Sequence[str]:
    draft = options.draft
    if draft is None or draft.kind not in _SPECULATION:
        raise ValueError(f"llama.cpp drafts with one of {', '.join(_SPECULATION)}.")
    path = ("--spec-draft-model", str(draft.path)) if draft.path else ()
    tokens: tuple[str, ...] = ("--spec-draft-n-max", str(draft.tokens))
    if draft.kind == "ngram":
        tokens = (_NGRAM_SIZES[0], str(NGRAM_LOOKUP), _NGRAM_SIZES[1], str(NGRAM_TOKENS))
    return ("--spec-type", _SPECULATION[draft.kind], *path, *tokens)


def _cache_type_flags(options: LaunchOptions) -> Sequence[str]:
    if options.kv_type not in KV_TYPES:
        raise ValueError(f"llama.cpp keeps its KV cache as one of {', '.join(KV_TYPES)}.")
    if options.flash_attention is False and options.kv_type in KV_TYPES[3:]:
        raise ValueError("A quantised KV cache needs flash attention in llama.cpp.")
    return ("--cache-type-k", options.kv_type, "--cache-type-v", options.kv_type)


def _sampling_flags(options: LaunchOptions) -> Sequence[str]:
    """Return what is said; where the model file's own does not count, llama.cpp's usual values for the rest."""
    values = {**(USUAL_SAMPLING if options.sampling.is_all else {}), **options.sampling.explicit_values}
    return [word for name, flag in SAMPLING_FLAGS.items() if name in values for word in (flag, f"{values[name]:g}")]


def _batch_flags(options: LaunchOptions) -> Sequence[str]:
    size = options.max_batch_tokens or 0
    in_one_piece = ("--ubatch-size", str(size)) if size > _USUAL_UBATCH else ()
    return ("--batch-size", str(size), *in_one_piece)


TABLE = FlagTable(
    engine="llama.cpp",
    flags=(
        Flag(option="context", names=("--ctx-size", "-c"), say=_context_flags),
        Flag(option="slots", names=("--parallel", "-np"), say=_slot_flags),
        value_flag("threads", "--threads"),
        value_flag("gpu_layers", "--gpu-layers"),
        list_flag("device_ids", "--device"),
        list_flag("split_ratio", "--tensor-split"),
        list_flag("rpc_servers", "--rpc"),
        Flag(option="kv_type", names=("--cache-type-k", "--cache-type-v", "-ctk", "-ctv"), say=_cache_type_flags),
        value_flag("flash_attention", "--flash-attn", names={True: "on", False: "off"}),
        value_flag("cpu_moe_layers", "--n-cpu-moe"),
        Flag(
            option="draft",
            names=("--spec-type", "--spec-draft-model", "--spec-draft-n-max", "-md", *_NGRAM_SIZES),
            say=_draft_flags,
        ),
        list_flag("lora", "--lora"),
        value_flag("projector", "--mmproj"),
        Flag(option="sampling", names=tuple(SAMPLING_FLAGS.values()), say=_sampling_flags),
        task_flag({"chat": (), "embed": ("--embeddings",), "rerank": ("--rerank",)}),
        Flag(
            option="chat_template",
            names=("--chat-template-file", "--chat-template"),
            say=lambda _options: ("--chat-template-file", TEMPLATE),
        ),
        Flag(option="max_batch_tokens", names=("--batch-size", "-b", "--ubatch-size", "-ub"), say=_batch_flags),
        Flag(option="prefix_cache", names=("--cache-prompt",), say=lambda _options: ("--no-cache-prompt",)),
    ),
    reserved=frozenset(
        {"-m", "--model", "-mu", "--model-url", "-hf", "-hfr", "--hf-repo", "-hff", "--hf-file", "-hft", "--hf-token"}
        | {"-dr", "--docker-repo", "-a", "--alias", "--host", "--port", "--reuse-port", "--path", "--api-prefix"}
        | {"--api-key", "--api-key-file", "--ssl-key-file", "--ssl-cert-file", "--cors-origins", "--cors-methods"}
        | {"--cors-headers", "--cors-credentials", "--tools", "--tools-runtime", "-ag", "--agent", "--props"}
        | {"--mcp-servers-config", "--mcp-servers-json", "--ui-mcp-proxy", "--webui-mcp-proxy", "--media-path"}
        | {"--models-dir", "--models-preset", "--models-max", "--models-autoload", "--slot-save-path", "--log-file"}
        | {
            "--ui",
            "--webui",
            "--log-prompts-dir",
            "--log-jsonl",
            "--log-disable",
            "--threads-http",
            "-mmu",
            "--mmproj-url",
        }
        | {"-hfd", "-hfrd", "--spec-draft-hf", "--hf-repo-draft", "--sleep-idle-seconds", "--offline"}
    ),
    # Every argument has a variable LLAMA_ARG_..., also those that open doors: what is wanted is said as an argument.
    reserved_env=frozenset({KEY_VARIABLE, "LLAMA_SERVER_ROUTER_PORT", "LLAMA_ARG_*"}),
    takes_abbreviations=False,
)


def probe_program(place: EngineLocation, executable: Path) -> EngineInstallation | Failure:
    """Return what a program says about itself, or why it cannot be used: it may be any, named by a person."""
    output = answer_of((str(executable), "--version"))
    keep_in = place.folder if place.version else None  # beside a person's own program nothing is written
    flags = frozenset() if output.is_late else flags_of((str(executable), "--help"), keep_in, QUICK_S)
    if not flags >= _NEEDED:
        return _explain_unusable(output)
    return EngineInstallation(
        engine=DESCRIPTOR.id,
        version=place.version or version_in(output.text),
        backend=place.backend,
        executable=executable,
        flags=flags,
    )


def _explain_unusable(output: ProgramOutput) -> Failure:
    """Return why a program cannot serve: it says nothing, ends as broken ones do, or is something else."""
    if output.is_late:
        return Failure(
            kind=FailureKind.STALLED,
            sentence=f"It did not report its version within {QUICK_S:.0f} s.",
            hint="Run it with --version yourself to see what it is waiting for.",
        )
    lines = output.text.splitlines()
    suspicions = [suspicion for suspicion in map(READER.suspect, lines) if suspicion]
    if output.code and (suspicions or output.code < 0):
        return READER.explain(Exit(code=output.code, suspicions=suspicions, tail=lines, was_ready=False))
    return Failure(
        kind=FailureKind.NOT_INSTALLED,
        sentence=f"It is not a {DESCRIPTOR.program}: its help shows none of the expected options.",
        hint=f"Name a {DESCRIPTOR.program} of llama.cpp.",
    )


def version_in(text: str) -> str:
    """Return the build, e.g. "b11549", from what `--version` writes; older and own builds say less."""
    words = text.partition("version:")[2].split()
    if not words:
        return ""
    return f"b{words[0]}" if words[0].isdigit() else words[0]


def devices_of(executable: Path) -> tuple[str, ...]:
    """Return the devices a build can use, one line each; a GPU build without a driver names none, and runs slowly."""
    lines = output_of((str(executable), "--list-devices")).partition("Available devices:")[2].splitlines()
    return tuple(line.strip() for line in lines if ": " in line)


def plan_program(
    model: ModelSource, options: LaunchOptions, net: ListenOptions, installation: EngineInstallation
) -> LaunchPlan:
    """Return the program's process. Raises ValueError for options it cannot honour."""
    command_line = build_arguments(TABLE, options, installation)
    template = options.chat_template
    server = ProcessSpec(
        role="server",
        argv=(str(installation.executable), *_base_arguments(model, options, net, installation), *command_line.args),
        env={"LLAMA_SERVER_ROUTER_PORT": "1", **_library_environment(installation), **options.extra_env},
        secrets={KEY_VARIABLE: net.key},
        stdin_lifeline=True,
    )
    host = f"[{net.host}]" if ":" in net.host else net.host
    return LaunchPlan(
        processes=(server,),
        base_url=f"http://{host}:{net.port}",
        served_name=model.name,
        readiness=Readiness(interval_s=0.03),
        stop=StopPlan(how=SoftStop.STDIN_EOF if sys.platform == "win32" else SoftStop.SIGTERM, grace_s=5.0),
        files=(LaunchFile(name=TEMPLATE, content=template.encode()),) if template else (),
        context=options.context,
        slots=options.slots,
        left_out=command_line.left_out,
        keeps_states=_STATE_FLAG in installation.flags and keeps_states(options, net),
        stateless_reason=stateless_reason(options)
        or ("" if _STATE_FLAG in installation.flags else "This build of llama.cpp does not write what it has read."),
    )


def _base_arguments(
    model: ModelSource, options: LaunchOptions, net: ListenOptions, installation: EngineInstallation
) -> Sequence[str]:
    """Return what Roundhouse decides."""
    writes_states = _STATE_FLAG in installation.flags and keeps_states(options, net)
    flags = (
        *("--model", str(model.path), "--alias", model.name, "--host", net.host, "--port", str(net.port)),
        *("--parallel", str(options.slots), "--threads-http", str(options.slots + SPARE_HTTP_THREADS)),
        *((_STATE_FLAG, str(net.state_folder)) if writes_states else ()),
    )
    extras = [word for flag, values in _IF_THERE if flag in installation.flags for word in (flag, *values)]
    if options.task == "chat":
        return (*flags, *extras)
    # An input to embed must fit in one physical batch, and slots share a cache (see `worker`).
    batch, context = str(options.max_batch_tokens or options.context or 0), str(options.context or 0)
    shared_arguments = ("--kv-unified", *((_PER_SLOT, context) if _PER_SLOT in installation.flags else ()))
    return (
        *flags,
        *extras,
        *shared_arguments,
        *(("--ubatch-size", batch, "--batch-size", batch) if batch != "0" else ()),
    )


def _library_environment(installation: EngineInstallation) -> dict[str, str]:
    """Return what makes the loader find the libraries that came with the program, also CUDA's beside them."""
    if sys.platform != "linux" or installation.executable is None:
        return {}
    return {"LD_LIBRARY_PATH": str(installation.executable.parent)}
