"""The table of agents that are run for real: the docs show it, and it agrees with what the tools say of themselves."""

from app.connect.connections import find_tool
from tests.agents import ADAPTERS, AGENTS, PAGE, as_generated


def test_the_docs_have_the_table_of_agents() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert as_generated(text) == text, "python -m tests.agents --write"


def test_every_agent_is_launched_and_says_the_version_it_was_tried_with() -> None:
    for agent in AGENTS:
        tool = find_tool(agent.tool)
        assert tool.run is not None
        assert tool.tried.split()[0] == agent.version


def test_adapters_are_tried_at_the_version_that_is_installed() -> None:
    for tool, package in ADAPTERS.items():
        assert find_tool(tool).agent_tried == package.rpartition("@")[2]
