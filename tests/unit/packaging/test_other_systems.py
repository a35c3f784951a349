"""What packs Roundhouse for Windows and macOS, and the release: never run here, so read as far as it can be read."""

import ast
import plistlib
import re
import shutil
import subprocess
from pathlib import Path

import msgspec
import pytest
from ruamel.yaml import YAML

from app.cli.main import COMMANDS
from app.config import service_unit
from app.config.programs import NOTE, PackerNote
from app.core.updates import InstallationKind
from tests.packaging_scripts import PACKAGING

ROOT = PACKAGING.parent
SETUP = (PACKAGING / "windows/roundhouse.iss").read_text(encoding="utf-8")
RELEASE = ROOT / ".github/workflows/release.yml"
SPEC = (PACKAGING / "roundhouse.spec").read_text(encoding="utf-8")


def section(name: str) -> list[str]:
    body = re.split(r"(?m)^\[(\w+)\]$", SETUP)
    lines = body[body.index(name) + 1].splitlines()
    return [line for line in lines if line and not line.startswith(";")]


def test_windows_setup_is_one_persons_and_asks_for_no_administrator() -> None:
    settings = dict(line.split("=", 1) for line in section("Setup"))
    assert settings["PrivilegesRequired"] == "lowest"
    assert settings["DefaultDirName"].startswith("{localappdata}")
    assert "HKLM" not in SETUP
    assert all("Root: HKCU" in line for line in section("Registry"))


def test_windows_path_and_log_in_are_asked_for_and_not_ticked() -> None:
    tasks = {line.split("Name: ")[1].split(";")[0]: line for line in section("Tasks")}
    assert all("unchecked" in tasks[name] for name in ("path", "login"))
    (login,) = (line for line in section("Registry") if "Tasks: login" in line)
    assert service_unit._RUN_KEY in login, "the setting and the installer mean the same value"
    assert f"ValueName: {service_unit._VALUE};" in login
    assert "uninsdeletevalue" in login


def test_windows_names_only_programs_that_the_spec_makes_and_files_that_are_there() -> None:
    programs = set(re.findall(r'program\("([\w-]+)"', SPEC))
    assert set(re.findall(r"\{app\}\\([\w-]+)\.exe", SETUP)) <= programs
    assert (PACKAGING / "windows" / "../../LICENSE").resolve().is_file()


def test_windows_uninstalling_asks_about_data_and_models_with_options_that_exist() -> None:
    code = "\n".join(section("Code"))
    assert code.count("MsgBox") == 2
    assert code.count("MB_DEFBUTTON2") == 2, "no is the answer that a hurried person gives"
    help_text = (ROOT / "app/cli/uninstall.py").read_text(encoding="utf-8")
    assert set(re.findall(r"--[a-z]+", code)) == {"--yes", "--purge", "--models"}
    assert all(f'"{option}"' in help_text for option in re.findall(r"--[a-z]+", code))
    assert "uninstall" in COMMANDS


def test_windows_uninstalling_leaves_no_key_of_ours() -> None:
    rows = [dict(part.split(": ", 1) for part in line.split("; ")) for line in section("Registry")]
    removed_keys = {row["Subkey"] for row in rows if "uninsdeletekey" in row.get("Flags", "").split()}
    emptied_keys = {row["Subkey"] for row in rows if "uninsdeletekeyifempty" in row.get("Flags", "")}
    ours = {row["Subkey"] for row in rows if "CurrentVersion" not in row["Subkey"]}
    below = {key for key in ours for top in removed_keys if key == top or key.startswith(f"{top}\\")}
    assert ours - emptied_keys == below
    assert not {key for key in removed_keys if "oundhouse" not in key}, "what others may use is removed only when empty"


def test_windows_setup_compiles(tmp_path: Path) -> None:
    compiler = shutil.which("iscc")
    if compiler is None:
        pytest.skip("Inno Setup's compiler is not on PATH")
    bundle = tmp_path / "build/package/roundhouse"
    (bundle / "_internal").mkdir(parents=True)
    for name in ("roundhouse.exe", "roundhouse-window.exe", "_internal/library.dll"):
        (bundle / name).write_bytes(b"MZ")
    shutil.copyfile(ROOT / "LICENSE", tmp_path / "LICENSE")
    source = tmp_path / "packaging/windows/roundhouse.iss"
    source.parent.mkdir(parents=True)
    source.write_text(SETUP, encoding="utf-8")
    result = subprocess.run(
        [compiler, "/Q", "/DVersion=1.2.3", str(source)], capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert (tmp_path / "dist/roundhouse-1.2.3-windows-x86_64.exe").is_file()


def test_windows_code_closes_every_block_it_opens() -> None:
    words = re.findall(r"\b(begin|end)\b", "\n".join(section("Code")))
    assert words.count("begin") == words.count("end") > 0


def test_macos_asks_for_no_more_than_python_and_engines_need() -> None:
    body = plistlib.loads((PACKAGING / "macos/entitlements.plist").read_bytes())
    assert body == {
        "com.apple.security.cs.allow-unsigned-executable-memory": True,
        "com.apple.security.cs.disable-library-validation": True,
    }


@pytest.mark.skipif(shutil.which("sh") is None, reason="there is no shell")
def test_macos_script_is_a_script_and_names_files_that_are_there() -> None:
    script = PACKAGING / "macos/package.sh"
    subprocess.run([shutil.which("sh") or "", "-n", str(script)], check=True)
    text = script.read_text(encoding="utf-8")
    assert all((ROOT / path).is_file() for path in re.findall(r"packaging/macos/[\w.]+", text))
    assert "--options runtime" in text


def test_the_spec_is_python_and_its_links_are_those_the_window_reads() -> None:
    ast.parse(SPEC)
    assert '"CFBundleURLSchemes": ["roundhouse"]' in SPEC
    assert '"public.filename-extension": ["gguf"]' in SPEC


def test_the_release_reads_secrets_only_where_it_first_asks_whether_they_exist() -> None:
    jobs = YAML(typ="safe").load(RELEASE.read_text(encoding="utf-8"))["jobs"]
    assert set(jobs) == {"linux", "windows", "macos", "draft"}
    for job in jobs.values():
        for step in job["steps"]:
            if "secrets." in str(step):
                assert step["if"] in {f"env.{name} != ''" for name in step["env"]}
    assert jobs["draft"]["needs"] == ["linux", "windows", "macos"]
    assert "--draft" in str(jobs["draft"])


def test_every_packer_notes_how_a_copy_is_installed() -> None:
    script = (PACKAGING / "macos/package.sh").read_text(encoding="utf-8")
    notes = re.findall(r"""[`']?(\{"kind":"\w+","version":"[^"]+"\})""", script + SETUP)
    assert [msgspec.json.decode(text, type=PackerNote).kind for text in notes] == [
        InstallationKind.DMG,
        InstallationKind.EXE,
    ]
    assert NOTE in script
    assert f"Name: {{app}}\\{NOTE}" in "\n".join(section("UninstallDelete")), "what was written leaves too"
    assert script.index(NOTE) < script.index("codesign"), "before it is signed"


def test_the_release_signs_its_description_before_it_sums_up() -> None:
    text = RELEASE.read_text(encoding="utf-8")
    assert text.index("update_manifest.py make") < text.index("sha256sum")
    assert "UPDATE_KEY: ${{ secrets.UPDATE_KEY }}" in text


def test_the_release_runs_files_and_targets_that_are_there() -> None:
    text = RELEASE.read_text(encoding="utf-8").replace("\\", "/")
    assert all((ROOT / path).is_file() for path in re.findall(r"packaging/[\w./]+", text))
    targets = set(re.findall(r"(?m)^([a-z-]+):", Path(ROOT / "Makefile").read_text(encoding="utf-8")))
    assert set(re.findall(r"(?m)^\s+make ([a-z-]+)$", text)) <= targets
