"""The table of tools: schemas that a model can follow, and arguments that are refused in a sentence."""

import re
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from app.client.http import GatewayClient
from app.core.api import PortFile
from app.core.errors import BadRequest
from app.core.lookups import SearchArguments, object_schema
from app.mcp_server.tools import TOOLS, ManagementTool, search_models

ROOT = Path(__file__).resolve().parents[3]
GUIDE = ROOT / "docs" / "guide" / "clients.md"
LONGEST_DESCRIPTION = 240
"""Characters: every agent that has the server pays for them in each of its prompts."""


@pytest.fixture
def nowhere() -> GatewayClient:
    return GatewayClient(PortFile(pid=1, url="http://127.0.0.1:1", token="t", created_at=0.0, version="0"))


@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.name)
def test_schemas_are_objects_that_describe_every_argument(tool: ManagementTool) -> None:
    for kind in (tool.arguments, tool.answer):
        schema = object_schema(kind)
        Draft202012Validator.check_schema(schema)
        assert schema["type"] == "object"
    assert object_schema(tool.arguments).get("additionalProperties") is False
    assert 20 < len(tool.description) <= LONGEST_DESCRIPTION
    assert re.fullmatch(r"[a-z_]{1,64}", tool.name)


def test_a_search_for_nothing_is_refused(nowhere: GatewayClient) -> None:
    with pytest.raises(BadRequest, match="needs `text` or `best`"):
        search_models(nowhere, SearchArguments(text="  "))


def test_the_guide_names_every_tool_and_those_that_change_something() -> None:
    text = GUIDE.read_text(encoding="utf-8").partition("## Agents that manage models")[2].partition("\n## ")[0]
    rows = dict(re.findall(r"^\| `(\w+)` \| .* \| (yes|no) \|$", text, re.MULTILINE))
    assert rows == {tool.name: "no" if tool.is_read_only else "yes" for tool in TOOLS}
