"""From generic options to one engine's command line, through a table: option -> flag, since which version, what if not.

Nothing is passed over in silence. An option without a row is refused with a sentence; so is one whose flag the
installed version lacks, unless the engine runs as well without it: then it is left out, and the plan says so. Extra
arguments may add to a launch, but not take over what Roundhouse decides (`reserved`).
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from types import MappingProxyType
from typing import Any, Protocol, runtime_checkable

import msgspec

from engines.api import Descriptor, EngineInstallation, LaunchOptions, OmittedOption

WORDS: Mapping[str, str] = MappingProxyType(
    {
        "context": "the length of the context",
        "slots": "the number of requests at once",
        "threads": "the number of threads",
        "gpu_layers": "the number of layers on the GPU",
        "device_ids": "the choice of devices",
        "device_bytes": "how much of each device may be filled",
        "tensor_parallel": "tensor parallelism",
        "pipeline_parallel": "pipeline parallelism",
        "split_ratio": "a split between devices",
        "kv_type": "the type of the KV cache",
        "flash_attention": "flash attention",
        "gpu_memory_fraction": "a share of GPU memory",
        "cpu_moe_layers": "experts in system memory",
        "draft": "a draft model",
        "lora": "LoRA adapters",
        "projector": "a projector",
        "sampling": "default sampling for requests",
        "task": "a task other than chat",
        "chat_template": "another chat template",
        "tool_parser": "a parser of tool calls",
        "reasoning_parser": "a parser of reasoning",
        "max_batch_tokens": "the size of a batch",
        "prefix_cache": "turning off the prefix cache",
        "trust_remote_code": "running a model's own code",
        "rpc_servers": "layers on other machines",
        "node": "a process on each of several computers",
        "traces_url": "traces of its own",
    }
)
"""Every option that maps to flags, as sentences name it. `extra_args` and `extra_env` are passed on."""

_UNSET = LaunchOptions()
_FLAG = re.compile(r"(?:^|[\s,\[(|])(--?[A-Za-z][\w-]*)")

Say = Callable[[LaunchOptions], Sequence[str]]


class Flag(msgspec.Struct, frozen=True, kw_only=True):
    """One row: what an option is on the command line. `since` and `until` count where nobody could probe the flags."""

    option: str
    names: tuple[str, ...]
    """Every spelling `say` may use; extra arguments may not use them beside it."""
    say: Say
    """Options in, arguments out. Raises ValueError with a sentence for a value the engine does not know."""
    since: str = ""
    until: str = ""
    """The last version that has it."""
    renamed: Mapping[str, str] = {}
    """What newer versions call a flag, where their help names it so."""
    can_do_without: bool = False
    """Left out, with a word about it, where the installed version lacks it."""


class FlagTable(msgspec.Struct, frozen=True, kw_only=True):
    """All rows of one engine, and what extra arguments and environment may not touch."""

    engine: str
    flags: tuple[Flag, ...]
    reserved: frozenset[str]
    reserved_env: frozenset[str] = frozenset()
    """Names, also with * for any ending."""
    takes_abbreviations: bool = True
    """argparse takes --por for --port, -t for -tp, and -p8000 for -p 8000."""


@runtime_checkable
class TakesFlags(Protocol):
    """An adapter whose engine is told its options on a command line."""

    @property
    def flag_table(self) -> FlagTable:
        """How options become its flags."""


class CommandLine(msgspec.Struct, frozen=True, kw_only=True):
    """What came of the options."""

    args: tuple[str, ...]
    left_out: tuple[OmittedOption, ...] = ()


def value_flag(option: str, flag: str, *, names: Mapping[Any, str] | None = None, **more: Any) -> Flag:  # noqa: ANN401 -- fields of Flag
    """Return a row that says `flag` and the value; `names` are the engine's words for values, and all it takes."""

    def say(options: LaunchOptions) -> Sequence[str]:
        chosen_value = getattr(options, option)
        if names is None:
            return (flag, str(chosen_value))
        if chosen_value not in names:
            known_names = ", ".join(str(name) for name in names)
            raise ValueError(f"{WORDS[option].capitalize()} can be one of {known_names} here, not {chosen_value}.")
        return (flag, names[chosen_value]) if names[chosen_value] else ()

    return Flag(option=option, names=(flag,), say=say, **more)


def switch_flag(option: str, *, on: str = "", off: str = "", **more: Any) -> Flag:  # noqa: ANN401 -- fields of Flag
    """Return a row that says one flag for true, another (or none) for false."""

    def say(options: LaunchOptions) -> Sequence[str]:
        flag = on if getattr(options, option) else off
        return (flag,) if flag else ()

    return Flag(option=option, names=tuple(filter(None, (on, off))), say=say, **more)


def list_flag(option: str, flag: str, **more: Any) -> Flag:  # noqa: ANN401 -- fields of Flag
    """Return a row that says a flag and all values joined by commas."""
    return Flag(
        option=option,
        names=(flag,),
        say=lambda options: (
            flag,
            ",".join(f"{entry:g}" if isinstance(entry, float) else str(entry) for entry in getattr(options, option)),
        ),
        **more,
    )


def lora_flag(flag: str, *before: str) -> Flag:
    """Return a row that says LoRA adapters as name=path, each named after its folder or file."""
    return Flag(
        option="lora",
        names=(*before, flag),
        say=lambda options: (*before, flag, *(f"{path.stem}={path}" for path in options.lora)),
    )


def task_flag(words_by_task: Mapping[str, tuple[str, ...]]) -> Flag:
    """Return a row for tasks: what is said for each one it knows."""

    def say(options: LaunchOptions) -> Sequence[str]:
        if options.task not in words_by_task:
            raise ValueError(f"This engine knows the tasks {', '.join(words_by_task)}, not {options.task}.")
        return words_by_task[options.task]

    names = {word for words in words_by_task.values() for word in words if word.startswith("-")}
    return Flag(option="task", names=tuple(sorted(names)), say=say)


def no_flag(option: str, *names: str) -> Flag:
    """Return a row for an option that is honoured by other means: the environment, a file, or the engine itself."""
    return Flag(option=option, names=names, say=lambda _options: ())


def build_arguments(table: FlagTable, options: LaunchOptions, installation: EngineInstallation) -> CommandLine:
    """Return the command line for options. Raises ValueError with a sentence for what cannot be honoured."""
    _check_sizes(options)
    _refuse_unknown(table, options)
    args: list[str] = []
    left_out: list[OmittedOption] = []
    for flag in table.flags:
        if getattr(options, flag.option) == getattr(_UNSET, flag.option):
            continue
        words = tuple(_spell_flag(flag, word, installation) for word in flag.say(options))
        missing_flag = _first_missing_flag(flag, words, installation)
        if not missing_flag:
            args += words
        elif flag.can_do_without:
            left_out.append(
                OmittedOption(
                    option=flag.option, sentence=_absent_flag_sentence(table, flag.option, missing_flag, installation)
                )
            )
        else:
            raise ValueError(_absent_flag_sentence(table, flag.option, missing_flag, installation))
    return CommandLine(args=(*args, *check_extra_arguments(table, options, installation)), left_out=tuple(left_out))


def trace_arguments(about: Descriptor, options: LaunchOptions, installation: EngineInstallation) -> CommandLine:
    """Return what has an engine send traces of its own, unless extra arguments say where; it runs as well without."""
    flag, is_chosen = about.traces_flag, any(word.partition("=")[0] == about.traces_flag for word in options.extra_args)
    if not flag or not options.traces_url or is_chosen:
        return CommandLine(args=())
    if flag in installation.flags:
        return CommandLine(args=(flag, options.traces_url))
    sentence = f"{about.name} {installation.version} is not known to have {flag}, so it sends no traces of its own."
    return CommandLine(args=(), left_out=(OmittedOption(option="traces_url", sentence=sentence),))


def trace_environment(about: Descriptor, options: LaunchOptions) -> Mapping[str, str]:
    """Return what has OpenTelemetry's own exporters speak HTTP, and say whose spans they are."""
    if not about.traces_flag or not options.traces_url:
        return {}
    return {"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "http/protobuf", "OTEL_SERVICE_NAME": about.id}


def flags_in(text: str) -> frozenset[str]:
    """Return the flags a help text explains. llama.cpp goes on naming those it has removed, to say so."""
    entries = re.split(r"\n(?=\s{0,10}-)", text)
    return frozenset(flag for entry in entries if "has been removed" not in entry for flag in _FLAG.findall(entry))


def check_extra_arguments(
    table: FlagTable, options: LaunchOptions, installation: EngineInstallation
) -> tuple[str, ...]:
    """Return the extra arguments. Raises ValueError for reserved ones and ones the installed version does not know."""
    for name in options.extra_env:
        if any(fnmatchcase(name.upper(), reserved_name) for reserved_name in table.reserved_env):
            raise ValueError(f"The variable {name} is Roundhouse's to set for {table.engine}.")
    for flag in _extra_flags(options.extra_args):
        if _is_reserved(flag, table):
            raise ValueError(f"The argument {flag} is Roundhouse's to set for {table.engine}.")
        if installation.flags and _canonical_flag(flag) not in {
            _canonical_flag(known_flag) for known_flag in installation.flags
        }:
            raise ValueError(f"{table.engine} {installation.version} has no argument {flag}.")
    return options.extra_args


def _extra_flags(extra: Sequence[str]) -> Iterator[str]:
    """Yield the flags among extra arguments. Raises ValueError for a value that belongs to none."""
    for before, word in zip(("", *extra), extra, strict=False):
        is_flag = word.startswith("-") and not _is_number(word)
        if is_flag and re.search(r"\s", word.partition("=")[0]):
            raise ValueError(f"Each extra argument must be one word, as in --seed=7: {word}.")
        if word == "--" or (not is_flag and not before.startswith("-")):
            raise ValueError(f"An extra argument must begin with a dash: {word}.")
        if is_flag:
            yield word.partition("=")[0]


def _is_number(token: str) -> bool:
    return bool(re.fullmatch(r"-\d+(\.\d+)?", token))


def _is_reserved(argument: str, table: FlagTable) -> bool:
    name = _canonical_flag(argument)
    rows = (name for flag in table.flags for name in (*flag.names, *flag.renamed.values()))
    for reserved_flag in map(_canonical_flag, (*table.reserved, *rows)):
        is_joined = not name.startswith("--") and name.startswith(reserved_flag)
        if name == reserved_flag or (table.takes_abbreviations and (reserved_flag.startswith(name) or is_joined)):
            return True
    return False


def _canonical_flag(flag: str) -> str:
    """Return a flag in one spelling: several engines take underscores for dashes, vLLM --a.b for a field of --a."""
    return flag.partition(".")[0].replace("_", "-") if flag.startswith("--") else flag


def _check_sizes(options: LaunchOptions) -> None:
    if options.slots < 1:
        raise ValueError("A model needs at least one slot.")
    if options.context is not None and options.context < 1:
        raise ValueError("A context needs at least one token.")


def _refuse_unknown(table: FlagTable, options: LaunchOptions) -> None:
    rows = {flag.option for flag in table.flags}
    for option, words in WORDS.items():
        if option not in rows and getattr(options, option) != getattr(_UNSET, option):
            raise ValueError(f"{table.engine} has no setting for {words}.")


def _spell_flag(flag: Flag, word: str, installation: EngineInstallation) -> str:
    newer = flag.renamed.get(word, word)
    return newer if newer in installation.flags else word


def _first_missing_flag(flag: Flag, words: Sequence[str], installation: EngineInstallation) -> str:
    """Return the first flag that the installed version lacks; empty when it has all."""
    flag_words = [token for token in words if re.match(r"--?[A-Za-z]", token)]
    if installation.flags:
        return next((name for name in flag_words if name not in installation.flags), "")
    if not installation.version:  # not installed yet: the version that will be is not known
        return ""
    is_too_old = flag.since and _version(installation.version) < _version(flag.since)
    is_too_new = flag.until and _version(installation.version) > _version(flag.until)
    return flag_words[0] if flag_words and (is_too_old or is_too_new) else ""


def _absent_flag_sentence(table: FlagTable, option: str, missing_flag: str, installation: EngineInstallation) -> str:
    return f"{table.engine} {installation.version} has no {missing_flag}, so {WORDS[option]} cannot be set."


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", text.partition("+")[0]))
