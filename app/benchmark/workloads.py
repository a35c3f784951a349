"""The prompts of each workload: equal for equal settings, and no two rounds' so alike that an engine could reuse one.

A workload is a list of conversations; the requests of one follow each other, conversations run side by side. Each
round begins every prompt with a mark of its own, so what an engine kept from an earlier round is of no use to it, while
a later request of a conversation finds what its earlier ones have read.
"""

import hashlib
import random
from collections.abc import Iterator, Sequence

import msgspec

from app.benchmark import texts
from app.core.benchmarks import BenchmarkMessage, BenchmarkPrompt, BenchmarkSettings, Workload
from app.core.tool_prompts import find_tool_prompt

Conversation = tuple[BenchmarkPrompt, ...]

CHARACTERS_PER_TOKEN = 3.5
"""Of English prose and code, where no model has counted it yet; most tokenizers need fewer tokens."""
AGENT_TURNS = 4
_PASSAGES = 20
_AGENT_PASSAGES = 6
"""Per turn: what a tool returns."""
_ANSWER_TOKENS = {
    Workload.CHAT: 128,
    Workload.CODE: 96,
    Workload.AGENT: 48,
    Workload.RAG: 48,
    Workload.BATCH: 24,
    Workload.STRUCTURED: 160,
}
_BATCH_QUESTION = "Is this review positive, negative or mixed? Answer in one word and give the reason in five.\n\n"
_ORDER_SCHEMA = (
    b'{"type":"object","properties":{"item":{"type":"string","maxLength":60},"quantity":{"type":"integer"},'
    b'"town":{"type":"string","maxLength":40},"is_urgent":{"type":"boolean"}},'
    b'"required":["item","quantity","town","is_urgent"],"additionalProperties":false}'
)


def make_workload(
    settings: BenchmarkSettings,
    prompts: Sequence[BenchmarkPrompt] = (),
    *,
    context: int | None = None,
    characters_per_token: float = CHARACTERS_PER_TOKEN,
) -> list[Conversation]:
    """Return the conversations of one round, without marks, for the level with most requests at once.

    With `context` the longest are made as short as the model takes; prompts from a file stay as they are. Raises
    ValueError for the workload `file` without prompts.
    """
    if settings.workload is Workload.FILE and not prompts:
        raise ValueError("The workload is a file of prompts, and there are none.")
    draw = random.Random(settings.seed)  # noqa: S311 -- drawn to vary, not to hide
    count = max(settings.requests, *settings.concurrency)
    answer_tokens = settings.answer_tokens or _ANSWER_TOKENS.get(settings.workload)
    room = None if context is None else _room_for_prompt(context, answer_tokens, characters_per_token)
    conversations = _make_conversations(settings, list(prompts), count, draw, room)
    if answer_tokens is None:
        return conversations
    return [
        tuple(msgspec.structs.replace(prompt, answer_tokens=answer_tokens) for prompt in conversation)
        for conversation in conversations
    ]


def mark_conversation(conversation: Conversation, mark: str) -> Conversation:
    """Return the conversation with the mark before all its prompts."""
    return tuple(_mark_prompt(prompt, mark) for prompt in conversation)


def pick_conversations(
    conversations: Sequence[Conversation], settings: BenchmarkSettings, level: int
) -> list[Conversation]:
    """Return those that a round with `level` requests at once runs: enough requests, and as many as run at once."""
    picks: list[Conversation] = []
    for conversation in conversations:
        if len(picks) >= level and sum(map(len, picks)) >= settings.requests:
            break
        picks.append(conversation)
    return picks


def longest_prompt(conversations: Sequence[Conversation]) -> BenchmarkPrompt:
    """Return the prompt with most characters."""
    return max((prompt for conversation in conversations for prompt in conversation), key=prompt_characters)


def estimate_context(conversations: Sequence[Conversation], characters_per_token: float = CHARACTERS_PER_TOKEN) -> int:
    """Return the tokens of context that the longest prompt and its answer take, estimated."""
    prompts = (prompt for conversation in conversations for prompt in conversation)
    return max(int(prompt_characters(prompt) / characters_per_token) + 64 + prompt.answer_tokens for prompt in prompts)


def prompt_characters(prompt: BenchmarkPrompt) -> int:
    """Return how many characters a prompt has."""
    return sum(len(message.content) for message in prompt.messages)


def hash_prompts(conversations: Sequence[Conversation]) -> str:
    """Return the SHA-256 of all prompts."""
    return hashlib.sha256(msgspec.json.encode(conversations)).hexdigest()


def _room_for_prompt(context: int, answer_tokens: int | None, characters_per_token: float) -> int:
    """Return the characters that a prompt may have."""
    return int(max(64, context - (answer_tokens or 128) - 96) * characters_per_token)


def _tool_text(tool: str, draw: random.Random, room: int | None) -> str:
    """Return a text as long as what a tool begins with. Raises ValueError for a tool nothing was recorded of."""
    prompt = find_tool_prompt(tool)
    if prompt is None:
        raise ValueError(f"Nothing was recorded of what {tool or 'this tool'} sends.")
    length = prompt.prompt_bytes + prompt.tool_bytes
    passages = _documents(draw, length // min(map(len, texts.PASSAGES)) + 1, None)
    return passages[: length if room is None else min(length, room)]


def _make_conversations(
    settings: BenchmarkSettings, prompts: list[BenchmarkPrompt], count: int, draw: random.Random, room: int | None
) -> list[Conversation]:
    workload = settings.workload
    if workload is Workload.FILE:
        return [(prompts[number % len(prompts)],) for number in range(count)]
    if workload is Workload.TOOL:
        return [_single_prompt(_tool_text(settings.tool, draw, room)) for _ in range(count)]
    if workload is Workload.AGENT:
        return [_agent_conversation(draw, room) for _ in range(count)]
    if workload is Workload.RAG:
        return [_single_prompt(_rag_question(draw, room)) for _ in range(count)]
    return list(_short_prompts(workload, count, draw))


def _short_prompts(workload: Workload, count: int, draw: random.Random) -> Iterator[Conversation]:
    schema = msgspec.json.decode(_ORDER_SCHEMA, type=dict[str, msgspec.Raw])
    ask, parts, held_to = {
        Workload.STRUCTURED: ("Write this order as JSON.\n\n", texts.ORDERS, schema),
        Workload.CODE: ("Continue this Python file. Write code only.\n\n```python\n", texts.CODE, None),
        Workload.BATCH: (_BATCH_QUESTION, texts.REVIEWS, None),
    }.get(workload, ("", texts.QUESTIONS, None))
    for text in _cycle(parts, draw, count):
        (prompt,) = _single_prompt(ask + text)
        yield (msgspec.structs.replace(prompt, json_schema=held_to),)


def _single_prompt(text: str) -> Conversation:
    return (BenchmarkPrompt(messages=[BenchmarkMessage(role="user", content=text)]),)


def _cycle(parts: Sequence[str], draw: random.Random, count: int) -> Iterator[str]:
    """Yield `count` of the parts in a drawn order, from the beginning again where there are fewer."""
    order = list(parts)
    draw.shuffle(order)
    for number in range(count):
        yield order[number % len(order)]


def _documents(draw: random.Random, count: int, room: int | None) -> str:
    """Return so many passages, numbered, in a drawn order; fewer if there is no room."""
    passages = [f"[{number}] {text}" for number, text in enumerate(_cycle(texts.PASSAGES, draw, count), start=1)]
    while room is not None and len(passages) > 1 and sum(map(len, passages)) > room:
        passages.pop()
    return "\n\n".join(passages)


def _rag_question(draw: random.Random, room: int | None) -> str:
    documents = _documents(draw, _PASSAGES, None if room is None else room - 200)
    return f"{documents}\n\nAnswer from these passages only, in two sentences: what is said of passage [1], and why?"


def _agent_conversation(draw: random.Random, room: int | None) -> Conversation:
    """Return requests of which each has the one before as its beginning, with what a tool returned since."""
    each = None if room is None else max(0, room - len(texts.AGENT_RULES) - 200) // AGENT_TURNS - 200
    messages = [
        BenchmarkMessage(role="system", content=texts.AGENT_RULES),
        BenchmarkMessage(role="user", content=draw.choice(texts.AGENT_TASKS)),
    ]
    prompts: list[BenchmarkPrompt] = []
    for turn in range(AGENT_TURNS):
        prompts.append(BenchmarkPrompt(messages=list(messages)))
        output = _documents(draw, _AGENT_PASSAGES, each)
        messages += [
            BenchmarkMessage(role="assistant", content=f"I read file {turn + 1}, and go on."),
            BenchmarkMessage(role="user", content=f"Tool output:\n{output}\n\n{draw.choice(texts.AGENT_STEPS)}"),
        ]
    return tuple(prompts)


def _mark_prompt(prompt: BenchmarkPrompt, mark: str) -> BenchmarkPrompt:
    first, *rest = prompt.messages
    return msgspec.structs.replace(
        prompt, messages=[msgspec.structs.replace(first, content=f"({mark}) {first.content}"), *rest]
    )
