"""What is tried on a card: each part one engine with the Guide, or the sentence that says why not."""

import dataclasses
import difflib
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from engines.api import EngineInstallation, EngineLocation, LaunchOptions, ModelFormat, ModelSource
from engines.registry import ADAPTERS
from engines.worker_launch import worker_process
from tests.gpu.confined import order_process, run_order
from tests.gpu.places import ROOT, Interpreter, with_wheels
from tests.gpu.serving import Answers, EngineEnded, ask_engine

EXPECTED = (
    "Roundhouse is a desktop app for local AI. It looks at your machine, picks the engine that suits it, runs it,"
)
"""How the Guide begins its answer on a processor, greedily."""
ALIKE = 0.6
"""Other engines round otherwise; nonsense shares less than a third."""
LEAST_S = 30.0
"""With less time left nothing more is begun."""
BITS = 4.0
_HEAD_BITS = 6
GUIDE = ROOT / "resources" / "guide"
_CONTEXT = 2048
_LARGE_CONTEXT = 8192
_SLOTS = 8
_HELP_S = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class PartResult:
    """What became of one part: `state` is "ran", "failed" or "skipped", `sentence` why, `answers` what it measured."""

    name: str
    state: str
    sentence: str = ""
    version: str = ""
    answers: Answers | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """What parts choose from, and until when (by the monotonic clock) they may take."""

    interpreters: Sequence[Interpreter]
    deadline: float
    has_card: bool = True
    program: str = ""
    """A llama-server."""

    @property
    def left_s(self) -> float:
        """How much time is left."""
        return self.deadline - time.monotonic()


Part = Callable[[Machine], PartResult]


def run_parts(machine: Machine, parts: Sequence[tuple[str, Part]]) -> Iterator[PartResult]:
    """Try each part and yield what came of it at once; what fails says so, and the others go on."""
    for name, part in parts:
        yield _run_part(machine, name, part)


def _run_part(machine: Machine, name: str, part: Part) -> PartResult:
    if not machine.has_card:
        return PartResult(name=name, state="skipped", sentence="There is no NVIDIA card here (nvidia-smi lists none).")
    if machine.left_s < LEAST_S:
        return PartResult(name=name, state="skipped", sentence="There was no time left.")
    try:
        return part(machine)
    except (EngineEnded, ValueError, OSError, subprocess.SubprocessError) as error:
        return PartResult(name=name, state="failed", sentence=f"{type(error).__name__}: {error}")


def try_llama_cpp(machine: Machine) -> PartResult:
    """Run the Guide wholly on the card with llama-server."""
    name = "llama.cpp"
    if not machine.program:
        return _skip(name, "There is no llama-server on PATH (or in ROUNDHOUSE_GPU_LLAMA_SERVER).")
    listing = subprocess.run(
        [machine.program, "--list-devices"], capture_output=True, text=True, check=False, timeout=_HELP_S
    )
    if "CUDA" not in listing.stdout + listing.stderr:
        return _skip(name, f"{machine.program} was built without CUDA, or sees no card.")
    place = EngineLocation(
        folder=Path(machine.program).parent, version="", backend="cuda", executable=Path(machine.program)
    )
    installation = ADAPTERS[name].probe(place)
    if not isinstance(installation, EngineInstallation):
        return _skip(name, installation.sentence)
    source = ModelSource(name="guide", path=GUIDE / "guide-q8_0.gguf", format=ModelFormat.GGUF)
    return _try_engine(machine, installation, source, LaunchOptions(context=_CONTEXT, slots=_SLOTS, gpu_layers=99))


def engine_part(engine: str, package: str, form: ModelFormat) -> Part:
    """Return the part that runs the Guide's Hugging Face folder with an engine in one of the interpreters."""

    def try_engine_part(machine: Machine) -> PartResult:
        interpreter = _interpreter_with(machine, package)
        if isinstance(interpreter, str):
            return _skip(engine, interpreter)
        installation = _installation(engine, package, interpreter)
        source = ModelSource(name="guide", path=GUIDE / "hf", format=form)
        return _try_engine(machine, installation, source, LaunchOptions(context=_CONTEXT, slots=_SLOTS))

    return try_engine_part


def try_quantising(machine: Machine) -> PartResult:
    """Make EXL3 of the Guide by our own child around the library's converter, and run what came of it."""
    name = "exllamav3, quantised here"
    interpreter = _interpreter_with(machine, "exllamav3")
    if isinstance(interpreter, str):
        return _skip(name, interpreter)
    with tempfile.TemporaryDirectory(prefix="roundhouse-exl3-") as folder:
        output = Path(folder) / "made"
        order = {
            "model": str(GUIDE / "hf"),
            "out": str(output),
            "work": f"{folder}/work",
            "bits": BITS,
            "head_bits": _HEAD_BITS,
            "checkpoint_s": 120,
            "resumes": False,
        }
        installation = _installation("exllamav3", "exllamav3", interpreter)
        words = _run_quantizer(installation, order, Path(folder), max(LEAST_S, machine.left_s / 2))
        if not (output / "config.json").exists():
            return PartResult(name=name, state="failed", sentence=f"The converter ended with {words}")
        source = ModelSource(name="guide", path=output, format=ModelFormat.EXL3)
        options = LaunchOptions(context=_CONTEXT, slots=_SLOTS)
        result = _try_engine(machine, installation, source, options, alike=0.0)
        return dataclasses.replace(result, name=name)


def try_random_model(machine: Machine) -> PartResult:
    """Run EXL3 of the shape of a Llama 8B with random weights, for a model of this size's memory and speed."""
    name = "exllamav3, 8B at 4 bits, random"
    interpreter = _interpreter_with(machine, "exllamav3")
    if isinstance(interpreter, str):
        return _skip(name, interpreter)
    with tempfile.TemporaryDirectory(prefix="roundhouse-random-") as folder:
        environment = with_wheels(os.environ)
        path = os.pathsep.join((str(ROOT), environment["PYTHONPATH"]))
        subprocess.run(
            [str(interpreter.path), "-m", "tests.gpu.random_model", folder],
            check=True,
            timeout=max(LEAST_S, machine.left_s / 2),
            env={**environment, "PYTHONPATH": path},
        )
        source = ModelSource(name="random", path=Path(folder), format=ModelFormat.EXL3)
        installation = _installation("exllamav3", "exllamav3", interpreter)
        options = LaunchOptions(context=_LARGE_CONTEXT, slots=_SLOTS)
        result = _try_engine(machine, installation, source, options, alike=0.0)
        return dataclasses.replace(result, name=name)


PARTS: tuple[tuple[str, Part], ...] = (
    ("llama.cpp", try_llama_cpp),
    ("exllamav3", engine_part("exllamav3", "exllamav3", ModelFormat.EXL3)),
    ("exllamav3, quantised here", try_quantising),
    ("exllamav3, 8B at 4 bits, random", try_random_model),
    ("exllamav2", engine_part("exllamav2", "exllamav2", ModelFormat.EXL2)),
    ("vllm", engine_part("vllm", "vllm", ModelFormat.SAFETENSORS)),
    ("sglang", engine_part("sglang", "sglang", ModelFormat.SAFETENSORS)),
)
"""In the order in which they are tried: those first that need least time. Both ExLlamas read 16-bit folders too."""


def find_program(environment: dict[str, str]) -> str:
    """Return the llama-server to try; empty for none."""
    return environment.get("ROUNDHOUSE_GPU_LLAMA_SERVER") or shutil.which("llama-server") or ""


def _interpreter_with(machine: Machine, package: str) -> Interpreter | str:
    """Return an interpreter that has a package and sees the card, or a sentence about why there is none."""
    candidates = [interpreter for interpreter in machine.interpreters if package in interpreter.packages]
    if not candidates:
        return f"No interpreter here has {package} ({_count(machine.interpreters)} were looked into)."
    choice = next((interpreter for interpreter in candidates if interpreter.sees_card), None)
    return choice or f"{package} is in {candidates[0].path}, but PyTorch sees no card there."


def _count(interpreters: Sequence[Interpreter]) -> str:
    return f"{len(interpreters)} interpreters"


def _run_quantizer(installation: EngineInstallation, order: dict[str, object], folder: Path, within_s: float) -> str:
    """Run our child for quantising to its end; return its last words. It ends by itself when its input does."""
    spec = worker_process(installation, "engines.exllama.quantize", order, "", env={})
    source = ModelSource(name="guide", path=GUIDE / "hf", format=ModelFormat.SAFETENSORS)
    launch = order_process(
        ADAPTERS[installation.engine].descriptor,
        source,
        LaunchOptions(),
        installation,
        spec=spec,
        folder=folder,
        port=1,
        writes=(folder,),
    )
    with tempfile.TemporaryFile() as log, run_order(launch, log) as process:
        try:
            process.wait(within_s)
        finally:
            process.kill()
        log.seek(0)
        words = log.read().decode(errors="replace").strip().splitlines()[-4:]
        return f"code {process.returncode}, {' / '.join(words)}"


def _installation(engine: str, package: str, interpreter: Interpreter) -> EngineInstallation:
    version = interpreter.packages[package]
    return EngineInstallation(engine=engine, version=version, backend="cuda", python=interpreter.path)


def _try_engine(
    machine: Machine,
    installation: EngineInstallation,
    source: ModelSource,
    options: LaunchOptions,
    *,
    alike: float = ALIKE,
) -> PartResult:
    engine = installation.engine
    answers = ask_engine(ADAPTERS[engine], installation, source, options, max(LEAST_S, machine.left_s - LEAST_S))
    share = difflib.SequenceMatcher(None, answers.text[: len(EXPECTED)], EXPECTED).ratio()
    is_right = share >= alike
    sentence = "" if is_right else f"It answered something else: {answers.text[:80]!r}"
    state = "ran" if is_right else "failed"
    return PartResult(name=engine, state=state, sentence=sentence, version=installation.version, answers=answers)


def _skip(name: str, sentence: str) -> PartResult:
    return PartResult(name=name, state="skipped", sentence=sentence)
