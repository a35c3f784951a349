"""Try chat templates in a process of its own with limits: `python -m engines.serving.template_trial`.

The templates come as a JSON list on standard input, the verdict goes to standard output. A template that needs more
memory or time than any real one ends this process, or is told apart by the sandbox; the engine never sees it.
"""

import json
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from engines.serving.answer_request import TemplateInput

MEMORY_BYTES = 512 * 1024 * 1024
"""Of addresses. The interpreter with Jinja has 40 MiB; the largest prompt tried is below 1 MiB."""
CPU_S = 5
"""The slowest template known takes 0.05 s for all that is tried."""
QUESTION = "Will it rain in Bern tomorrow?"


def main() -> None:
    """Read, try, and write the verdict."""
    limit_process()
    json.dump(try_templates(json.load(sys.stdin)), sys.stdout)


def limit_process() -> None:
    """Set the limits that the system has: Windows has none of them, macOS only that of time."""
    if sys.platform == "win32":
        return
    import resource  # noqa: PLC0415 -- not on Windows

    resource.setrlimit(resource.RLIMIT_CPU, (CPU_S, CPU_S))
    if sys.platform == "linux":
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def try_templates(templates: Sequence[str]) -> dict[str, object]:
    """Return `cost`: why it would take too much; `problem`: why it cannot answer one question; `says_content`."""
    verdicts = [_try_template(template) for template in templates]
    costly = next((verdict for verdict in verdicts if verdict["cost"]), None)
    return costly or verdicts[0]


def _try_template(text: str) -> dict[str, object]:
    from engines.serving.refusals import RequestRefused  # noqa: PLC0415 -- Jinja comes after the limits
    from engines.serving.templates import TOO_COSTLY, ChatTemplate  # noqa: PLC0415 -- as above

    verdict: dict[str, object] = {"cost": "", "problem": "", "says_content": False}
    try:
        template = ChatTemplate(text, {"bos_token": "<s>", "eos_token": "</s>"})
    except RuntimeError as error:
        return {**verdict, "problem": str(error)}
    except RecursionError:
        return {**verdict, "cost": "The chat template cannot be applied: it is nested too deeply."}
    if escape := _find_escape(text):
        return {**verdict, "cost": f"The chat template reaches for Python's own objects ({escape[:40]})."}
    for number, conversation in enumerate(usual_conversations()):
        try:
            rendered_text = template.render(
                conversation, limit_s=8.0 * CPU_S
            )  # a busy machine is slow; its own time counts
        except RequestRefused as error:
            if error.code == TOO_COSTLY:
                return {**verdict, "cost": error.message}
            verdict["problem"] = error.message if number == 0 else verdict["problem"]
        else:
            verdict["says_content"] = verdict["says_content"] or QUESTION in rendered_text
    return verdict


def _find_escape(text: str) -> str:
    """Return a name of Python's own that a template speaks of, also where no usual conversation gets to; else nothing.

    Not every engine renders templates in a sandbox.
    """
    import jinja2  # noqa: PLC0415 -- Jinja comes after the limits

    from engines.serving.templates import make_environment  # noqa: PLC0415 -- as above

    tree = make_environment().parse(text)
    attributes = (node.attr for node in tree.find_all(jinja2.nodes.Getattr))
    keys = (node.arg for node in tree.find_all(jinja2.nodes.Getitem))
    arguments = (
        node
        for attr_filter in tree.find_all(jinja2.nodes.Filter)
        if attr_filter.name == "attr"
        for node in attr_filter.args
    )
    texts = (str(node.value) for node in (*keys, *arguments) if isinstance(node, jinja2.nodes.Const))
    return next((name for name in (*attributes, *texts) if name.startswith("__")), "")


def usual_conversations() -> list["TemplateInput"]:
    """Return what is tried: one turn, instructions, tools with a call and its result, and a long conversation."""
    from engines.serving.answer_request import TemplateInput  # noqa: PLC0415 -- as above

    question = _turn("user", QUESTION)
    call = {"type": "function", "id": "call_1", "function": {"name": "weather", "arguments": {"at": "Bern"}}}
    answer: dict[str, object] = {"role": "assistant", "content": "", "tool_calls": [call]}
    result = {"role": "tool", "content": '{"rain": true}', "tool_call_id": "call_1", "name": "weather"}
    long = [_turn(role, f"{QUESTION} {turn} " * 20) for turn in range(100) for role in ("user", "assistant")]
    return [
        TemplateInput(messages=[question]),
        TemplateInput(messages=[_turn("system", "Be brief."), question]),
        TemplateInput(messages=[question, answer, result, question], tools=[TOOL]),
        TemplateInput(messages=[*long, question]),
    ]


def _turn(role: str, content: str) -> Mapping[str, object]:
    return {"role": role, "content": content}


TOOL = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "Tell the weather.",
        "parameters": {"type": "object", "properties": {"at": {"type": "string"}}, "required": ["at"]},
    },
}

if __name__ == "__main__":
    main()
