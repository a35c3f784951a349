"""What a model's licence means for work that earns money: yes, no, or read its terms first.

Only licences whose text sets no condition on the user's business are "yes", and only those that forbid it are "no".
All others, and those nobody here read, are "ask": the figures in them (revenue, users) change with their versions.
"""

from enum import StrEnum

from app.core.translation import LazyText


class CommercialUse(StrEnum):
    """Whether a model may be used commercially."""

    YES = "yes"
    NO = "no"
    ASK = "ask"
    """On conditions, or nobody knows."""


_PERMISSIVE = frozenset(
    {
        "afl-3.0",
        "apache-2.0",
        "bsd-2-clause",
        "bsd-3-clause",
        "bsl-1.0",
        "cc-by-4.0",
        "cc-by-sa-4.0",
        "cc0-1.0",
        "cdla-permissive-2.0",
        "isc",
        "mit",
        "openmdw-1.1",
        "unlicense",
    }
)
_RESEARCH_ONLY = frozenset(
    {"apple-amlr", "cc-by-nc-2.0", "cc-by-nc-3.0", "cc-by-nc-4.0", "cc-by-nc-nd-4.0", "cc-by-nc-sa-4.0", "exaone"}
    | {"fair-noncommercial-research-license", "intel-research", "mistral-research-license", "mnpl", "qwen-research"}
)
_CONDITIONAL = frozenset(
    {"bigcode-openrail-m", "deepseek-license", "falcon-llm-license", "gemma", "glm-5.3", "iquestcoder", "k-exaone"}
    | {"health-ai-developer-foundations", "kimi-k3", "lfm1.0", "llama3.1", "llama3.2", "llama3.3", "llama4"}
    | {"minimax-community", "modified-mit", "nvidia-nemotron-open-model-license", "nvidia-open-model-license", "qwen"}
    | {"qwen-community-1.0", "qwen3.8-max", "tencent-hunyuan-a13b", "tencent-hunyuan-community"}
    | {"upstage-solar-license"}
)
"""Of the makers' own: limits of users or revenue, of places or uses, or a text that nobody here read in full."""
_SENTENCES = {
    CommercialUse.YES: LazyText("commercial use allowed ({licence})"),
    CommercialUse.NO: LazyText("no commercial use ({licence})"),
    CommercialUse.ASK: LazyText("commercial use: read its terms ({licence})"),
}
_UNKNOWN = LazyText("licence unknown: ask its makers before commercial use")


def commercial_use(licence: str) -> CommercialUse:
    """Return what a licence, as the hub writes it ("apache-2.0"), means for commercial use."""
    name = licence.casefold()
    if name in _PERMISSIVE:
        return CommercialUse.YES
    return CommercialUse.NO if name in _RESEARCH_ONLY else CommercialUse.ASK


def is_classified(licence: str) -> bool:
    """Tell whether somebody put a licence into one of the classes; any other is "ask"."""
    return licence.casefold() in _PERMISSIVE | _RESEARCH_ONLY | _CONDITIONAL


def licence_words(licence: str) -> str:
    """Return the licence in plain words: "commercial use allowed (apache-2.0)"."""
    if not licence:
        return _UNKNOWN.tr()
    return _SENTENCES[commercial_use(licence)].tr(licence=licence)
