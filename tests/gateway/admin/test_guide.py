"""The Guide over HTTP: what is looked up is shown as calls, what it does not know it says."""

from app.core.guide import ActionKind, AskGuide, GuideAnswer, GuideOutcome
from app.core.tool_calls import ToolCallState
from tests.gateway.admin.conftest import Api


async def ask(api: Api, question: str) -> GuideAnswer:
    return await api.call("POST", "/guide", GuideAnswer, AskGuide(question=question))


async def test_a_fact_of_this_computer_comes_from_a_call_that_is_shown(api: Api) -> None:
    answer = await ask(api, "What is loaded?")
    assert (answer.outcome, answer.topic) == (GuideOutcome.ANSWERED, "loaded")
    assert [(call.tool, call.state, call.is_read_only) for call in answer.calls] == [
        ("status", ToolCallState.ANSWERED, True)
    ]
    assert answer.calls[0].result
    assert [(action.kind, action.target) for action in answer.actions] == [(ActionKind.OPEN_PAGE, "models")]


async def test_the_models_that_are_here_are_named(api: Api) -> None:
    answer = await ask(api, "which models do I have")
    assert "org/embed:q8" in answer.text
    assert answer.actions[-1].command == "roundhouse list"


async def test_how_something_is_done_ends_at_its_page_and_chapter(api: Api) -> None:
    answer = await ask(api, "How do I attach a PDF?")
    assert (answer.calls, answer.topic) == ([], "attach-file")
    assert answer.actions[0].target == "chat"
    assert answer.sources[0].file == "guide/attachments.md"


async def test_what_a_tool_refuses_is_said_and_nothing_is_made_up(api: Api) -> None:
    answer = await ask(api, "how much memory does madeup 9b need")
    assert answer.calls[0].state is ToolCallState.FAILED
    assert answer.text == answer.calls[0].result
    assert not [action for action in answer.actions if action.kind is not ActionKind.OPEN_PAGE]


async def test_other_questions_and_false_premises_are_declined(api: Api) -> None:
    answer = await ask(api, "What is the capital of France?")
    assert (answer.outcome, answer.topic, answer.calls, answer.actions) == (GuideOutcome.UNKNOWN, "", [], [])
    assert (await ask(api, "Where do I sign in to my account?")).outcome is GuideOutcome.DENIED


async def test_bad_questions_are_refused(api: Api) -> None:
    for body in ({}, {"question": ""}, {"question": "x" * 4001}, {"question": 3}, {"question": "Hi", "more": 1}):
        assert (await api.raw("POST", "/guide", body))[0] == 400
