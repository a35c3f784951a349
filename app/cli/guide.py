"""`roundhouse ask`: a question about Roundhouse or this computer, answered from what is looked up."""

from collections.abc import Iterator

import click

from app.cli.gateway import connect_gateway
from app.cli.output import json_option, print_note, show_result
from app.core.guide import AskGuide, GuideAnswer
from app.core.tool_calls import AnswerToolCall

_LOOKUP_S = 120.0
"""Planning for a model that has to be read on the hub first."""


@click.command()
@click.argument("question", nargs=-1, required=True)
@json_option
def ask(question: tuple[str, ...], *, as_json: bool) -> None:
    """Ask the Guide a QUESTION about Roundhouse or this computer. What it looks up is on standard error."""
    answer = connect_gateway().post("/guide", AskGuide(question=" ".join(question)), GuideAnswer, timeout_s=_LOOKUP_S)
    if not as_json:
        for call in answer.calls:
            print_note(_describe_call(call))
    show_result("answer", answer, as_json=as_json, text=_lines_of)


def _lines_of(answer: GuideAnswer) -> Iterator[str]:
    yield from answer.markdown.replace("**", "").splitlines()


def _describe_call(call: AnswerToolCall) -> str:
    return f"Looked up: {call.tool} {call.arguments} ({call.state.value}, {call.seconds:.1f} s)"
