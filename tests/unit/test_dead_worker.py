"""A process of the test run that dies, as of a segmentation fault, ends the run, which then says in which test."""

import os
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_a_worker_that_dies_ends_the_run_with_the_name_of_its_test(tmp_path: Path) -> None:
    (tmp_path / "test_dying.py").write_text("import os\n\n\ndef test_dies(): os.abort()\n", encoding="utf-8")
    for name in "abc":
        (tmp_path / f"test_{name}.py").write_text("def test_passes(): pass\n", encoding="utf-8")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["pytest"]["ini_options"]
    (tmp_path / "pytest.ini").write_text(f"[pytest]\naddopts = {project['addopts']} -m ''\n", encoding="utf-8")
    alone = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    alone["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"  # three processes load plugins for seconds that nothing here needs
    argv = [sys.executable, "-m", "pytest", "-q", "-p", "xdist", "--numprocesses", "2", "--dist", "loadfile"]
    done = subprocess.run(argv, cwd=tmp_path, env=alone, capture_output=True, text=True, check=False, timeout=110)
    assert done.returncode == 1
    assert "crashed while running 'test_dying.py::test_dies'" in done.stdout
