"""From the protocol's values to ours, with the limits that keep a line to the gateway short."""

import difflib
import json
from collections.abc import Iterable, Iterator
from typing import Any

from acp import schema

from app.agent_host.files import ProjectFiles
from app.core.agents import (
    LONGEST_PART,
    AgentCallStatus,
    AgentCallUpdate,
    AgentDiff,
    AgentOption,
    AgentOptionKind,
    AgentPlanStep,
)

_LONGEST_ARGUMENTS = 8000
_LONGEST_TITLE = 500
_MOST_STEPS = 200
_MOST_DIFFS = 20
_LONGEST_COMPARED = 400_000
"""Characters of either side of a change; comparing takes longer than in proportion."""
_CUT = "\n… (the rest is left out)"


def read_call(update: schema.ToolCall | schema.ToolCallUpdate, files: ProjectFiles) -> AgentCallUpdate:
    """Return what is new of a call."""
    content = getattr(update, "content", None)
    locations = getattr(update, "locations", None)
    raw_input = getattr(update, "raw_input", None)
    return AgentCallUpdate(
        call=update.tool_call_id[:_LONGEST_TITLE],
        title=_title(update.title, files),
        kind=update.kind,
        status=AgentCallStatus(update.status) if update.status else None,
        arguments=describe_arguments(raw_input) if raw_input else None,
        text=read_text(content) if content is not None else None,
        diffs=read_diffs(content, files) if content is not None else None,
        paths=[files.describe_path(place.path) for place in locations][:_MOST_STEPS] if locations is not None else None,
    )


def _title(title: str | None, files: ProjectFiles) -> str | None:
    """Return a title in one line; one that is a path, as a person reads it."""
    if title is None:
        return None
    words = " ".join(title.split())[:_LONGEST_TITLE]
    inside = files.describe_path(f"/{words}")  # OpenCode leaves the first slash out
    return files.describe_path(words) if inside == f"/{words}" else inside


def call_paths(update: schema.ToolCall | schema.ToolCallUpdate) -> set[str]:
    """Return the paths that a call names as those it is about."""
    named_paths = {place.path for place in update.locations or ()}
    return named_paths | {
        part.path for part in update.content or () if isinstance(part, schema.FileEditToolCallContent)
    }


def describe_arguments(value: Any) -> str:  # noqa: ANN401 -- any JSON
    """Return a call's arguments as they are read easily."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2, default=str)
    return cut_text(text, _LONGEST_ARGUMENTS)


def read_text(content: Iterable[object]) -> str:
    """Return the text among a call's content."""
    parts = (read_block(part.content) for part in content if isinstance(part, schema.ContentToolCallContent))
    return cut_text("\n".join(filter(None, parts)), LONGEST_PART)


def read_block(block: object) -> str:
    """Return a block's text; what is no text is named."""
    match block:
        case schema.TextContentBlock(text=text):
            return text
        case schema.ImageContentBlock(mime_type=kind) | schema.AudioContentBlock(mime_type=kind):
            return f"[{kind}]"
        case schema.ResourceContentBlock(uri=address):
            return f"[{address}]"
        case schema.EmbeddedResourceContentBlock(resource=schema.TextResourceContents(text=text)):
            return text
    return ""


def read_diffs(content: Iterable[object], files: ProjectFiles) -> list[AgentDiff]:
    """Return the changes among a call's content; one of which there is too much has no lines."""
    changes = [part for part in content if isinstance(part, schema.FileEditToolCallContent)][:_MOST_DIFFS]
    room, diffs = LONGEST_PART, []
    for change in changes:
        diff = make_diff(files.describe_path(change.path), change.old_text, change.new_text)
        room -= len(diff.diff)
        diffs.append(diff if room >= 0 else AgentDiff(path=diff.path, diff="", is_new=diff.is_new))
    return diffs


def make_diff(path: str, old: str | None, new: str) -> AgentDiff:
    """Return a change of a file; without lines where it is too long to be compared."""
    if max(len(old or ""), len(new)) > _LONGEST_COMPARED:
        return AgentDiff(path=path, diff="", is_new=old is None)
    before, after = (old or "").splitlines(), new.splitlines()
    text = "\n".join(difflib.unified_diff(before, after, path, path, lineterm=""))
    return AgentDiff(path=path, diff=cut_text(text, LONGEST_PART), is_new=not old)


def read_options(options: Iterable[schema.PermissionOption]) -> list[AgentOption]:
    """Return the answers that a request for permission takes."""
    return [
        AgentOption(id=option.option_id, name=option.name[:_LONGEST_TITLE], kind=AgentOptionKind(option.kind))
        for option in options
    ]


def read_plan(entries: Iterable[schema.PlanEntry]) -> list[AgentPlanStep]:
    """Return the steps of a plan."""
    steps = [AgentPlanStep(text=step.content[:_LONGEST_TITLE], status=AgentCallStatus(step.status)) for step in entries]
    return steps[:_MOST_STEPS]


def split_text(text: str) -> Iterator[str]:
    """Yield a text in pieces that fit a line."""
    for at in range(0, len(text), LONGEST_PART):
        yield text[at : at + LONGEST_PART]


def cut_text(text: str, most: int) -> str:
    """Return a text that is not longer than it may be, and says so."""
    return text if len(text) <= most else text[:most] + _CUT
