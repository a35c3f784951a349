"""Every setting there is, as data. Validation, the command line, the settings page and the manual derive from this.

A default is what a person who never opens the settings should have. Names are `section.name` and never change meaning;
a renamed setting keeps its old name in `formerly`.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from app.config import checks
from app.core.api import SettingValue


class SettingKind(StrEnum):
    """How a setting is written and shown."""

    BOOL = "bool"
    INT = "int"
    FLOAT = "float"
    TEXT = "text"
    CHOICE = "choice"
    LIST = "list"


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One row. `check` returns what is wrong with a well-typed value, in a sentence, or an empty string."""

    name: str
    title: str
    help: str
    kind: SettingKind
    default: SettingValue
    choices: tuple[str, ...] = ()
    minimum: float | None = None
    maximum: float | None = None
    unit: str = ""
    needs_restart: bool = False
    formerly: tuple[str, ...] = ()
    separator: str = ""
    """Between the items of a list, as it is typed in one piece."""
    check: Callable[[SettingValue], str] = lambda _value: ""

    @property
    def section(self) -> str:
        """The part of the name before the dot."""
        return self.name.partition(".")[0]

    @property
    def variable(self) -> str:
        """The environment variable that overrides it: `ROUNDHOUSE_GATEWAY_PORT` for `gateway.port`."""
        return "ROUNDHOUSE_" + self.name.replace(".", "_").upper()


_MENDS = (
    ("less_context", "Use a shorter context automatically", "with a shorter context"),
    ("fewer_slots", "Answer one request at a time automatically", "for one request at a time"),
    ("smaller_cache", "Use a smaller KV cache automatically", "with a quantised KV cache"),
    ("fewer_layers", "Use the GPU for fewer layers automatically", "with fewer layers on the GPU"),
    ("less_gpu_memory", "Use less GPU memory automatically", "with the share of GPU memory that is free"),
)
"""Remedies for a load that fails (`engines.api.RemedyKind`) which a person can have applied."""


SETTINGS: tuple[Setting, ...] = (
    Setting(
        name="gateway.host",
        title="Address",
        help="Where the endpoint listens. At 0.0.0.0 other computers can reach it, but only with an access key.",
        kind=SettingKind.TEXT,
        default="127.0.0.1",
        needs_restart=True,
        check=checks.address_only,
    ),
    Setting(
        name="gateway.port",
        title="Port",
        help="Ollama's port, so that its clients need no change. If it is taken, the next free one is used.",
        kind=SettingKind.INT,
        default=11434,
        minimum=1,
        maximum=65535,
        needs_restart=True,
    ),
    Setting(
        name="gateway.max_body_mib",
        title="Largest request",
        help="A request larger than this is refused.",
        kind=SettingKind.INT,
        default=32,
        minimum=1,
        maximum=1024,
        unit="MiB",
        needs_restart=True,
    ),
    Setting(
        name="gateway.allowed_origins",
        title="Web pages that may call the endpoint",
        help="Origins such as https://example.org. Pages on this computer and editor extensions may always call it.",
        kind=SettingKind.LIST,
        default=[],
        separator=",",
        needs_restart=True,
        check=checks.origins_only,
    ),
    Setting(
        name="gateway.allowed_hosts",
        title="Names the endpoint answers to",
        help="Names other than localhost, such as those of a reverse proxy or your network. These require a key.",
        kind=SettingKind.LIST,
        default=[],
        separator=",",
        needs_restart=True,
        check=checks.names_only,
    ),
    Setting(
        name="gateway.require_key",
        title="Ask for a key on this computer too",
        help="Programs on this computer need an access key as well. Other computers always do.",
        kind=SettingKind.BOOL,
        default=False,
    ),
    Setting(
        name="machines.enabled",
        title="Use models of your other computers",
        help="Lets machines paired with this one use its models, and shows theirs here. Nobody else can connect.",
        kind=SettingKind.BOOL,
        default=False,
    ),
    Setting(
        name="machines.balance",
        title="Let the computer answer that will be first",
        help="A model that several of your computers have is asked where its answer is expected first. "
        "Off, one that is here is asked here.",
        kind=SettingKind.BOOL,
        default=False,
    ),
    Setting(
        name="machines.wake",
        title="Wake a computer whose model is asked",
        help="A request for a model of a paired computer that sleeps wakes that over the network, and waits for it.",
        kind=SettingKind.BOOL,
        default=False,
    ),
    Setting(
        name="machines.share_files",
        title="Give model files to your other computers",
        help="A paired computer that downloads a model which is in the hub's cache here fetches it from this one.",
        kind=SettingKind.BOOL,
        default=False,
    ),
    Setting(
        name="machines.share_limit_mb_s",
        title="Speed limit for files given to your other computers",
        help="For all of them together; 0 means no limit.",
        kind=SettingKind.INT,
        default=0,
        minimum=0,
        maximum=100_000,
        unit="MB/s",
    ),
    Setting(
        name="machines.host",
        title="Address for your other computers",
        help="Where this machine listens for paired ones; 0.0.0.0 is every network it is in.",
        kind=SettingKind.TEXT,
        default="0.0.0.0",  # noqa: S104 -- only machines with a pinned certificate get in
        needs_restart=True,
        check=checks.address_only,
    ),
    Setting(
        name="machines.port",
        title="Port for your other computers",
        help="If it is taken, the next free one is used.",
        kind=SettingKind.INT,
        default=11643,
        minimum=1,
        maximum=65535,
        needs_restart=True,
    ),
    Setting(
        name="machines.name",
        title="Name of this computer",
        help="What your other computers call it. Empty: as the system does.",
        kind=SettingKind.TEXT,
        default="",
        check=checks.machine_name_only,
    ),
    Setting(
        name="gateway.queue_limit",
        title="Requests that may wait",
        help="How many may wait for one model, with clients taking turns. Further ones are asked to try again later.",
        kind=SettingKind.INT,
        default=128,
        minimum=1,
        maximum=10_000,
    ),
    Setting(
        name="models.default",
        title="Model for new chats",
        help="The model a new chat starts with. Until you choose one, it is the model you used last.",
        kind=SettingKind.TEXT,
        default="guide",
    ),
    Setting(
        name="models.autocomplete",
        title="Model for code completion",
        help="Completes code while you type in an editor. It stays loaded beside the model you chat with, as long as "
        "there is room for both. Empty: none.",
        kind=SettingKind.TEXT,
        default="",
    ),
    Setting(
        name="chats.overflow",
        title="When a conversation is longer than the context",
        help="stop tells you; cut leaves the oldest messages out; summarise has the model sum them up first. Each chat "
        "can choose otherwise.",
        kind=SettingKind.CHOICE,
        default="stop",
        choices=("stop", "cut", "summarise"),
    ),
    Setting(
        name="chats.titles",
        title="Titles by the model",
        help="After the first answer its model names the chat. It gives way to your next question; your own titles "
        "stay.",
        kind=SettingKind.BOOL,
        default=False,
    ),
    Setting(
        name="chats.guide_model",
        title="A loaded model answers for the Guide",
        help="While a model that calls tools is loaded, it writes the Guide's answers from what the Guide looks up.",
        kind=SettingKind.BOOL,
        default=True,
    ),
    Setting(
        name="chats.tool_servers",
        title="Tools of new chats",
        help="Names of MCP servers whose tools the model of a new chat may call. You are asked before each call.",
        kind=SettingKind.LIST,
        default=[],
        separator=",",
    ),
    Setting(
        name="agents.enabled",
        title="Coding agents",
        help="Lets coding agents that are installed here work in folders you choose, with your models. You are asked "
        "before they change files or run commands.",
        kind=SettingKind.BOOL,
        default=False,
    ),
    Setting(
        name="documents.embedding_model",
        title="Model that compares documents by meaning",
        help="An embedding model. Empty uses one that is on this computer; none finds documents by their words only. "
        "With another model, collections are compared anew.",
        kind=SettingKind.TEXT,
        default="",
    ),
    Setting(
        name="documents.reranker",
        title="Model that ranks passages",
        help="A reranker, which puts the passages that were found in order. Empty uses one that is on this computer; "
        "none uses none.",
        kind=SettingKind.TEXT,
        default="",
    ),
    Setting(
        name="models.aliases",
        title="Model aliases",
        help="Written like claude-*=my-model, for programs that request models you do not have. `auto` is the model in "
        "use.",
        kind=SettingKind.LIST,
        default=["claude-*=auto"],
        separator=",",
        check=checks.aliases_only,
    ),
    Setting(
        name="models.fallback",
        title="Model for any other name",
        help="Answers requests for models that you do not have. Empty refuses them; `auto` is the model in use.",
        kind=SettingKind.TEXT,
        default="",
    ),
    Setting(
        name="models.check_calls",
        title="Check tool calls",
        help=(
            "A tool call whose arguments its tool would refuse, and an answer of nothing, are asked for once more, "
            "with what is wrong. Calls arrive whole then, but for long ones. Attached endpoints are not checked."
        ),
        kind=SettingKind.BOOL,
        default=True,
    ),
    Setting(
        name="models.folders",
        title="Model folders",
        help="Folders to search for model files, besides Roundhouse's own. Files are used in place, not copied.",
        kind=SettingKind.LIST,
        default=[],
        separator=os.pathsep,
        check=checks.whole_paths_only,
    ),
    Setting(
        name="models.other_programs",
        title="Use other programs' models",
        help="List the models of Ollama, LM Studio, llama.cpp, Jan and GPT4All. Files are used in place, not copied.",
        kind=SettingKind.BOOL,
        default=True,
    ),
    Setting(
        name="models.context",
        title="Context",
        help="Tokens of conversation a model keeps at once, if it was trained for that many. More takes more memory.",
        kind=SettingKind.INT,
        default=8192,
        minimum=256,
        maximum=4_194_304,
        unit="tokens",
    ),
    Setting(
        name="models.slots",
        title="Requests at once",
        help="How many requests one model answers at the same time. Each keeps its own context in memory.",
        kind=SettingKind.INT,
        default=4,
        minimum=1,
        maximum=256,  # for all models: what llama.cpp takes (`LLAMA_MAX_SEQ`); one model can be set to more
    ),
    Setting(
        name="models.max_loaded",
        title="Models kept loaded",
        help="The most models loaded at once; 0 leaves it to memory. The least useful idle ones are unloaded first.",
        kind=SettingKind.INT,
        default=0,
        minimum=0,
        maximum=64,
    ),
    Setting(
        name="models.idle_minutes",
        title="Unload after",
        help="An unused model is unloaded after this many minutes; 0 keeps it.",
        kind=SettingKind.INT,
        default=30,
        minimum=0,
        maximum=10_080,
        unit="minutes",
    ),
    Setting(
        name="models.refuse_too_large",
        title="Refuse models that do not fit",
        help="Refuse to load a model that needs more memory than there is. Off: try it, with no other model loaded.",
        kind=SettingKind.BOOL,
        default=True,
    ),
    Setting(
        name="models.try_drafts",
        title="Try drafts",
        help="Try once with each loaded model, while nobody uses anything, whether drafting ahead makes it faster.",
        kind=SettingKind.BOOL,
        default=True,
    ),
    Setting(
        name="models.yield_below_mib",
        title="Free memory for other programs",
        help="Unload idle models while less memory than this is free, and load them again once there is enough. 0: "
        "never.",
        kind=SettingKind.INT,
        default=0,
        minimum=0,
        maximum=1_048_576,
        unit="MiB",
    ),
    Setting(
        name="engine.stall_seconds",
        title="Give up loading after",
        help="An engine that shows no sign of life for this long while loading is stopped. Some engines take longer.",
        kind=SettingKind.INT,
        default=120,
        minimum=5,
        maximum=3600,
        unit="seconds",
    ),
    Setting(
        name="engine.drain_seconds",
        title="Wait for running answers",
        help="How long stopping a model waits for answers in progress.",
        kind=SettingKind.INT,
        default=30,
        minimum=0,
        maximum=3600,
        unit="seconds",
    ),
    *(
        Setting(
            name=f"engine.mend_{kind}",
            title=title,
            help=f"When a model does not fit, load it {how} without asking, and show that next to it.",
            kind=SettingKind.BOOL,
            default=False,
        )
        for kind, title, how in _MENDS
    ),
    Setting(
        name="engine.mend_other_runtime",
        title="Use another runtime automatically",
        help="When a version of an engine cannot run a model here, use another installed version, and show that.",
        kind=SettingKind.BOOL,
        default=False,
    ),
    Setting(
        name="engine.allow_outdated",
        title="Run outdated engines",
        help="Start versions of engines that have published security holes, such as llama.cpp before b9061.",
        kind=SettingKind.BOOL,
        default=False,
    ),
    Setting(
        name="engine.share_cache",
        title="Share the prompt cache between keys",
        help="Let requests with different keys use one prompt cache. They are answered sooner, and could find out by "
        "guessing what others have asked.",
        kind=SettingKind.BOOL,
        default=False,
    ),
    Setting(
        name="engine.kept_prompts_disk_mib",
        title="Prompts kept on disk",
        help="Long prompts that an engine has read are kept, sealed with a key of your keyring, and need not be read "
        "again after the model was unloaded or Roundhouse restarted. 0 keeps none.",
        kind=SettingKind.INT,
        default=4096,
        minimum=0,
        maximum=1_000_000,
        unit="MiB",
    ),
    Setting(
        name="engine.kept_prompts_memory_mib",
        title="Prompts kept in memory",
        help="Where there is no keyring or no room on the disk, such prompts are kept until Roundhouse ends. "
        "0 keeps none.",
        kind=SettingKind.INT,
        default=256,
        minimum=0,
        maximum=1_000_000,
        unit="MiB",
    ),
    Setting(
        name="engines.preferred",
        title="Engines to prefer",
        help="If several installed engines can read a model's format, the first of these runs it.",
        kind=SettingKind.LIST,
        default=[],
        separator=",",
    ),
    Setting(
        name="engines.confine",
        title="Confine engines",
        help="On Linux, engines read their model and their own programs only, and connect to no other computer. "
        "Off: an engine, and whatever a model makes it do, may do all that you may. It counts from the next load on.",
        kind=SettingKind.BOOL,
        default=True,
    ),
    Setting(
        name="engines.unconfined",
        title="Engines that are not confined",
        help="Identifiers such as vllm. These engines, and whatever a model makes them do, may do all that you may.",
        kind=SettingKind.LIST,
        default=[],
        separator=",",
    ),
    Setting(
        name="engines.releases_url",
        title="Address of the engine releases",
        help="GitHub's API, or a mirror with the same API.",
        kind=SettingKind.TEXT,
        default="https://api.github.com",
        check=checks.https_only,
    ),
    Setting(
        name="network.offline",
        title="Stay offline",
        help="Connect to no other computer: no downloads, no remote endpoints. Everything installed keeps working.",
        kind=SettingKind.BOOL,
        default=False,
    ),
    Setting(
        name="catalogue.url",
        title="Catalogue of models",
        help="Where to download a newer list of recommended models, with its signature next to it as .sig.",
        kind=SettingKind.TEXT,
        default="",
        check=checks.https_or_nothing,
    ),
    Setting(
        name="catalogue.least_speed",
        title="Slowest recommended model",
        help="Tokens per second below which a model is not recommended for chat, however good its answers are.",
        kind=SettingKind.INT,
        default=10,  # faster than people read, about five to eight
        minimum=1,
        maximum=1000,
    ),
    Setting(
        name="catalogue.key",
        title="Key of the catalogue",
        help="Public Ed25519 key in base64. A catalogue not signed by it is refused.",
        kind=SettingKind.TEXT,
        default="",
        check=checks.key_or_nothing,
    ),
    Setting(
        name="updates.weekly",
        title="Check for updates every week",
        help="Check once a week for a newer version of Roundhouse. It is never installed without asking you.",
        kind=SettingKind.BOOL,
        default=False,
    ),
    Setting(
        name="updates.channel",
        title="Update channel",
        help="Stable versions, or versions that are still being tested.",
        kind=SettingKind.CHOICE,
        default="stable",
        choices=("stable", "beta"),
    ),
    Setting(
        name="updates.url",
        title="Address of the updates",
        help="The folder that holds stable.json and stable.json.sig; or a mirror of your own.",
        kind=SettingKind.TEXT,
        default="https://roundhouse.invalid/updates",
        check=checks.https_only,
    ),
    Setting(
        name="downloads.at_once",
        title="Downloads at once",
        help="How many models download at the same time; the others wait their turn.",
        kind=SettingKind.INT,
        default=1,
        minimum=1,
        maximum=8,
    ),
    Setting(
        name="downloads.limit_mb_s",
        title="Download speed limit",
        help="For all downloads together; 0 means no limit.",
        kind=SettingKind.INT,
        default=0,
        minimum=0,
        maximum=100_000,
        unit="MB/s",
    ),
    Setting(
        name="downloads.from_machines",
        title="Download from your other computers first",
        help="A file that a paired computer has and gives out comes from there; the hub is where the rest comes from.",
        kind=SettingKind.BOOL,
        default=True,
    ),
    Setting(
        name="downloads.xet",
        title="Hugging Face's Xet storage",
        help="Downloads large files from Xet where the hub offers it, while only one download runs and there is no "
        "speed limit. Off: everything over plain HTTP.",
        kind=SettingKind.CHOICE,
        default="auto",
        choices=("auto", "off"),
    ),
    Setting(
        name="inspector.requests",
        title="Requests remembered",
        help="How many of the latest requests can be inspected. They are kept in memory only.",
        kind=SettingKind.INT,
        default=200,
        minimum=10,
        maximum=10_000,
    ),
    Setting(
        name="inspector.bodies",
        title="Keep request contents",
        help="Keep the first 32 KiB of each request and answer in memory, to be read on the Server page. Never logged.",
        kind=SettingKind.BOOL,
        default=False,
    ),
    Setting(
        name="traces.endpoint",
        title="Send traces to",
        help="Address of an OpenTelemetry collector (OTLP over HTTP) that is told of each request, such as "
        "http://127.0.0.1:4318. Empty: none.",
        kind=SettingKind.TEXT,
        default="",
        check=checks.collector_or_nothing,
    ),
    Setting(
        name="traces.contents",
        title="Prompts and answers in traces",
        help="The first 8 KiB of each request and answer go to the collector too. Off: figures and names only.",
        kind=SettingKind.BOOL,
        default=False,
    ),
    Setting(
        name="responses.mcp_servers",
        title="Tools for programs",
        help="Names of MCP servers whose tools programs may have models call (`mcp` tools of /v1/responses). A program "
        "approves calls of tools that you have neither allowed nor blocked. Empty: none.",
        kind=SettingKind.LIST,
        default=[],
        separator=",",
    ),
    Setting(
        name="responses.kept",
        title="Responses kept",
        help="How many answers of the Responses API are kept for clients that continue one by its id; 0 for none.",
        kind=SettingKind.INT,
        default=1000,
        minimum=0,
        maximum=100_000,
    ),
    Setting(
        name="responses.days",
        title="Keep responses for",
        help="Responses that have not been continued for this long are deleted.",
        kind=SettingKind.INT,
        default=30,
        minimum=1,
        maximum=3650,
        unit="days",
    ),
    Setting(
        name="window.theme",
        title="Appearance",
        help="Follow the system, or always use one.",
        kind=SettingKind.CHOICE,
        default="system",
        choices=("system", "light", "dark"),
    ),
    Setting(
        name="window.scale",
        title="Size of text and controls",
        help="Ctrl + and Ctrl - change it too.",
        kind=SettingKind.INT,
        default=100,
        minimum=80,
        maximum=200,
        unit="%",
    ),
    Setting(
        name="window.reduce_motion",
        title="Reduce motion",
        help="Show changes at once instead of fading.",
        kind=SettingKind.BOOL,
        default=False,
    ),
    Setting(
        name="window.at_login",
        title="Open when I log in",
        help="The window opens automatically after each log-in. No model is loaded until you use one.",
        kind=SettingKind.BOOL,
        default=False,
    ),
    Setting(
        name="window.tray",
        title="Show an icon in the system tray",
        help="Shows running models and their memory, pauses them, and reopens a closed window, on systems with a tray.",
        kind=SettingKind.BOOL,
        default=True,
    ),
    Setting(
        name="window.ask_on_close",
        title="Ask when the window closes",
        help="Ask whether the service should keep running. Off: the next setting decides.",
        kind=SettingKind.BOOL,
        default=True,
    ),
    Setting(
        name="window.keep_serving",
        title="Keep serving when the window closes",
        help="Editors and other programs can go on using the endpoint. Quitting always stops it.",
        kind=SettingKind.BOOL,
        default=False,
    ),
)

BY_NAME: dict[str, Setting] = {alias: row for row in SETTINGS for alias in (row.name, *row.formerly)}
