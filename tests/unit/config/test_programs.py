"""How our own programs are started."""

import subprocess
from pathlib import Path

from app import __version__
from app.config.programs import command


def test_a_folder_called_app_where_the_command_is_typed_is_not_taken_for_ours(tmp_path: Path) -> None:
    (tmp_path / "app").mkdir()
    (tmp_path / "app" / "__init__.py").write_text("raise SystemExit('somebody else runs here')")
    said = subprocess.run(command("app.cli", "--version"), cwd=tmp_path, capture_output=True, text=True, check=False)
    assert __version__ in said.stdout, said.stderr
