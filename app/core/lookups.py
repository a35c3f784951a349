"""What is looked up for agents, for the Guide, and for a model in its place: names, descriptions and arguments.

`roundhouse mcp serve` asks for it over the gateway's API, the Guide within the gateway; both answer with
`core.tool_results`. A description is written for a model that has to decide whether to call it.
"""

from collections.abc import Mapping
from typing import Annotated, Any

import msgspec

from app.core.advice import Intent
from app.core.guide import GuideTool
from app.core.hub import HubUse
from app.core.tool_results import (
    EstimateAnswer,
    InstalledModels,
    ManualAnswer,
    PlanAnswer,
    SearchAnswer,
    ServiceStatus,
)

_Name = Annotated[str, msgspec.Meta(min_length=1, max_length=500)]


class NoArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A tool without arguments."""


class ModelsArguments(NoArguments, frozen=True, forbid_unknown_fields=True):
    """The list of models is asked for whole."""


class PlanArguments(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What to plan."""

    model: Annotated[str, msgspec.Meta(description="A name, file or repository; empty for the best model here.")] = ""
    use: Intent = Intent.CHAT
    users: Annotated[int, msgspec.Meta(ge=1, le=100_000, description="Users at once.")] = 1
    context: Annotated[int, msgspec.Meta(ge=1, description="Tokens of context per conversation.")] | None = None


class EstimateArguments(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What to estimate."""

    model: Annotated[_Name, msgspec.Meta(description="A name of the catalogue or the library, or a repository.")]
    context: Annotated[int, msgspec.Meta(ge=1, description="Tokens of context per conversation.")] | None = None
    slots: Annotated[int, msgspec.Meta(ge=1, le=1024, description="Conversations at once.")] | None = None


class SearchArguments(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What to look for: words, or a use."""

    text: Annotated[str, msgspec.Meta(max_length=200, description="Words of a model's name, to search the hub.")] = ""
    best: (
        Annotated[HubUse, msgspec.Meta(description="The best of the catalogue for this use; works offline.")] | None
    ) = None
    format: Annotated[str, msgspec.Meta(max_length=32, description="gguf, mlx, exl3 ...")] = ""


class ManualArguments(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What to look for in the manual."""

    text: Annotated[str, msgspec.Meta(min_length=1, max_length=500, description="Words of what is to be found.")]


class Lookup(msgspec.Struct, frozen=True, kw_only=True):
    """One lookup. `arguments` and `answer` are Structs; one that `reaches_hub` may ask another computer."""

    title: str
    description: str
    arguments: type[msgspec.Struct]
    answer: type[msgspec.Struct]
    reaches_hub: bool = False


LOOKUPS: Mapping[GuideTool, Lookup] = {
    GuideTool.STATUS: Lookup(
        title="Status of Roundhouse",
        description="The local AI service on this computer: its endpoint, the models in memory, and the downloads.",
        arguments=NoArguments,
        answer=ServiceStatus,
    ),
    GuideTool.LIST_MODELS: Lookup(
        title="Installed models",
        description="The models on this computer and on attached endpoints, by the names that load and ask take.",
        arguments=ModelsArguments,
        answer=InstalledModels,
    ),
    GuideTool.PLAN: Lookup(
        title="Plan a model",
        description=(
            "The best engine, quantisation and context for a model on this computer, with predicted memory and speed, "
            "reasons, and what is missing. Without a model: which models of the catalogue run best here."
        ),
        arguments=PlanArguments,
        answer=PlanAnswer,
        reaches_hub=True,
    ),
    GuideTool.ESTIMATE: Lookup(
        title="Estimate memory and speed",
        description="How much memory a model takes at a context, whether it fits here, and how fast it will write.",
        arguments=EstimateArguments,
        answer=EstimateAnswer,
        reaches_hub=True,
    ),
    GuideTool.SEARCH: Lookup(
        title="Search models",
        description=(
            "Models to download: with `best`, the catalogue's for a use, judged for this computer; with `text`, "
            "those of the hub whose names have these words."
        ),
        arguments=SearchArguments,
        answer=SearchAnswer,
        reaches_hub=True,
    ),
    GuideTool.MANUAL: Lookup(
        title="Search the manual",
        description="Passages of Roundhouse's manual: how something is done, what a setting or a command does.",
        arguments=ManualArguments,
        answer=ManualAnswer,
    ),
}


def object_schema(kind: type[msgspec.Struct]) -> dict[str, Any]:
    """Return the JSON schema of a Struct as an object at its root, as the protocol has it."""
    (root,), definitions = msgspec.json.schema_components([kind], ref_template="#/$defs/{name}")
    name = root["$ref"].rpartition("/")[2]
    schema = definitions.pop(name)
    return {**schema, "$defs": definitions} if definitions else schema
