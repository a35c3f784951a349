"""How engines are started, stopped and helped after a failure (`engine`), and which are used (`engines`)."""

from app.config import checks
from app.config.setting import Setting, SettingKind

_AUTOMATIC_REMEDIES = (
    ("less_context", "Use a shorter context automatically", "with a shorter context"),
    ("fewer_slots", "Answer one request at a time automatically", "for one request at a time"),
    ("smaller_cache", "Use a smaller KV cache automatically", "with a quantised KV cache"),
    ("fewer_layers", "Use the GPU for fewer layers automatically", "with fewer layers on the GPU"),
    ("less_gpu_memory", "Use less GPU memory automatically", "with the share of GPU memory that is free"),
)
"""Remedies for a load that fails (`engines.api.RemedyKind`) which a person can have applied."""

ENGINES_SETTINGS: tuple[Setting, ...] = (
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
        for kind, title, how in _AUTOMATIC_REMEDIES
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
)
