"""Where Roundhouse keeps things: one answer per platform, movable as a whole with `ROUNDHOUSE_HOME`.

Nothing is created by asking; `Paths.create_folders()` makes the folders, private to the user.

Where other programs of this person keep their settings: the folders of each platform, and what the shell moved.

Only read, never made: `app.connect` decides which of them it may write.
"""

import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import platformdirs

from app.config.environment import hub_cache

APP = "roundhouse"
PROGRAM = Path(__file__).resolve().parents[2]
"""The folder this copy of the program lies in."""
RESOURCES = PROGRAM / "resources"
DOCS = PROGRAM / "docs"
"""The manual: `guide` and `reference` come with every copy."""


@dataclass(frozen=True, slots=True)
class Paths:
    """Absolute folders and files of one installation."""

    config: Path
    data: Path
    state: Path
    """Port file, lock, process records: things that are about the running gateway."""
    logs: Path
    shared_hub: Path | None = None
    """Where other programs keep what they fetch from a hub; None keeps what we fetch among our own data."""

    @property
    def hub_cache(self) -> Path:
        """Where models of a hub are kept, as Hugging Face's own programs lay it out."""
        return self.shared_hub or self.data / "hub"

    @property
    def hub_answers(self) -> Path:
        """What a hub said of models, for when it cannot be asked."""
        return self.data / "hub-answers"

    @property
    def hub_token_file(self) -> Path:
        """Where the hub's token is kept, or the token itself, mode 0600."""
        return self.config / "hub-token.json"

    @property
    def trace_headers_file(self) -> Path:
        """Where the headers for traces are kept, or the headers themselves, mode 0600."""
        return self.config / "trace-headers.json"

    @property
    def engine_homes(self) -> Path:
        """What engines keep between runs, such as kernels they compiled: a folder for each, which is its home."""
        return self.data / "engine-homes"

    @property
    def updates(self) -> Path:
        """What is known of newer versions of Roundhouse, and what was fetched of them."""
        return self.data / "updates"

    @property
    def update_keys_file(self) -> Path:
        """Keys that sign a person's own versions of Roundhouse. No setting: who may change those may run nothing."""
        return self.config / "update-keys.txt"

    @property
    def downloads_file(self) -> Path:
        """The downloads that wait, run or have ended."""
        return self.data / "downloads.json"

    @property
    def settings_file(self) -> Path:
        """The settings a person changed."""
        return self.config / "settings.toml"

    @property
    def model_settings_file(self) -> Path:
        """What a person set for single models."""
        return self.config / "models.toml"

    @property
    def profiles_file(self) -> Path:
        """Sets of models with their pins, contexts and aliases."""
        return self.config / "profiles.toml"

    @property
    def machine_identity_file(self) -> Path:
        """The certificate and the encrypted private key that paired machines know this one by, mode 0600."""
        return self.config / "machine-identity.pem"

    @property
    def tunnel_file(self) -> Path:
        """The machines that models may lie on beside this one, and their certificates."""
        return self.config / "tunnel.toml"

    @property
    def machines_file(self) -> Path:
        """The machines paired with this one, and their certificates."""
        return self.config / "machines.json"

    @property
    def mcp_file(self) -> Path:
        """The servers of tools a person set up, as other programs write them, mode 0600: they may hold secrets."""
        return self.config / "mcp.json"

    @property
    def mcp_permissions_file(self) -> Path:
        """Which of their tools models may call."""
        return self.config / "mcp-permissions.json"

    @property
    def mcp_sign_ins_file(self) -> Path:
        """What servers of tools trust this installation with, after a person signed in to them."""
        return self.config / "mcp-sign-ins.json"

    @property
    def mcp_homes(self) -> Path:
        """What servers of tools keep between runs: a folder for each."""
        return self.data / "mcp-homes"

    @property
    def agent_homes(self) -> Path:
        """What coding agents that are hosted keep between runs: a folder for each, which is its home."""
        return self.data / "agent-homes"

    @property
    def agent_sessions(self) -> Path:
        """Sessions with coding agents: how each stands, and its transcript."""
        return self.data / "agent-sessions"

    @property
    def collections(self) -> Path:
        """Collections of documents: a folder for each, with its index and the files that programs gave it."""
        return self.data / "collections"

    @property
    def endpoint_files(self) -> Path:
        """Files that programs uploaded at the endpoint."""
        return self.data / "endpoint-files"

    @property
    def warm_prompts(self) -> Path:
        """What engines have read, sealed with a key of the system's keyring."""
        return self.data / "kept-prompts"

    @property
    def attachment_indexes(self) -> Path:
        """Indexes of files of chats that are too long to be given whole; they are made again if need be."""
        return self.data / "attachment-indexes"

    @property
    def manual_index(self) -> Path:
        """The index of the manual, made again if need be."""
        return self.data / "manual-index"

    @property
    def keys_file(self) -> Path:
        """The access keys, hashed, mode 0600. Not in the database: see `gateway.keys`."""
        return self.config / "keys.json"

    @property
    def database(self) -> Path:
        """Conversations and usage."""
        return self.data / "roundhouse.db"

    @property
    def models(self) -> Path:
        """The folder that is looked through for model files without being told."""
        return self.data / "models"

    @property
    def marker_file(self) -> Path:
        """Says that Roundhouse keeps its things here, so that `roundhouse uninstall` may remove them."""
        return self.data / ".roundhouse"

    @property
    def is_in_own_folders(self) -> bool:
        """Whether these are the platform's folders, which carry our name; else somebody chose where they are."""
        return self.data.name.casefold() == APP

    @property
    def lock_file(self) -> Path:
        """Held for as long as a gateway runs."""
        return self.state / "gateway.lock"

    @property
    def port_file(self) -> Path:
        """`core.api.PortFile` as JSON, mode 0600."""
        return self.state / "gateway.json"

    @property
    def engine_records(self) -> Path:
        """One file per live engine process, so that the next start can reap orphans."""
        return self.state / "engines"

    def create_folders(self) -> None:
        """Make the folders, readable by their owner only."""
        for folder in (self.config, self.data, self.state, self.logs, self.models, self.engine_records):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with suppress(FileExistsError):
            self.marker_file.touch(mode=0o600, exist_ok=False)


def default_paths() -> Paths:
    """Return this user's folders: below `ROUNDHOUSE_HOME` if that is set, else where the platform wants them."""
    home = os.environ.get("ROUNDHOUSE_HOME")
    if home:
        base = Path(home).expanduser().resolve()
        return Paths(config=base / "config", data=base / "data", state=base / "state", logs=base / "logs")
    platform_dirs = platformdirs.PlatformDirs(APP, appauthor=False)
    return Paths(
        config=Path(platform_dirs.user_config_dir),
        data=Path(platform_dirs.user_data_dir),
        state=Path(platform_dirs.user_state_dir) / "run",
        logs=Path(platform_dirs.user_log_dir),
        shared_hub=hub_cache(),
    )


def expand_path(path: str | Path) -> Path:
    """Return a path with the home folder for a leading ~; as it is, where ~name is nobody here."""
    try:
        return Path(path).expanduser()
    except RuntimeError:
        return Path(path)


def guide_gguf() -> Path:
    """Return the file of the built-in help model as llama.cpp reads it."""
    return RESOURCES / "guide" / "guide-q8_0.gguf"


_NAMED = (
    *("CLAUDE_CONFIG_DIR", "CODEX_HOME", "LLM_USER_PATH", "LLAMA_CACHE", "OLLAMA_MODELS"),
    *("HERMES_HOME", "KIMI_CODE_HOME", "PI_CODING_AGENT_DIR", "VIBE_HOME"),
    *("LOCALAPPDATA", "XDG_CACHE_HOME", "XDG_DATA_HOME"),
)
"""Variables by which a tool, or every tool of a system, is told where its own folder is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Home:
    """The folders of one person. `system` is "linux", "macos" or "windows"."""

    system: str
    folder: Path
    config: Path
    """`XDG_CONFIG_HOME`, or ~/.config: command-line tools use it on every system."""
    support: Path
    """Where desktop programs keep settings: ~/.config, ~/Library/Application Support, or %APPDATA%."""
    search: tuple[Path, ...] = ()
    """The folders of `PATH`."""
    variable_folders: Mapping[str, Path] = field(default_factory=dict)
    """Folders that a variable names, by the variable."""


def this_home(environ: Mapping[str, str] | None = None, platform: str = sys.platform) -> Home:
    """Return the folders of the person this process runs as, on `platform` (a `sys.platform`)."""
    source = os.environ if environ is None else environ
    system = {"win32": "windows", "darwin": "macos"}.get(platform, "linux")
    home = source.get("USERPROFILE" if system == "windows" else "HOME")
    folder = Path(home) if home else Path.home()
    config = _absolute_path(source.get("XDG_CONFIG_HOME")) or folder / ".config"
    support = {
        "linux": config,
        "macos": folder / "Library" / "Application Support",
        "windows": _absolute_path(source.get("APPDATA")) or folder / "AppData" / "Roaming",
    }[system]
    return Home(
        system=system,
        folder=folder,
        config=config,
        support=support,
        search=tuple(Path(part) for part in source.get("PATH", "").split(os.pathsep) if part),
        variable_folders={name: Path(source[name]).expanduser() for name in _NAMED if source.get(name)},
    )


def _absolute_path(text: str | None) -> Path | None:
    """Return the folder `text` names; a relative one is void, as the XDG specification says."""
    return Path(text) if text and Path(text).is_absolute() else None
