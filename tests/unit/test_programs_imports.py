"""What our programs bring in when they start: each has a budget of what it may not, as people wait for it meanwhile."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

EVENT_LOOP = {"asyncio", "aiohttp"}
HEAVY = {"PySide6", "cryptography", "hf_xet", "jinja2", "keyring", "numpy", "xllamacpp"}
GATEWAY_LATER = {
    *(
        "app.advisor",
        "app.hardware",
        "app.hub.facts",
        "app.hub.shapes",
        "app.updates.methods",
        "app.engine_store.archives",
    ),
    *("engines.clues", "engines.failures", "engines.serving", "engines.llama_cpp", "engines.vllm", "engines.teams"),
    *("tarfile", "zipfile", "plistlib", "statistics"),
}
"""What no first answer takes: the advisor, the probes, readers of models, installers, single engines."""
COMMANDS = sorted(f"app.cli.{path.stem}" for path in (ROOT / "app" / "cli").glob("[a-z]*.py"))
BUDGETS = {
    "app.gateway.main": HEAVY | GATEWAY_LATER,
    "app.hardware.__main__": HEAVY | EVENT_LOOP | {"psutil"},
    "app.hub.download.program": HEAVY | EVENT_LOOP | {"psutil", "app.gateway"},
    "app.mcp_tools.__main__": HEAVY | EVENT_LOOP | {"anyio", "httpx2", "mcp", "mcp_types", "pydantic"},
    "app.cli.service": HEAVY | EVENT_LOOP | {"psutil", "http.client", "app.config.table"},
    ", ".join(COMMANDS): HEAVY | EVENT_LOOP | {"psutil"},
}
"""Modules -> what importing them may not bring in, packages with all that is in them."""


def brought_in(statement: str) -> set[str]:
    """Return every module that is there after a statement, in an interpreter of its own."""
    code = f"{statement}\nimport json, sys\nprint(json.dumps(list(sys.modules)))"
    result = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, cwd=ROOT, check=True)
    body: list[str] = json.loads(result.stdout)
    return set(body)


@pytest.mark.parametrize(
    ("modules", "banned_modules"), BUDGETS.items(), ids=["gateway", "probe", "download", "tools", "up", "command"]
)
def test_a_program_starts_without_what_it_does_not_need_yet(modules: str, banned_modules: set[str]) -> None:
    modules_imported = brought_in(f"import {modules}")
    assert modules_imported.issuperset(modules.split(", "))
    assert not sorted(
        module
        for module in modules_imported
        for name in banned_modules
        if module == name or module.startswith(f"{name}.")
    )


def test_no_engine_is_brought_in_to_see_whether_it_is_known() -> None:
    modules_imported = brought_in(
        "from engines.registry import ADAPTERS\nassert 'tgi' in ADAPTERS and 'none' not in ADAPTERS"
    )
    assert "engines.registry" in modules_imported
    assert "engines.tgi.launch" not in modules_imported


def test_the_gateway_looks_for_garbage_only_once_it_has_started() -> None:
    """As `python -m app.gateway` does: nothing is collected while it is brought in, and from then on it is."""
    code = "import gc\ngc.disable()\nfrom app.gateway.runtime import leave_start_up_out_of_collections as begin\n"
    brought_in(f"{code}assert not gc.isenabled()\nbegin()\nassert gc.isenabled() and gc.get_freeze_count()")
    main = (ROOT / "app" / "gateway" / "__main__.py").read_text(encoding="utf-8")
    assert main.index("gc.disable()") < main.index("from app.gateway.main import main")
