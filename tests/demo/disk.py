"""What the demo gateway's models take of its disks, what is there twice, and what the hub has newer."""

from collections.abc import Mapping

from app.core.library import (
    DiskUse,
    Drive,
    Duplicate,
    Folder,
    FolderKind,
    Freshness,
    JobKind,
    LibraryJob,
    ModelHolding,
    ModelUpdate,
    TrashContents,
)
from tests.demo.machines import GIB

_HOME, _USB = "/", "/media/ada/Archive"
_HUB, _OWN, _LM = "Hugging Face cache", "ada/models", "LM Studio"


def _gib_bytes(count: float) -> int:
    return int(count * GIB)


def _make_holding(  # noqa: PLR0913 -- a line of a table
    model: str, title: str, place: str, gib: float, *, drive: str = _HOME, shared_bytes: float = 0.0
) -> ModelHolding:
    return ModelHolding(
        model=model,
        title=title,
        place=place,
        drive=drive,
        size_bytes=_gib_bytes(gib),
        shared_bytes=_gib_bytes(shared_bytes),
    )


_HOLDINGS = [
    _make_holding("llama-3.3-70b-instruct-q4_k_m", "Llama 3.3 70B Instruct", "Archive", 39.6, drive=_USB),
    _make_holding("qwen3-30b-a3b-q4_k_m", "Qwen3 30B A3B", _HUB, 17.3),
    _make_holding("gpt-oss-20b-mxfp4", "gpt-oss 20B", _OWN, 11.3),
    _make_holding("qwen3-8b-awq", "Qwen3 8B AWQ", _HUB, 5.7),
    _make_holding("gemma-3-12b-it-q4_0", "Gemma 3 12B Instruct", _OWN, 7.5),
    _make_holding("gemma-3-12b-it-q4_k_m", "Gemma 3 12B Instruct", _LM, 6.8),
    _make_holding("qwen3-8b-q4_k_m", "Qwen3 8B", _OWN, 4.7, shared_bytes=4.7),
    _make_holding("qwen3-8b-q4_k_m@lmstudio", "Qwen3 8B", _LM, 4.7, shared_bytes=4.7),
    _make_holding("mistral-7b-q4_0", "mistral:7b", "Ollama", 3.8),
    _make_holding("llama3.2:3b", "llama3.2:3b", "Ollama", 1.9),
    _make_holding("nomic-embed-text", "nomic-embed-text", "Ollama", 0.26),
    _make_holding("bge-m3", "bge-m3", _HUB, 1.1),
    _make_holding("smollm2-360m", "SmolLM2 360M", _HUB, 0.36),
    _make_holding("whisper-tiny", "Whisper tiny", _HUB, 0.07),
]
USE = DiskUse(
    drives=[
        Drive(
            path=_HOME,
            total_bytes=_gib_bytes(476),
            free_bytes=_gib_bytes(61.4),
            models_bytes=_gib_bytes(60.8),
            trash_bytes=_gib_bytes(14.2),
            trashed=TrashContents(
                files=3,
                size_bytes=_gib_bytes(11.3),
                paths=["/home/ada/models/gemma-2-9b-it-q4_k_m.gguf", "/home/ada/models/phi-4-q4_k_m.gguf"],
                digest="1",
            ),
        ),
        Drive(
            path=_USB,
            total_bytes=_gib_bytes(931),
            free_bytes=_gib_bytes(702),
            models_bytes=_gib_bytes(39.6),
            trash_bytes=0,
        ),
    ],
    folders=[
        Folder(
            path="/home/ada/.local/share/roundhouse/models",
            kind=FolderKind.OWN,
            title="Roundhouse's folder",
        ),
        Folder(
            path="/home/ada/.cache/huggingface/hub",
            kind=FolderKind.HUB,
            title=_HUB,
            models=5,
            size_bytes=_gib_bytes(24.5),
        ),
        Folder(path="/home/ada/models", kind=FolderKind.NAMED, title=_OWN, models=3, size_bytes=_gib_bytes(23.5)),
        Folder(path=_USB, kind=FolderKind.NAMED, title="Archive", models=1, size_bytes=_gib_bytes(39.6)),
        Folder(
            path="/media/ada/Backup/models",
            kind=FolderKind.NAMED,
            title="Backup/models",
            problem="It is missing: its drive is not connected, or it was moved. "
            "Its models are listed again once it is back.",
        ),
        Folder(
            path="/srv/models",
            kind=FolderKind.NAMED,
            title="srv/models",
            problem="This account has no permission to read it.",
        ),
        Folder(
            path="/home/ada/.lmstudio/models", kind=FolderKind.OTHER, title=_LM, models=2, size_bytes=_gib_bytes(11.5)
        ),
        Folder(
            path="/home/ada/.ollama/models", kind=FolderKind.OTHER, title="Ollama", models=3, size_bytes=_gib_bytes(6)
        ),
    ],
    holdings=_HOLDINGS,
    saved_bytes=_gib_bytes(4.7),
)
NOTHING = DiskUse(drives=[], folders=USE.folders[:1], holdings=[])
DUPLICATES_JOB = LibraryJob(
    id="found",
    kind=JobKind.DUPLICATES,
    done_bytes=_gib_bytes(21),
    total_bytes=_gib_bytes(21),
    is_done=True,
    duplicates=[
        Duplicate(
            sha256="a" * 64,
            size_bytes=8_064_372_736,
            paths=[
                "/home/ada/.lmstudio/models/google/gemma-3-12b-it-GGUF/gemma-3-12b-it-q4_0.gguf",
                "/home/ada/models/gemma-3-12b-it-q4_0.gguf",
                "/media/ada/Archive/gemma-3-12b-it-q4_0.gguf",
            ],
            models=["gemma-3-12b-it-q4_0", "gemma-3-12b-it-q4_0@Archive"],
            reclaimable=["/home/ada/models/gemma-3-12b-it-q4_0.gguf"],
            notes=["/media/ada/Archive/gemma-3-12b-it-q4_0.gguf: it is on another disk."],
        ),
        Duplicate(
            sha256="b" * 64,
            size_bytes=1_157_627_904,
            paths=["/home/ada/.cache/huggingface/hub/models--BAAI--bge-m3/bge-m3.gguf", "/home/ada/models/bge-m3.gguf"],
            models=["bge-m3"],
            reclaimable=["/home/ada/models/bge-m3.gguf"],
        ),
    ],
)
SEARCHING = LibraryJob(
    id="looking",
    kind=JobKind.DUPLICATES,
    file="/home/ada/.lmstudio/models/google/gemma-3-12b-it-GGUF/gemma-3-12b-it-q4_0.gguf",
    done_bytes=_gib_bytes(7.9),
    total_bytes=_gib_bytes(21),
)
CHECKING = LibraryJob(
    id="checking",
    kind=JobKind.VERIFY,
    model="gpt-oss-20b-mxfp4",
    file="/home/ada/models/gpt-oss-20b-mxfp4.gguf",
    done_bytes=_gib_bytes(4.3),
    total_bytes=_gib_bytes(11.3),
)
EMPTYING = LibraryJob(
    id="emptying",
    kind=JobKind.EMPTY,
    file="/home/ada/models/phi-4-q4_k_m.gguf",
    done_bytes=_gib_bytes(5.4),
    total_bytes=_gib_bytes(11.3),
)
UPDATES = [
    ModelUpdate(
        model="gemma-3-12b-it-q4_0",
        repository="google/gemma-3-12b-it-qat-q4_0-gguf",
        revision="main",
        state=Freshness.NEWER,
        files=["gemma-3-12b-it-q4_0.gguf"],
        download_bytes=8_064_372_736,
        modified="2026-05-01T00:00:00Z",
    ),
    ModelUpdate(model="gpt-oss-20b-mxfp4", repository="ggml-org/gpt-oss-20b", revision="main", state=Freshness.CURRENT),
]


def disk_replies() -> Mapping[str, object]:
    """Return the answers about disks and files."""
    return {
        "GET /library/disk": USE,
        "GET /library/job": None,
        "GET /library/updates": UPDATES,
        "POST /library/duplicates": SEARCHING,
        "POST /library/empty-trash": EMPTYING,
        "DELETE /library/job": None,
    }
