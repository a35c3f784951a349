"""Which models answer and how they stay loaded (`models`), and what chats, coding agents and documents do with them."""

import os

from app.config import checks
from app.config.setting import Setting, SettingKind

MODELS_SETTINGS: tuple[Setting, ...] = (
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
)
