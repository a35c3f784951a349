"""Why any engine ended, said for a person: which lines name a cause, which codes settle it, and what to do about it.

Lines are read one by one as they come, own clues of an engine before those that libraries and systems share. The first
suspicion is the root: what follows a first error are its consequences. Only vague ones yield to a later, plainer one.

The exception that began it all, out of a log in which several processes wrote tracebacks over each other.

Which version of an engine knows a kind of model: data in `architectures.toml`, from the engines' own sources.
"""

import re
import tomllib
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from types import MappingProxyType

import msgspec

from engines.api import Exit, Failure, FailureKind, Suspicion
from engines.clues import GENERIC, HARMLESS, Clue
from engines.failure_texts import FAILURE_TEXTS, FailureText, find_specific_text
from engines.remedies import RemedyOptions, Shortage, list_remedies, shortage_of
from engines.worker_base import ExitCode

_K = FailureKind
EVIDENCE_CHARS = 400

_VAGUE = frozenset({_K.BACKEND_CRASH, _K.CRASHED, _K.KILLED, _K.STALLED, _K.MISSING_LIBRARY})
"""Kinds that often follow from another: a failed allocation is reported as a CUDA error too."""
_ALLOCATIONS = frozenset({_K.OUT_OF_MEMORY, _K.OUT_OF_GPU_MEMORY})

_CERTAIN: Mapping[int, FailureKind] = MappingProxyType(
    {
        ExitCode.LOST_PARENT: _K.LOST_PARENT,
        ExitCode.BAD_CONFIG: _K.BAD_FLAG,
        ExitCode.MISSING_PACKAGE: _K.MISSING_LIBRARY,
        -4: _K.ILLEGAL_INSTRUCTION,
        0xC000001D: _K.ILLEGAL_INSTRUCTION,
        0xC0000135: _K.MISSING_LIBRARY,
        0xC0000139: _K.MISSING_LIBRARY,
    }
)
"""Exit codes that settle the matter whatever the log says (negative: POSIX signals; 0xC...: Windows NTSTATUS)."""

_SUGGESTED: Mapping[int, FailureKind] = MappingProxyType(
    {
        **dict.fromkeys((-11, -7, -10, -6, -8, 0xC0000005, 0xC0000409, 0xC00000FD, 0xC0000374), _K.CRASHED),
        **dict.fromkeys((-9, -15, -2, -1, 0xC000013A), _K.KILLED),
        **dict.fromkeys((0xC0000017, 0xC000012D), _K.OUT_OF_MEMORY),
        **dict.fromkeys((127, 0xC0000142), _K.MISSING_LIBRARY),
    }
)
"""What a code means where no line tells more.

SIGSEGV, SIGBUS (Linux, macOS), SIGABRT, SIGFPE; access violation, fail-fast, stack overflow, corrupted heap; SIGKILL,
SIGTERM, SIGINT, SIGHUP and Ctrl-C that the supervisor did not send; no memory, no room in the paging file; and how the
loaders end when a library is missing or does not start.
"""


class SurvivableClue(msgspec.Struct, frozen=True):
    """A clue in a line after which an engine goes on, and how, as a sentence."""

    clue: Clue
    sentence: str


class FailureReader(msgspec.Struct, frozen=True, kw_only=True):
    """How one engine's ends are read: its name in sentences, own clues and words, and which options can mend."""

    name: str
    means: RemedyOptions
    clues: tuple[Clue, ...] = ()
    survived: tuple[SurvivableClue, ...] = ()
    texts: Mapping[FailureKind, FailureText] = MappingProxyType({})

    def suspect(self, line: str) -> Suspicion | None:
        """Return what a line gives away; most give nothing."""
        evidence = line.strip()[:EVIDENCE_CHARS]
        for survivable in self.survived:
            kind, pattern = survivable.clue
            if pattern.search(line):
                return Suspicion(kind=kind, line=evidence, survived=survivable.sentence)
        kind_in_line = None if HARMLESS.search(line) else _kind_in(line, (*self.clues, *GENERIC))
        return None if kind_in_line is None else Suspicion(kind=kind_in_line, line=evidence)

    def explain(self, end: Exit) -> Failure:
        """Name the cause, show the line that gives it away, and say what may help."""
        kind, evidence = _cause(end)
        text = find_specific_text(kind, evidence) or self.texts.get(kind) or FAILURE_TEXTS[kind]
        shortage = shortage_of([evidence, *(suspicion.line for suspicion in end.suspicions), *end.tail])
        return Failure(
            kind=kind,
            sentence=text.sentence.format(engine=self.name) + self._detail_sentences(kind, evidence, shortage),
            hint=text.hint.format(engine=self.name),
            evidence=evidence[:EVIDENCE_CHARS],
            remedies=list_remedies(kind, end.options, shortage, self.means),
        )

    def _detail_sentences(self, kind: FailureKind, evidence: str, shortage: Shortage) -> str:
        """Return the figures or names that the log gave, as sentences to follow the first."""
        if kind in _MEMORY:
            return shortage.describe_figures()
        return describe_unknown_architecture(self.name, evidence) if kind is _K.MODEL_UNSUPPORTED else ""


def _kind_in(line: str, clues: Sequence[Clue]) -> FailureKind | None:
    return next((kind for kind, pattern in clues if pattern.search(line)), None)


_SHELL = 128
"""A shell, and so a container, ends with this plus the signal's number."""
_SIGTERM = 15
_MEMORY = _ALLOCATIONS | {_K.CONTEXT_TOO_LARGE}


def _cause(end: Exit) -> tuple[FailureKind, str]:
    code = _normalize_code(end.code)
    certain = _CERTAIN.get(code)
    if certain:
        return certain, _line_of(certain, end.suspicions) or root_cause(end.tail)
    unsurvived_suspicions = _drop_survived(end.suspicions)
    suggested_remedies = _SUGGESTED.get(code)
    if suggested_remedies and not unsurvived_suspicions:
        return suggested_remedies, root_cause(end.tail)
    if end.suspicions:
        first = _pick_suspicion(unsurvived_suspicions or end.suspicions)
        return first.kind, first.line
    return _K.UNKNOWN, root_cause(end.tail)


def _drop_survived(suspicions: Sequence[Suspicion]) -> list[Suspicion]:
    """Return what the engine did not get past: memory it did without counts no more, nor what led there."""
    remaining_suspicions: list[Suspicion] = []
    for suspicion in suspicions:
        if not suspicion.survived:
            remaining_suspicions.append(suspicion)
        elif suspicion.kind in _MEMORY:
            remaining_suspicions = [before for before in remaining_suspicions if before.kind not in _MEMORY]
    return remaining_suspicions


def _line_of(kind: FailureKind, suspicions: Sequence[Suspicion]) -> str:
    return next((suspicion.line for suspicion in suspicions if suspicion.kind is kind), "")


def _pick_suspicion(suspicions: Sequence[Suspicion]) -> Suspicion:
    """Return the first plain suspicion, but the context where it is named after the allocation that failed."""
    first = next((suspicion for suspicion in suspicions if suspicion.kind not in _VAGUE), suspicions[0])
    if first.kind in _ALLOCATIONS:
        return next((suspicion for suspicion in suspicions if suspicion.kind is _K.CONTEXT_TOO_LARGE), first)
    return first


def _normalize_code(code: int | None) -> int:
    """Return the code as tables have it: NTSTATUS positive, signals negative, also where a shell made 128+n of one."""
    if code is None:
        return 0
    if code < -(2**16):
        return code + 2**32
    return _SHELL - code if _SHELL < code <= _SHELL + _SIGTERM else code


_BEGINS = re.compile(r"Traceback \(most recent call last\)")
_PREFIX = re.compile(
    r"^(\((?P<who>[^)]*)\)\s*)?((ERROR|CRITICAL)\s[\d-]+ [\d:]+\s\[[^\]]*\]\s?|\[[^\]]*\]\s|\d{4}-\S+ \S+ - ERROR - )?"
)
"""Who wrote a line and when, as vLLM, SGLang and Python's logging put it."""
_EXCEPTION = re.compile(r"^(?P<name>[A-Za-z_][\w.]*(Error|Exception|Interrupt|Exit|Fault|Failure)\w*)(: .*)?$")

_WORKER = "worker: "
"""How `worker_base` begins what it ends with."""


def root_cause(lines: Sequence[str]) -> str:
    """Return the last line of the first traceback, e.g. "ValueError: no", or a worker's last word; else nothing."""
    plain = [_PREFIX.sub("", line, count=1).rstrip() for line in lines]
    begin_line = next((number for number, line in enumerate(plain) if _BEGINS.search(line)), None)
    if begin_line is None:
        return next((line for line in plain if line.startswith(_WORKER)), "")
    return next((line for line in plain[begin_line + 1 :] if _EXCEPTION.match(line)), "")


_NAMES = (
    re.compile(r"unknown model architecture: '([^']+)'", re.IGNORECASE),
    re.compile(r"model type `?([\w.-]+)`? (?:is )?not supported", re.IGNORECASE),
    re.compile(r"has model type `([^`]+)` but transformers", re.IGNORECASE),
    re.compile(r"architectures:? \['?(\w+)'?", re.IGNORECASE),
    re.compile(r"model architecture (\w+) (?:was|is not) supported", re.IGNORECASE),
    re.compile(r"'(\w+)' is not a registered model", re.IGNORECASE),
    re.compile(r"unknown architecture for \w+: (\w+)", re.IGNORECASE),
    re.compile(r"unknown model type: ([\w.-]+)", re.IGNORECASE),
)


def architecture_in(line: str) -> str:
    """Return the kind of model that a log line says is unknown; empty where it names none."""
    return next((match[1].rstrip(".") for pattern in _NAMES if (match := pattern.search(line))), "")


def describe_unknown_architecture(engine: str, line: str) -> str:
    """Return sentences that name the kind of model and the version that knows it, to follow the first; or nothing."""
    name = architecture_in(line)
    if not name:
        return ""
    version = find_knowing_version(engine, name)
    knowing_note = f" {engine} {version} knows it." if version else ""
    return f" It is of the kind “{name}”.{knowing_note}"


def find_knowing_version(engine: str, name: str) -> str:
    """Return the version of an engine that is known to know a kind of model; empty where none is."""
    version, knows = _load_architectures().get(engine, ("", frozenset()))
    return version if name in knows else ""


@cache
def _load_architectures() -> dict[str, tuple[str, frozenset[str]]]:
    tables = tomllib.loads((Path(__file__).parent / "architectures.toml").read_text(encoding="utf-8"))
    return {engine: (row["version"], frozenset(row["knows"].split())) for engine, row in tables.items()}
