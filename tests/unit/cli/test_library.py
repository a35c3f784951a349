"""What removing, checking and searching say, and what is asked of the gateway for it."""

import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner, Result

from app.cli import library, pull
from app.cli.main import roundhouse
from app.core.api import SettingInfo
from app.core.downloads import Download, Pull
from app.core.errors import BadRequest, ErrorBody
from app.core.events import Event, LibraryJobChanged, ModelsChanged
from app.core.library import (
    DiskUse,
    Drive,
    Duplicate,
    FileCheck,
    Folder,
    FolderKind,
    Freshness,
    JobKind,
    LibraryJob,
    ModelHolding,
    ModelUpdate,
    Removal,
    TrashContents,
    Verdict,
)
from app.core.models import ModelInfo, Preset

JOB = LibraryJob(id="1", kind=JobKind.VERIFY, model="m", total_bytes=10)
PLAN = Removal(
    model="m", files=["/m.gguf"], frees_bytes=5_000_000, made_models=["terse"], aliases=["gpt-*=m"], left=["b stays."]
)
FOLDERS: dict[str, Any] = {
    "name": "models.folders",
    "section": "models",
    "title": "",
    "help": "",
    "kind": "list",
    "default": [],
}


def model(name: str, **more: Any) -> ModelInfo:  # noqa: ANN401 -- fields of the struct
    return ModelInfo(name=name, title=name, path=f"/models/{name}.gguf", format="gguf", size_bytes=1, **more)


class Gateway:
    """Answers as the real one, and notes what it was asked."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, str, object]] = []
        self.end = msgspec.structs.replace(JOB, is_done=True)
        self.interrupts = False
        self.refuses_folders = False
        self.models = [model("m"), model("terse", preset=Preset(base="m"))]
        self.disk: DiskUse | None = None
        self.plan = PLAN

    def get(self, path: str, reply: Any, *, timeout_s: float | None = None) -> Any:  # noqa: ANN401 -- any type
        del reply, timeout_s
        if path == "/library/disk":
            return self.disk
        if path == "/settings":
            return [SettingInfo(**{**FOLDERS, "value": ["/old"]})]
        return self.models

    def post(self, path: str, body: object, reply: Any, *, timeout_s: float | None = None) -> Any:  # noqa: ANN401 -- any type
        del timeout_s
        self.requests.append(("POST", path, msgspec.to_builtins(body)))
        if self.refuses_folders:
            raise BadRequest("No model.")
        return self.plan if reply is Removal else JOB if reply is LibraryJob else model("m")

    def patch(self, path: str, body: object, reply: Any) -> None:  # noqa: ANN401 -- any type
        del reply
        self.requests.append(("PATCH", path, body))

    def delete(self, path: str) -> None:
        self.requests.append(("DELETE", path, None))

    def stream_events(self, path: str, event: Any, *, timeout_s: float | None = None) -> Iterator[Event]:  # noqa: ANN401 -- any type
        del path, event, timeout_s
        yield ModelsChanged()
        yield LibraryJobChanged(job=msgspec.structs.replace(JOB, id="other", is_done=True))
        yield LibraryJobChanged(job=JOB)
        if self.interrupts:
            raise KeyboardInterrupt
        yield LibraryJobChanged(job=self.end)


@pytest.fixture
def gateway(monkeypatch: pytest.MonkeyPatch) -> Gateway:
    played_gateway = Gateway()
    for module in (library, library):
        monkeypatch.setattr(module, "connect_gateway", lambda: played_gateway)
    return played_gateway


def run(*arguments: str, stdin: str = "") -> Result:
    return CliRunner().invoke(roundhouse, arguments, input=stdin)


def test_removing_says_what_goes_and_asks(gateway: Gateway) -> None:
    refusal = run("rm", "m", stdin="n\n")
    assert refusal.exit_code == 1
    assert [path for _, path, _ in gateway.requests] == ["/removals/plan"]
    for sentence in ("will be moved to the trash", "/m.gguf", "terse", "gpt-*=m", "b stays."):
        assert sentence in refusal.stderr
    result = run("rm", "m", "--yes")
    assert result.exit_code == 0
    assert gateway.requests[-1] == ("POST", "/removals", {"model": "m", "for_good": False})
    assert "once the trash is emptied" in result.stdout


def test_removing_says_what_goes_with_it(gateway: Gateway) -> None:
    gateway.plan = msgspec.structs.replace(PLAN, projectors=["mmproj.gguf"])
    result = run("rm", "m", "--yes")
    assert "Its projector is removed too, as no other model needs it: mmproj.gguf." in result.stderr
    assert result.stdout.startswith("m and its projector are in the trash.")


def test_removing_for_good_is_asked_for(gateway: Gateway) -> None:
    result = run("rm", "m", "--for-good", "--json")
    assert gateway.requests[-1] == ("POST", "/removals", {"model": "m", "for_good": True})
    assert json.loads(result.stdout)["removal"]["model"] == "m"


def test_a_made_model_loses_its_name(gateway: Gateway) -> None:
    assert "no longer a model's name" in run("rm", "TERSE").stdout
    assert gateway.requests == [("DELETE", "/models/terse", None)]


@pytest.mark.parametrize(("verdict", "code"), [(Verdict.RIGHT, 0), (Verdict.WHOLE, 0), (Verdict.WRONG, 1)])
def test_a_check_says_each_file_and_an_exit_code(gateway: Gateway, verdict: Verdict, code: int) -> None:
    checks = [FileCheck(path="/m.gguf", verdict=verdict, note="Because.")]
    gateway.end = msgspec.structs.replace(JOB, is_done=True, checks=checks)
    result = run("verify", "m")
    assert result.exit_code == code
    assert result.stdout.split() == [verdict.value, "/m.gguf", "Because."]


def test_ctrl_c_calls_a_check_off(gateway: Gateway) -> None:
    gateway.interrupts = True
    assert run("verify", "m").exit_code == 130
    assert gateway.requests[-1] == ("DELETE", "/library/job", None)


def test_a_check_that_failed_says_why(gateway: Gateway) -> None:
    error = ErrorBody(code="cancelled", sentence="It was cancelled.")
    gateway.end = msgspec.structs.replace(JOB, is_done=True, error=error)
    result = run("verify", "m")
    assert result.exit_code == 1
    assert "cancelled" in result.stderr


def test_duplicates_are_told_with_what_sharing_frees(gateway: Gateway) -> None:
    duplicate = Duplicate(
        sha256="a" * 64,
        size_bytes=2_000_000_000,
        paths=["/a", "/b", "/c"],
        reclaimable=["/b"],
        notes=["/c: it is far."],
    )
    gateway.end = msgspec.structs.replace(JOB, is_done=True, duplicates=[duplicate], reclaimed_bytes=2_000_000_000)
    stdout = run("duplicates").stdout
    assert "/b  can share" in stdout
    assert "/c: it is far." in stdout
    assert "--reclaim" in stdout
    assert "freed" in run("duplicates", "--reclaim").stdout
    assert gateway.requests[-1] == ("POST", "/library/duplicates", {"reclaim": True})


def test_what_was_reclaimed_is_copied_apart_again(gateway: Gateway) -> None:
    gateway.end = msgspec.structs.replace(JOB, is_done=True, reclaimed_bytes=-2_000_000_000)
    assert "using 1.9 GiB" in run("duplicates", "--undo").stdout
    assert gateway.requests == [("POST", "/library/separate", None)]
    assert run("duplicates", "--undo", "--reclaim").exit_code == 2


def test_the_disk_is_told_by_drives_folders_and_models(gateway: Gateway) -> None:
    gateway.disk = DiskUse(
        drives=[Drive(path="/", total_bytes=1 << 40, free_bytes=1 << 39, models_bytes=1 << 30)],
        folders=[Folder(path="/usb", kind=FolderKind.NAMED, title="usb", problem="It is not there now.")],
        holdings=[
            ModelHolding(
                model=f"m{number}", title="", place="usb", drive="/", size_bytes=1 << 30, shared_bytes=number << 20
            )
            for number in range(12)
        ],
        saved_bytes=1 << 30,
    )
    result = run("disk")
    assert "1.0 TiB" in result.stdout
    assert "unknown" in result.stdout  # the trash
    assert "m9 " in result.stdout
    assert "m10" not in result.stdout
    assert "save 1.0 GiB" in result.stdout
    assert "/usb: It is not there now." in result.stderr
    assert "m11" in run("disk", "--all").stdout
    assert json.loads(run("disk", "--json").stdout)["disk"]["saved_bytes"] == 1 << 30


def make_use(*files: int) -> DiskUse:
    drives = [
        Drive(
            path=f"/{count}",
            trash_bytes=count << 31,
            trashed=TrashContents(files=count, size_bytes=count << 30, paths=[f"/m/{count}.gguf"], digest=str(count)),
        )
        for count in files
    ]
    return DiskUse(drives=[Drive(path="/", trash_bytes=5), *drives], folders=[], holdings=[])


def test_the_disk_says_what_of_the_trash_were_models(gateway: Gateway) -> None:
    gateway.disk = make_use(2, 3)
    stdout = run("disk").stdout
    assert "In the trash: 5 files of removed models (5.0 GiB)." in stdout
    assert "roundhouse disk --empty-trash" in stdout
    gateway.disk = make_use()
    assert "removed" not in run("disk").stdout


def test_emptying_says_what_goes_and_asks(gateway: Gateway) -> None:
    gateway.disk = make_use(2, 1)
    for arguments in ((), ("--json",)):
        refusal = run("disk", "--empty-trash", *arguments, stdin="n\n")
        assert refusal.exit_code == 1
        assert gateway.requests == []
        for sentence in (
            "/m/2.gguf",
            "/m/1.gguf",
            "3 files of removed models (3.0 GiB) will be deleted",
            "cannot be undone",
        ):
            assert sentence in refusal.stderr
    gateway.end = msgspec.structs.replace(
        JOB, kind=JobKind.EMPTY, is_done=True, deleted_files=1, reclaimed_bytes=1 << 30
    )
    result = run("disk", "--empty-trash", stdin="y\n")
    assert result.stdout == "1 file of a removed model (1.0 GiB) was deleted permanently.\n"
    assert gateway.requests == [("POST", "/library/empty-trash", {"digests": ["2", "1"]})]
    body = json.loads(run("disk", "--empty-trash", "--yes", "--json").stdout)
    assert body["job"]["deleted_files"] == 1


def test_what_could_not_be_deleted_is_said(gateway: Gateway) -> None:
    gateway.disk = make_use(2)
    error = ErrorBody(code="trash_kept", sentence="a.gguf could not be deleted.", hint="Look at its rights.")
    gateway.end = msgspec.structs.replace(JOB, is_done=True, error=error)
    result = run("disk", "--empty-trash", "--yes")
    assert result.exit_code == 1
    assert "could not be deleted" in result.stderr
    gateway.end = msgspec.structs.replace(JOB, is_done=True)
    assert "no longer in the trash" in run("disk", "--empty-trash", "--yes").stdout


def test_where_nothing_was_a_model_nothing_is_asked(gateway: Gateway) -> None:
    gateway.disk = make_use()
    assert run("disk", "--empty-trash").stdout == "There are no removed models in the trash.\n"
    assert gateway.requests == []
    assert run("disk", "--yes").exit_code == 2
    gateway.disk = DiskUse(drives=[Drive(path="/")], folders=[], holdings=[])
    run("disk", "--empty-trash")
    assert gateway.requests == [("POST", "/library/empty-trash", {"digests": []})], (
        "whose trash it is, the gateway says"
    )


def test_a_file_is_listed_where_it_lies(gateway: Gateway, tmp_path: Path) -> None:
    file = tmp_path / "m.gguf"
    file.touch()
    assert "m was added" in run("import", str(file)).stdout
    assert gateway.requests == [("POST", "/models", {"path": str(file)})]


def test_a_folder_of_models_is_looked_through_from_now_on(gateway: Gateway, tmp_path: Path) -> None:
    gateway.refuses_folders = True
    assert "0 models were added" in run("import", str(tmp_path)).stdout
    gateway.models = [msgspec.structs.replace(gateway.models[0], path=str(tmp_path / "m.gguf"))]
    assert "1 model was added" in run("import", str(tmp_path)).stdout
    assert gateway.requests[-1] == ("PATCH", "/settings", {"models.folders": ["/old", str(tmp_path)]})
    file = tmp_path / "m.txt"
    file.touch()
    assert run("import", str(file)).exit_code == 2


UPDATES = [
    ModelUpdate(model="a", repository="o/a", revision="main", state=Freshness.CURRENT),
    ModelUpdate(
        model="b",
        repository="o/b",
        revision="4.0bpw",
        state=Freshness.NEWER,
        files=["x"],
        download_bytes=3_000_000_000,
        quantization="Q4_0",
        modified="2026-05-01T00:00:00Z",
    ),
]


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, object]]:
    calls: list[tuple[str, object]] = []

    def post(path: str, body: object, _reply: object, *, timeout_s: float) -> Download:
        assert timeout_s
        calls.append((path, msgspec.to_builtins(body)))
        return Download(id="1", title="o/b", repository="o/b", revision="4.0bpw", commit="c", files=["x"])

    played_hub = SimpleNamespace(get=lambda _path, _reply, timeout_s: UPDATES if timeout_s else None, post=post)
    monkeypatch.setattr(pull, "connect_gateway", lambda: played_hub)
    return calls


def test_newer_models_are_shown_and_fetched_only_when_asked(hub: list[tuple[str, object]]) -> None:
    stdout = run("update-models", "--check").stdout
    assert "current" in stdout
    assert "1 files changed; the hub's version is from 2026-05-01." in stdout
    assert hub == []
    assert "is downloading" in run("update-models").stderr
    assert hub == [("/downloads", msgspec.to_builtins(Pull(model="o/b@4.0bpw", quantization="Q4_0")))]
