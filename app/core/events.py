"""What the gateway tells its clients while it happens (`GET /roundhouse/v1/events`, server-sent events).

An event says what changed, whole: a client replaces what it showed and needs no history. The stream opens with the
present status of every engine, so a client that asked before it listened has missed nothing. The `type` tag is the SSE
event name too.
"""

import msgspec

from app.core.benchmarks import RaceResult, TuneResult
from app.core.connections import Connection
from app.core.downloads import Download
from app.core.engine_store import EngineJob
from app.core.engines import EngineStatus, Pause
from app.core.library import LibraryJob
from app.core.quantize import QuantizeResult
from app.core.requests import RequestInfo
from app.core.trials import TrialResult
from app.core.updates import UpdateJob


class EngineChanged(msgspec.Struct, frozen=True, kw_only=True, tag="engine"):
    """An engine process changed state, progress or use."""

    status: EngineStatus


class ModelsChanged(msgspec.Struct, frozen=True, kw_only=True, tag="models"):
    """The list of models is not what it was."""


class ChatChanged(msgspec.Struct, frozen=True, kw_only=True, tag="chat"):
    """A chat was created, renamed, answered, restored or deleted."""

    chat: str
    deleted: bool = False


class ChatFoldersChanged(msgspec.Struct, frozen=True, kw_only=True, tag="chat_folders"):
    """A folder of chats was created, changed or deleted, or chats have other tags."""


class PresetsChanged(msgspec.Struct, frozen=True, kw_only=True, tag="presets"):
    """The library of presets is not what it was."""


class SettingChanged(msgspec.Struct, frozen=True, kw_only=True, tag="setting"):
    """A setting has a new value."""

    name: str


class LogLine(msgspec.Struct, frozen=True, kw_only=True, tag="log"):
    """One line an engine wrote. `stream` is "out" or "err"."""

    model: str
    stream: str
    text: str
    at: float


class Notice(msgspec.Struct, frozen=True, kw_only=True, tag="notice"):
    """Something a person should know now. `level` is "info", "warn" or "bad"."""

    level: str
    code: str
    sentence: str
    hint: str = ""


class CalibrationChanged(msgspec.Struct, frozen=True, kw_only=True, tag="calibration"):
    """A calibration that runs has come further, or has ended.

    `fraction` is 0..1, None when nobody knows; `error` is empty unless it failed, and `code` says how.
    """

    stage: str
    """What it does now, in words: "Reading speed of the processor"."""
    fraction: float | None = None
    done: bool = False
    error: str = ""
    code: str = ""


class DraftTrialChanged(msgspec.Struct, frozen=True, kw_only=True, tag="draft_trial"):
    """Trying drafts with a model has come further, or has ended; fields as for `CalibrationChanged`."""

    model: str
    stage: str
    fraction: float | None = None
    done: bool = False
    error: str = ""
    code: str = ""


class BenchmarkChanged(msgspec.Struct, frozen=True, kw_only=True, tag="benchmark"):
    """A benchmark has come further, or has ended; fields as for `CalibrationChanged`."""

    model: str
    stage: str
    fraction: float | None = None
    done: bool = False
    error: str = ""
    code: str = ""
    receipt: str = ""
    """The id of what came of it."""


class RaceChanged(msgspec.Struct, frozen=True, kw_only=True, tag="race"):
    """A race of engines has come further, or has ended; fields as for `CalibrationChanged`."""

    model: str
    stage: str
    fraction: float | None = None
    done: bool = False
    error: str = ""
    code: str = ""
    result: RaceResult | None = None


class TrialChanged(msgspec.Struct, frozen=True, kw_only=True, tag="trial"):
    """A shadow trial has come further, or has ended; fields as for `CalibrationChanged`."""

    model: str
    stage: str
    fraction: float | None = None
    done: bool = False
    error: str = ""
    code: str = ""
    result: TrialResult | None = None


class TuneChanged(msgspec.Struct, frozen=True, kw_only=True, tag="tuning"):
    """Looking for a model's fastest settings has come further, or has ended; fields as for `CalibrationChanged`."""

    model: str
    stage: str
    fraction: float | None = None
    done: bool = False
    error: str = ""
    code: str = ""
    result: TuneResult | None = None


class QuantizeChanged(msgspec.Struct, frozen=True, kw_only=True, tag="quantization"):
    """Making a model's EXL3 form has come further, or has ended; fields as for `CalibrationChanged`."""

    model: str
    stage: str
    fraction: float | None = None
    done: bool = False
    error: str = ""
    code: str = ""
    result: QuantizeResult | None = None


class EnginesChanged(msgspec.Struct, frozen=True, kw_only=True, tag="engines"):
    """The versions of an engine here, or which of them is used, are not what they were."""

    engine: str


class EngineJobChanged(msgspec.Struct, frozen=True, kw_only=True, tag="engine_job"):
    """An install, update or test of an engine has come further, or has ended."""

    job: EngineJob


class DownloadChanged(msgspec.Struct, frozen=True, kw_only=True, tag="download"):
    """A download was queued, came further, or has ended. While bytes come this is repeated a few times a second."""

    download: Download


class DownloadRemoved(msgspec.Struct, frozen=True, kw_only=True, tag="download_removed"):
    """A download is no longer on the list."""

    id: str


class LibraryJobChanged(msgspec.Struct, frozen=True, kw_only=True, tag="library_job"):
    """A check of files or a search for duplicates has come further, or has ended."""

    job: LibraryJob


class UpdatesChanged(msgspec.Struct, frozen=True, kw_only=True, tag="updates"):
    """What is known of newer versions of Roundhouse is not what it was."""


class UpdateJobChanged(msgspec.Struct, frozen=True, kw_only=True, tag="update_job"):
    """An installation of another version of Roundhouse has come further, or has ended."""

    job: UpdateJob


class RequestChanged(msgspec.Struct, frozen=True, kw_only=True, tag="request"):
    """A request at the endpoint came, moved on, or ended. While it goes on this is repeated about once a second."""

    request: RequestInfo


class RequestsForgotten(msgspec.Struct, frozen=True, kw_only=True, tag="requests_forgotten"):
    """The inspector's list was cleared; what goes on is still in it."""


class PauseChanged(msgspec.Struct, frozen=True, kw_only=True, tag="pause"):
    """A person has paused Roundhouse, or goes on."""

    pause: Pause


class ConnectionChanged(msgspec.Struct, frozen=True, kw_only=True, tag="connection"):
    """Another computer was called, or would have been. While bytes come this is repeated about once a second."""

    connection: Connection


class ConnectionsForgotten(msgspec.Struct, frozen=True, kw_only=True, tag="connections_forgotten"):
    """The list of connections was cleared."""


class McpServersChanged(msgspec.Struct, frozen=True, kw_only=True, tag="mcp_servers"):
    """A server of tools was added, changed or removed, or does something else than before."""


class AgentSessionsChanged(msgspec.Struct, frozen=True, kw_only=True, tag="agent_sessions"):
    """A session with a coding agent began, ended, was removed, or stands otherwise than before."""


class CollectionsChanged(msgspec.Struct, frozen=True, kw_only=True, tag="collections"):
    """A collection of documents was added, changed or removed, or is further than before."""


class ProfilesChanged(msgspec.Struct, frozen=True, kw_only=True, tag="profiles"):
    """A profile was saved or removed, another one is active, or what it loads is further."""


class MachinesChanged(msgspec.Struct, frozen=True, kw_only=True, tag="machines"):
    """A paired machine came, went or stands otherwise, or somebody may pair now, or no longer."""


class FleetsChanged(msgspec.Struct, frozen=True, kw_only=True, tag="fleets"):
    """A fleet was started, stopped or removed, or one of its replicas stands otherwise."""


Event = (
    EngineChanged
    | ModelsChanged
    | ChatChanged
    | ChatFoldersChanged
    | PresetsChanged
    | SettingChanged
    | LogLine
    | Notice
    | CalibrationChanged
    | DraftTrialChanged
    | BenchmarkChanged
    | RaceChanged
    | TrialChanged
    | TuneChanged
    | QuantizeChanged
    | EnginesChanged
    | EngineJobChanged
    | DownloadChanged
    | DownloadRemoved
    | LibraryJobChanged
    | UpdatesChanged
    | UpdateJobChanged
    | RequestChanged
    | RequestsForgotten
    | PauseChanged
    | ConnectionChanged
    | ConnectionsForgotten
    | McpServersChanged
    | AgentSessionsChanged
    | CollectionsChanged
    | ProfilesChanged
    | FleetsChanged
    | MachinesChanged
)
