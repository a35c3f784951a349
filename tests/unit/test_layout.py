"""The layout holds: who may import whom, no circles, and ceilings on the size of functions and files."""

import ast
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from statistics import median
from typing import NamedTuple

import pytest

pytestmark = pytest.mark.slow  # `make check` runs them

ROOT = Path(__file__).resolve().parents[2]
CODE = ("app", "engines")

LOW = {"core"}
PARTS = {
    *("network", "supervisor", "engine_store", "hub", "store", "hardware", "advisor", "config", "connect"),
    *("updates", "confinement", "extraction", "documents", "guide", "machines"),
}
MAY_IMPORT = {
    "core": set(),
    "config": LOW,
    "advisor": LOW,
    "client": LOW | {"config"},
    "connect": LOW | {"config"},
    "confinement": LOW | {"config"},
    "extraction": LOW,
    "store": LOW,
    "chat_files": LOW | {"markdown"},
    "documents": LOW | {"store"},
    "benchmark": LOW,
    "markdown": LOW,
    "network": LOW,
    "guide": LOW,
    "machines": LOW | {"config", "network"},
    "hub": LOW | {"config", "network"},
    "hardware": LOW | {"config"},
    "engine_store": LOW | {"config", "network"},
    "supervisor": LOW | {"config", "network", "confinement"},
    "updates": LOW | {"config", "hub", "engine_store"},
    "gateway": LOW | PARTS | {"benchmark"},
    "mcp_server": LOW | {"client"},
    "mcp_host": LOW,
    "agent_host": LOW | {"mcp_host"},
    "mcp_tools": LOW | {"config", "mcp_host"},
    "cli": LOW | {"client", "config", "chat_files", "benchmark", "mcp_server"},
    "gui": LOW | {"client", "config", "chat_files", "benchmark", "markdown"},
}
MAY_IMPORT_ENGINES = {"confinement", "supervisor", "engine_store", "gateway", "hub"}
DESCRIPTIONS = {"engines.api.about", "engines.api.support", "engines.api.traits"}
"""The values by which engines describe themselves. The advisor knows these and no engine: it is given a table."""
ONLY_IN = {
    "PySide6": "app/gui",
    "shiboken6": "app/gui",
    "click": "app/cli",
    "xllamacpp": "engines/llama_cpp/worker.py",
    "pynvml": "app/hardware",
    "hf_xet": "app/hub/download/xet.py",
    **dict.fromkeys(("PIL", "pi_heif", "pypdfium2", "mammoth", "bs4", "markdownify"), "app/extraction"),
    "python_calamine": "app/extraction",
    "simsimd": "app/documents",
    **dict.fromkeys(("mcp", "mcp_types", "starlette", "uvicorn", "anyio", "httpx2"), "app/mcp_"),
    "acp": "app/agent_host",
}
IN_ITS_ENVIRONMENT: dict[str, set[str]] = {
    "engines": set(),
    "serving": {"jinja2"},
    "llama_cpp": {"xllamacpp"},
    "llama_cpp_python": {"llama_cpp", "numpy"},
    "openvino": {"openvino", "openvino_genai", "numpy"},
    "onnx_genai": {"onnxruntime_genai", "numpy"},
    "mlx_lm": {"mlx", "mlx_lm"},
    "mistral_rs": {"mistralrs"},
}
"""What the code in these folders of `engines` finds installed where it runs, beside the standard library."""
NO_IO = ("app/core", "app/advisor", "app/benchmark")
IO_MODULES = {"os", "socket", "subprocess", "shutil", "sqlite3", "asyncio", "threading", "aiohttp", "pathlib", "psutil"}

FUNCTION_USUAL = 30


def files(*tops: str) -> Iterator[Path]:
    for top in tops:
        yield from sorted((ROOT / top).rglob("*.py"))


class SourceFacts(NamedTuple):
    """What of a file is judged here. Its syntax tree is not kept: those of all files are a gigabyte."""

    imports: frozenset[str]
    """Every module it imports, anywhere in it, dotted; type-checking imports count too."""
    reads_environment: bool
    function_lines: list[int]


@cache
def facts_of(path: Path) -> SourceFacts:
    imports: set[str] = set()
    function_lines: list[int] = []
    reads_environment = False
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        match node:
            case ast.Import():
                imports |= {alias.name for alias in node.names}
            case ast.ImportFrom():
                assert node.level == 0, f"{name_of(path)} imports relatively"
                imports |= {node.module or ""} | {f"{node.module}.{alias.name}" for alias in node.names}
            case ast.Attribute(value=ast.Name(id="os"), attr="environ" | "getenv" | "environb"):
                reads_environment = True
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                function_lines.append((node.end_lineno or node.lineno) - node.lineno + 1)
    return SourceFacts(frozenset(imports), reads_environment, function_lines)


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def imports(path: Path) -> frozenset[str]:
    return facts_of(path).imports


def part_of(module: str) -> str:
    pieces = module.split(".")
    return pieces[1] if pieces[0] == "app" and len(pieces) > 1 else ""


def test_parts_import_only_what_they_may() -> None:
    wrong = [
        f"{name_of(path)} imports {module}"
        for path in files("app")
        for module in imports(path)
        if (part := part_of(module)) in MAY_IMPORT
        and (own := path.relative_to(ROOT / "app").parts[0]) in MAY_IMPORT
        and part != own
        and part not in MAY_IMPORT[own]
    ]
    assert not wrong


def test_only_those_who_run_engines_import_them() -> None:
    wrong = [
        f"{name_of(path)} imports {module}"
        for path in files("app")
        for module in imports(path)
        if module.split(".")[0] == "engines" and not may_import_of_engines(part_of(module_name(path)), module)
    ]
    assert not wrong


def may_import_of_engines(part: str, module: str) -> bool:
    is_description = any(f"{module}.".startswith(f"{name}.") for name in DESCRIPTIONS)
    return part in MAY_IMPORT_ENGINES or (part == "advisor" and is_description)


def test_engines_import_nothing_of_the_application() -> None:
    assert not [name_of(path) for path in files("engines") if any(m.split(".")[0] == "app" for m in imports(path))]


def in_workers() -> set[Path]:
    """Return the files that run in engines' environments: workers, and whatever of ours they import."""
    paths: set[Path] = set()
    queue = [path for path in files("engines") if path.name in {"worker.py", "worker_base.py"}]
    while queue:
        path = queue.pop()
        paths.add(path)
        ours = (ROOT / f"{module.replace('.', '/')}.py" for module in imports(path) if module.startswith("engines."))
        queue += [other for other in ours if other.is_file() and other not in paths]
    return paths


def test_workers_need_only_the_standard_library_and_their_engine() -> None:
    workers = in_workers()
    assert len(workers) > 2
    wrong = [
        f"{name_of(path)} imports {module}"
        for path in workers
        for module in imports(path)
        if module.split(".")[0]
        not in {*sys.stdlib_module_names, "engines", *IN_ITS_ENVIRONMENT.get(path.parent.name, ())}
    ]
    assert not wrong


@pytest.mark.parametrize(("package", "home"), ONLY_IN.items())
def test_a_heavy_package_stays_at_home(package: str, home: str) -> None:
    wrong = [
        name_of(path)
        for path in files(*CODE)
        if not name_of(path).startswith(home) and any(m.split(".")[0] == package for m in imports(path))
    ]
    assert not wrong


def test_values_and_policy_do_no_io() -> None:
    wrong = [
        f"{name_of(path)} imports {module}"
        for path in files(*NO_IO)
        for module in imports(path)
        if module.split(".")[0] in IO_MODULES
    ]
    assert not wrong


def test_only_config_reads_the_environment() -> None:
    wrong = [
        name_of(path)
        for path in files("app")
        if not name_of(path).startswith("app/config") and facts_of(path).reads_environment
    ]
    assert not wrong


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def test_no_import_circles() -> None:
    modules = {module_name(path): path for path in files(*CODE)}
    graph = {name: {m for m in imports(path) if m in modules and m != name} for name, path in modules.items()}
    visited_modules: set[str] = set()

    def visit(name: str, trail: tuple[str, ...]) -> None:
        assert name not in trail, " -> ".join([*trail[trail.index(name) :], name])
        if name not in visited_modules:
            for target in graph[name]:
                visit(target, (*trail, name))
            visited_modules.add(name)

    for name in graph:
        visit(name, ())


def test_most_functions_are_short() -> None:
    sizes = [size for path in files(*CODE) for size in facts_of(path).function_lines]
    assert median(sizes) <= 10
    assert sum(size <= FUNCTION_USUAL for size in sizes) / len(sizes) >= 0.9


def test_no_module_is_named_after_nothing() -> None:
    banned_names = {"utils", "util", "common", "helpers", "helper", "manager", "misc"}
    assert not [name_of(path) for path in files(*CODE) if path.stem in banned_names]
