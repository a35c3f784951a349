"""What is taken from the environment of whoever starts Roundhouse: where the hub is, its token, and its cache."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path

HUB = "https://huggingface.co"


def hub_endpoint(environ: Mapping[str, str] | None = None) -> str:
    """Return where repositories are looked up: HF_ENDPOINT, as Hugging Face's own programs read it, else their hub."""
    source = os.environ if environ is None else environ
    return source.get("HF_ENDPOINT", "").strip().rstrip("/") or HUB


def environment_hub_token(environ: Mapping[str, str] | None = None) -> str:
    """Return the token for the hub that was exported under one of the names its own programs know; empty without."""
    source = os.environ if environ is None else environ
    return (source.get("HF_TOKEN") or source.get("HUGGING_FACE_HUB_TOKEN") or "").strip()


def hugging_face_token(environ: Mapping[str, str] | None = None) -> str:
    """Return the token that `hf auth login` wrote; empty without one. Reads a file."""
    source = os.environ if environ is None else environ
    token_path = source.get("HF_TOKEN_PATH")
    try:
        return (Path(token_path) if token_path else _hub_home(source) / "token").read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        return ""


def hub_cache(environ: Mapping[str, str] | None = None) -> Path:
    """Return the cache that Hugging Face's own programs keep models in."""
    source = os.environ if environ is None else environ
    cache_path = source.get("HF_HUB_CACHE") or source.get("HUGGINGFACE_HUB_CACHE")
    return Path(cache_path).expanduser() if cache_path else _hub_home(source) / "hub"


def is_xet_off(environ: Mapping[str, str] | None = None) -> bool:
    """Tell whether Xet storage is switched off for all programs, as Hugging Face's own read it."""
    source = os.environ if environ is None else environ
    return source.get("HF_HUB_DISABLE_XET", "").upper() in {"1", "ON", "YES", "TRUE"}


def quieten_xet(folder: Path) -> None:
    """Have `hf_xet` write no log and keep to `folder`. It reads its environment, ours, when it is loaded.

    By itself it logs to ~/.cache/huggingface/xet/logs at every start, whatever HF_HOME says.
    """
    os.environ["HF_XET_LOG_DEST"] = os.devnull
    os.environ.setdefault("HF_XET_CACHE", str(folder))


def _hub_home(source: Mapping[str, str]) -> Path:
    home = source.get("HF_HOME")
    if home:
        return Path(home).expanduser()
    caches = source.get("XDG_CACHE_HOME")
    return (Path(caches).expanduser() if caches else Path.home() / ".cache") / "huggingface"


ATTACH_KEY = "ROUNDHOUSE_ATTACH_KEY"


def attach_key(environ: Mapping[str, str] | None = None) -> str:
    """Return the key for an endpoint that is being attached, where it is given out of other programs' sight."""
    source = os.environ if environ is None else environ
    return source.get(ATTACH_KEY, "").strip()


FLEET = "ROUNDHOUSE_FLEET"


def fleet_to_start(environ: Mapping[str, str] | None = None) -> Path | None:
    """Return the fleet file that `roundhouse serve --fleet` names; None where it names none."""
    source = os.environ if environ is None else environ
    return Path(source[FLEET]) if source.get(FLEET) else None


_DEVICE_NAMES = frozenset(
    {
        "CUDA_DEVICE_ORDER",
        "CUDA_VISIBLE_DEVICES",
        "GGML_VK_VISIBLE_DEVICES",
        "GPU_DEVICE_ORDINAL",
        "HIP_VISIBLE_DEVICES",
        "HSA_OVERRIDE_GFX_VERSION",
        "NVIDIA_VISIBLE_DEVICES",
        "ONEAPI_DEVICE_SELECTOR",
        "ROCR_VISIBLE_DEVICES",
        "ZE_AFFINITY_MASK",
    }
)
"""Which devices engines will see, in which order, and as what."""


def device_variables(environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return what `environ` (this process's own by default) says about which devices programs may see."""
    source = os.environ if environ is None else environ
    return {name: value for name, value in source.items() if name.upper() in _DEVICE_NAMES}


def current_appimage(environ: Mapping[str, str] | None = None) -> Path | None:
    """Return the AppImage this process runs from, as its runtime says; None when it runs from none.

    The variables are inherited by whatever an AppImage starts, so they count only for what lies in that very image.
    """
    source = os.environ if environ is None else environ
    image, mount_point = source.get("APPIMAGE"), source.get("APPDIR")
    if not image or not mount_point or not Path(sys.executable).is_relative_to(mount_point):
        return None
    return Path(image)


HANDED_SERVICE = "ROUNDHOUSE_HANDED_SERVICE"


def predecessor_service(environ: Mapping[str, str] | None = None) -> int | None:
    """Return the process of the service that a window started and handed to its successor; None without one."""
    source = os.environ if environ is None else environ
    pid = source.get(HANDED_SERVICE, "")
    return int(pid) if pid.isdecimal() else None


def forbids_color() -> bool:
    """Whether `NO_COLOR` asks for plain text (https://no-color.org): its value does not matter, unless it is empty."""
    return bool(os.environ.get("NO_COLOR"))


def search_endpoint(environ: Mapping[str, str] | None = None) -> tuple[str, str]:
    """Return the address of the SearXNG and the key for Brave Search that a server of tools was started with."""
    source = os.environ if environ is None else environ
    return source.get("SEARXNG_URL", ""), source.get("BRAVE_API_KEY", "")
