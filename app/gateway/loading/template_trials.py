"""Chat templates tried before an engine has them, and what came of it.

A template is a program that came with a model. It is run in a child with limits (`engines.serving.template_trial`);
one that takes more than they allow is refused. A verdict costs a quarter of a second and is remembered by hash.
"""

import hashlib
import logging
import subprocess
import threading
from collections.abc import Sequence
from pathlib import Path

import msgspec

from app.confinement.command import launcher_command
from app.confinement.places import program_paths
from app.confinement.policy import PLAIN_DEVICES, PROGRAMS, SYSTEM_FACTS
from app.confinement.rules import ConfinementRules, LaunchOrder
from app.core.errors import BadRequest, EngineFailed, RoundhouseError
from app.gateway.advising.model_facts import FactsReader
from app.hub.gguf.header import MAX_TEMPLATE_BYTES
from app.supervisor.policy import LoadRequest
from engines.api import EngineInstallation, FailureKind
from engines.environment import engine_environment
from engines.worker_launch import own_python, worker_environment

log = logging.getLogger(__name__)

_MODULE = "engines.serving.template_trial"
_WALL_S = 60.0
"""A child that uses no processor waits for something: there is nothing to wait for."""
_MOST_BYTES = MAX_TEMPLATE_BYTES - 4
"""One that was cut lacks the rest of a character."""
_MOST_KEPT = 1000
_EDITION = b"2\n"
"""Changes when something else is tried, so that all are tried again."""


class TemplateVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """What came of a trial."""

    cost: str = ""
    """Why it takes too much, in a sentence; empty if it does not."""
    problem: str = ""
    """Why it cannot write one question, likewise."""
    says_content: bool = False
    """Whether the question was in what it wrote."""


class TemplateTrials:
    """Verdicts by hash, kept in a file. For threads; one trial at a time."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._lock = threading.Lock()
        self._verdicts: dict[str, TemplateVerdict] | None = None

    def try_templates(self, templates: Sequence[str]) -> TemplateVerdict:
        """Return the verdict on templates of one model, from memory if they were tried before. Takes seconds."""
        key = hashlib.sha256(_EDITION + msgspec.json.encode(templates)).hexdigest()
        with self._lock:
            verdicts = self._verdicts = self._read_file() if self._verdicts is None else self._verdicts
            if key not in verdicts:
                verdicts[key] = _run_trial(templates)
                self._write_file(verdicts)
            return verdicts[key]

    def _read_file(self) -> dict[str, TemplateVerdict]:
        try:
            return msgspec.json.decode(self._file.read_bytes(), type=dict[str, TemplateVerdict])
        except (OSError, msgspec.DecodeError):
            return {}

    def _write_file(self, verdicts: dict[str, TemplateVerdict]) -> None:
        while len(verdicts) > _MOST_KEPT:
            del verdicts[next(iter(verdicts))]
        try:
            self._file.write_bytes(msgspec.json.encode(verdicts))
        except OSError as error:  # it is tried again after a restart
            log.info("Verdicts on chat templates cannot be kept: %s", error)


def check_template_of(trials: TemplateTrials, facts: FactsReader, load: LoadRequest) -> None:
    """Return if the template that a load would use is fit to be run. Raises EngineFailed (bad_template)."""
    templates = _templates_of(facts, load)
    if not templates:
        return
    verdict = trials.try_templates(templates)
    if verdict.cost:
        raise EngineFailed(
            verdict.cost,
            hint="Choose another upload of this model, or give it another template in its settings.",
            code=FailureKind.BAD_TEMPLATE,
        )


def check_new_template(trials: TemplateTrials, text: str) -> None:
    """Return if a template from a person or a client can be run and says what was asked. Raises BadRequest."""
    verdict = trials.try_templates([text])
    if verdict.cost or verdict.problem:
        raise BadRequest(f"This is not a chat template: {verdict.cost or verdict.problem}", code="bad_template")
    if not verdict.says_content:
        raise BadRequest(
            "The chat template leaves out the messages' content.",
            hint="It must write the content of each message, as in {{ message.content }}.",
            code="bad_template",
        )


def _templates_of(reader: FactsReader, load: LoadRequest) -> list[str]:
    if load.options.chat_template:
        return [load.options.chat_template]
    try:
        facts = reader.read(load.source.path)
    except (RoundhouseError, OSError):  # the engine says what is wrong with the file
        return []
    return [template for template in (facts.chat_template, facts.tool_template) if template.strip()]


def _trial_order() -> LaunchOrder:
    """Return how a trial is started: it reads its own program, and reaches nothing else."""
    python, environment = own_python(), {**engine_environment(), **worker_environment()}
    installation = EngineInstallation(engine="", version="", backend="cpu", python=python)
    root = environment["PYTHONPATH"]
    rules = ConfinementRules(
        list=(root,),
        read=SYSTEM_FACTS,
        run=(*PROGRAMS, f"{root}/engines", *program_paths(installation, {})),
        devices=PLAIN_DEVICES,
        tasks=_TASKS,
    )
    return LaunchOrder(argv=(str(python), "-P", "-m", _MODULE), env=environment, cwd=root, confinement=rules)


_TASKS = 16
"""A trial has one thread, and starts nothing."""


def _run_trial(templates: Sequence[str]) -> TemplateVerdict:
    from engines.serving.template_trial import CPU_S, MEMORY_BYTES  # noqa: PLC0415 -- the gateway starts without it

    if any(len(template.encode()) >= _MOST_BYTES for template in templates):  # what is longer was cut
        return TemplateVerdict(cost=f"The chat template has {_MOST_BYTES:,} bytes or more.")
    try:
        with launcher_command(_trial_order()) as command:
            trial = subprocess.run(
                command.argv,
                input=msgspec.json.encode(templates),
                capture_output=True,
                timeout=_WALL_S,
                check=True,
                env=command.env,
                pass_fds=command.descriptors,
            )
        return msgspec.json.decode(trial.stdout, type=TemplateVerdict)
    except (OSError, subprocess.SubprocessError, msgspec.DecodeError) as error:
        log.info("A chat template did not survive its trial: %s", error)
        return TemplateVerdict(
            cost=f"The chat template takes more than {CPU_S} seconds of the processor or {MEMORY_BYTES >> 20} MiB."
        )
