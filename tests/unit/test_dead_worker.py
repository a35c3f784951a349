"""A process of the test run that dies, as of a segmentation fault, ends the run, which then says in which test."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_a_worker_that_dies_ends_the_run_with_the_name_of_its_test(tmp_path: Path) -> None:
    (tmp_path / "test_dying.py").write_text("import os\n\n\ndef test_dies(): os.abort()\n", encoding="utf-8")
    for name in "abc":
        (tmp_path / f"test_{name}.py").write_text("def test_passes(): pass\n", encoding="utf-8")
    alone = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    argv = [sys.executable, "-m", "pytest", "-q", "--numprocesses", "2", "--dist", "loadfile"]
    argv += ["-c", str(ROOT / "pyproject.toml"), "--rootdir", str(tmp_path), str(tmp_path)]
    done = subprocess.run(argv, cwd=ROOT, env=alone, capture_output=True, text=True, check=False, timeout=110)
    assert done.returncode == 1
    assert "crashed while running 'test_dying.py::test_dies'" in done.stdout
