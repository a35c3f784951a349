"""How a machine without uv gets it: the right wheel from an index page, and nothing unverified."""

import hashlib
import importlib.util
import io
import platform
import zipfile
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "packaging" / "get_uv.py"


@pytest.fixture
def get_uv() -> ModuleType:
    spec = importlib.util.spec_from_file_location("get_uv", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("system", "machine", "tags", "is_fit"),
    [
        ("Darwin", "arm64", "macosx_11_0_arm64", True),
        ("Darwin", "x86_64", "macosx_11_0_arm64", False),
        ("Windows", "AMD64", "win_amd64", True),
        ("Windows", "ARM64", "win_amd64", False),
        ("Linux", "x86_64", "win_amd64", False),
        ("Linux", "x86_64", "macosx_10_12_x86_64", False),
        ("Plan9", "x86_64", "win_amd64", False),
    ],
)
def test_a_wheel_fits_its_own_platform_only(
    get_uv: ModuleType, system: str, machine: str, tags: str, *, is_fit: bool
) -> None:
    assert get_uv.fits(f"uv-0.13.8-py3-none-{tags}.whl", system, machine) is is_fit


def page(*names: str, sha256: str = "0" * 64) -> str:
    return "".join(f'<a href="../../files/{name}#sha256={sha256}">{name}</a>' for name in names)


def test_the_newest_release_is_taken_by_number_and_previews_are_not(get_uv: ModuleType) -> None:
    libc = "manylinux" if platform.libc_ver()[0] == "glibc" else "musllinux"
    tag = {"Linux": f"{libc}_2_17_x86_64", "Darwin": "macosx_11_0_arm64", "Windows": "win_amd64"}[platform.system()]
    names = [f"uv-{number}-py3-none-{tag}.whl" for number in ("0.9.30", "0.13.8", "0.14.0rc1", "0.13.10")]
    fitting_names = [name for name in names if get_uv.fits(name)]
    if not fitting_names:
        pytest.skip("this machine's architecture is none of the three above")
    assert "0.13.10" in get_uv.newest(get_uv.links(page(*names)))[0]


def test_a_file_without_a_digest_is_not_offered(get_uv: ModuleType) -> None:
    assert get_uv.links('<a href="uv-1.0-py3-none-win_amd64.whl">x</a>') == []


def wheel() -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        archive.writestr("uv-1.0.data/scripts/uv", "#!/bin/sh\n")
        archive.writestr("uv-1.0.data/scripts/uv.exe", "MZ")
    return data.getvalue()


@pytest.mark.parametrize("is_true", [True, False])
def test_a_download_must_be_what_the_index_announced(
    get_uv: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_true: bool
) -> None:
    data = wheel()
    digest = hashlib.sha256(data if is_true else b"other").hexdigest()
    monkeypatch.setattr(get_uv, "fits", lambda _name: True)
    replies = iter([page("uv-1.0-py3-none-any.whl", sha256=digest).encode(), data])
    monkeypatch.setattr(get_uv, "fetch", lambda _url: next(replies))
    (tmp_path / "bin").mkdir()
    if is_true:
        assert get_uv.by_index(tmp_path).read_bytes()
    else:
        with pytest.raises(ValueError, match="announced"):
            get_uv.by_index(tmp_path)
        assert not any((tmp_path / "bin").iterdir())
