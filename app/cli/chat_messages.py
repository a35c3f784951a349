"""The commands of `roundhouse chats` for single messages: begin, ask, answer again, edit, delete, fork."""

import sys
from collections.abc import Iterator, Sequence
from datetime import datetime

import click
import msgspec

from app.chat_files.writing import visible_path
from app.cli.attachments import describe_attachment
from app.cli.chat import cost_line
from app.cli.chat_names import SHOWN_ID, find_message, read_chat
from app.cli.chat_tools import ask_decision, print_call
from app.cli.gateway import connect_gateway
from app.cli.loading import resolve_model_name
from app.cli.output import format_table, json_option, print_note, show_result, write_json
from app.cli.question_passages import source_lines
from app.client.http import GatewayClient, quote_segment
from app.core.api import SettingInfo
from app.core.chats import (
    AnswerCallChanged,
    AnswerDelta,
    AnswerDone,
    AnswerEvent,
    AnswerProgress,
    Chat,
    ChatPatch,
    ForkChat,
    Message,
    MessageStatus,
    NewChat,
    NewTurn,
    NewVersion,
    OverflowRule,
    Role,
    Timings,
    Turn,
)
from app.core.errors import BadRequest, EngineFailed
from app.core.tool_calls import AnswerToolCall, DecideToolCall, ToolCallState

_SHOWN_WORDS = 60
_START_WITHIN_S = 60.0
"""Of a turn: a model is looked for, not loaded."""

_MODELS = click.option(
    "--model", "models", multiple=True, help="Model that answers, instead of the chat's; repeat it to compare several."
)
_COLLECTIONS = click.option(
    "--collection", "collections", multiple=True, metavar="NAME", help="Collection to look it up in; repeatable."
)
_SERVERS = click.option(
    "--mcp", "servers", multiple=True, metavar="SERVER", help="MCP server whose tools it may call; repeatable."
)
_CHAT = click.argument("chat")
_LAST = click.argument("message", default="last")


@click.command("messages")
@_CHAT
@click.option("--all", "is_all", is_flag=True, help="Other versions and branches too.")
@json_option
def list_messages(chat: str, *, is_all: bool, as_json: bool) -> None:
    """List the messages of CHAT with the numbers and ids that name them."""
    whole = read_chat(connect_gateway(), chat)
    path = visible_path(whole)
    messages = whole.messages if is_all else path
    numbers = {message.id: str(number) for number, message in enumerate(path, 1)}
    show_result("messages", messages, as_json=as_json, text=lambda them: _message_lines(them, numbers))


@click.command("new")
@click.argument("question", nargs=-1, required=True)
@_MODELS
@_COLLECTIONS
@_SERVERS
@click.option("--title", default="", help="Title of the chat; by default the question's beginning.")
@json_option
def begin_chat(question: tuple[str, ...], *, models: tuple[str, ...], as_json: bool, **choices: object) -> None:
    """Begin a chat with QUESTION, which the window shows too; `roundhouse chats ask` goes on with it."""
    client = connect_gateway()
    names = [resolve_model_name(client, name) for name in models]
    collections, servers, title = (choices[name] for name in ("collections", "servers", "title"))
    new = msgspec.convert(
        {
            "title": title,
            "model": names[0] if names else "",
            "collections": collections,
            "tools": {"servers": servers or _usual_servers(client)},
        },
        NewChat,
        strict=False,
    )
    chat = client.post("/chats", new, Chat)
    if not as_json:
        print_note(f"The new chat is {chat.id[:SHOWN_ID]}.")
    _print_answers(client, chat.id, NewTurn(content=" ".join(question)), models, as_json=as_json)


@click.command("ask")
@_CHAT
@click.argument("question", nargs=-1, required=True)
@_MODELS
@_COLLECTIONS
@_SERVERS
@json_option
def ask(chat: str, question: tuple[str, ...], *, models: tuple[str, ...], as_json: bool, **choices: object) -> None:
    """Ask QUESTION at the end of CHAT; with several --model, each of them answers.

    Collections and servers that are named are those of the chat from now on.
    """
    client = connect_gateway()
    whole = read_chat(client, chat)
    patch = msgspec.convert(
        {"collections": choices["collections"] or None, "tool_servers": choices["servers"] or None}, ChatPatch
    )
    if patch != ChatPatch():
        whole = client.patch(f"/chats/{quote_segment(whole.id)}", patch, Chat)
    _print_answers(client, whole.id, NewTurn(parent=whole.head, content=" ".join(question)), models, as_json=as_json)


@click.command("regenerate")
@_CHAT
@_LAST
@_MODELS
@json_option
def regenerate(chat: str, message: str, *, models: tuple[str, ...], as_json: bool) -> None:
    """Have the question of MESSAGE (the last one) answered again; earlier answers stay as other versions."""
    client = connect_gateway()
    whole = read_chat(client, chat)
    target_message = find_message(whole, message)
    question = target_message.id if target_message.role is Role.USER else target_message.parent
    _print_answers(client, whole.id, NewTurn(parent=question), models, as_json=as_json)


@click.command("continue")
@_CHAT
@_LAST
@click.option("--model", default="", help="Model that goes on with it, instead of the one that wrote it.")
@json_option
def continue_answer(chat: str, message: str, *, model: str, as_json: bool) -> None:
    """Go on with an answer that was cut, MESSAGE (the last one); the shorter one stays as another version."""
    client = connect_gateway()
    whole = read_chat(client, chat)
    turn = NewTurn(continues=find_message(whole, message).id)
    _print_answers(client, whole.id, turn, [model] if model else [], as_json=as_json)


@click.command("edit")
@_CHAT
@click.argument("message")
@click.argument("text", nargs=-1)
@click.option("--ask", "is_asked", is_flag=True, help="Have an edited question answered.")
@json_option
def edit(chat: str, message: str, text: tuple[str, ...], *, is_asked: bool, as_json: bool) -> None:
    """Add a version of MESSAGE with the words TEXT (or standard input); the earlier one stays."""
    words = " ".join(text) or ("" if sys.stdin.isatty() else sys.stdin.read().strip())
    client = connect_gateway()
    whole = read_chat(client, chat)
    target_message = find_message(whole, message)
    if is_asked and target_message.role is not Role.USER:
        raise BadRequest("Only a question can be asked again.", hint="Leave out --ask.", code="usage")
    version = client.post(f"{_message_path(target_message)}/versions", NewVersion(content=words), Message)
    if is_asked:
        _print_answers(client, whole.id, NewTurn(parent=version.id), (), as_json=as_json)
        return
    show_result(
        "message", version, as_json=as_json, text=lambda new_version: [f"Saved as {new_version.id[:SHOWN_ID]}."]
    )


@click.command("delete-message")
@_CHAT
@click.argument("message")
@json_option
def delete_message(chat: str, message: str, *, as_json: bool) -> None:
    """Delete MESSAGE from CHAT; what follows it stays, and it can be restored for 30 days."""
    client = connect_gateway()
    target_message = find_message(read_chat(client, chat), message)
    client.delete(_message_path(target_message))
    command = f"roundhouse chats restore-message {target_message.chat[:SHOWN_ID]} {target_message.id}"
    way_back = f"`{command}` brings it back for 30 days."
    show_result("deleted", target_message, as_json=as_json, text=lambda _: [f"Deleted. {way_back}"])


@click.command("restore-message")
@_CHAT
@click.argument("message")
@json_option
def restore_message(chat: str, message: str, *, as_json: bool) -> None:
    """Bring MESSAGE (its whole id) back into CHAT."""
    client = connect_gateway()
    whole = read_chat(client, chat)
    path = f"/chats/{quote_segment(whole.id)}/messages/{quote_segment(message)}/restore"
    show_result("chat", client.post(path, None, Chat), as_json=as_json, text=lambda _: ["It is back."])


@click.command("fork")
@_CHAT
@_LAST
@click.option("--title", default="", help="Title of the new chat; by default the same.")
@json_option
def fork(chat: str, message: str, *, title: str, as_json: bool) -> None:
    """Begin a chat with a copy of CHAT down to MESSAGE (the last one)."""
    client = connect_gateway()
    whole = read_chat(client, chat)
    body = ForkChat(message=find_message(whole, message).id, title=title)
    branch = client.post(f"/chats/{quote_segment(whole.id)}/fork", body, Chat)
    show_result("chat", branch, as_json=as_json, text=lambda new_chat: [f"The new chat is {new_chat.id[:SHOWN_ID]}."])


@click.command("overflow")
@_CHAT
@click.argument("rule", type=click.Choice([rule.value for rule in OverflowRule]), required=False)
@json_option
def choose_overflow(chat: str, rule: str | None, *, as_json: bool) -> None:
    """Show or choose what CHAT does when it is longer than its model's context.

    stop says so, cut leaves the oldest messages out, summarise has the model sum them up first; default is the setting
    chats.overflow.
    """
    client = connect_gateway()
    whole = read_chat(client, chat)
    if rule is not None:
        path = f"/chats/{quote_segment(whole.id)}"
        whole = client.patch(path, ChatPatch(overflow=OverflowRule(rule)), Chat)
    show_result("chat", whole, as_json=as_json, text=lambda chat_info: [chat_info.overflow.value])


COMMANDS = (
    list_messages,
    begin_chat,
    ask,
    regenerate,
    continue_answer,
    edit,
    delete_message,
    restore_message,
    fork,
    choose_overflow,
)


def _message_path(message: Message) -> str:
    return f"/chats/{quote_segment(message.chat)}/messages/{quote_segment(message.id)}"


def _print_answers(client: GatewayClient, chat: str, turn: NewTurn, models: Sequence[str], *, as_json: bool) -> None:
    """Have a question answered by each model and print the answers, each as it comes. Ctrl-C stops all of them."""
    answers = _begin_answers(client, chat, turn, models)
    finished_messages: list[Message] = []
    try:
        for answer in answers:
            if len(answers) > 1 and not as_json:
                click.secho(f"{answer.model}:", bold=True)
            finished_messages.append(_follow_answer(client, answer, prints=not as_json))
    except KeyboardInterrupt:
        for answer in answers[len(finished_messages) :]:
            path = f"/chats/{quote_segment(chat)}/answers/{quote_segment(answer.id)}/stop"
            finished_messages.append(client.post(path, None, Message))
        print_note("\nStopped.")
    if as_json:
        write_json("answers", finished_messages)
    failures = [message.error for message in finished_messages if message.status is MessageStatus.FAILED]
    if failures:
        raise EngineFailed(failures[0])


def _begin_answers(client: GatewayClient, chat: str, turn: NewTurn, models: Sequence[str]) -> list[Message]:
    """Start all answers, so that those that fit into memory together are written together."""
    path, answers = f"/chats/{quote_segment(chat)}/turns", list[Message]()
    for name in [resolve_model_name(client, name) for name in models] or [turn.model]:
        first_turn = client.post(path, msgspec.structs.replace(turn, model=name), Turn, timeout_s=_START_WITHIN_S)
        answers.append(first_turn.answer)
        turn = NewTurn(parent=first_turn.answer.parent)
    return answers


def _follow_answer(client: GatewayClient, answer: Message, *, prints: bool) -> Message:
    path, stage = f"/chats/{quote_segment(answer.chat)}/answers/{quote_segment(answer.id)}", ""
    for event in client.stream_events(path, AnswerEvent):
        if isinstance(event, AnswerDelta) and prints:
            click.echo(event.content, nl=False)
            sys.stdout.flush()
        elif isinstance(event, AnswerProgress) and prints and event.stage != stage and sys.stderr.isatty():
            stage = event.stage
            print_note(f"{stage}…")
        elif isinstance(event, AnswerCallChanged):
            _answer_call(client, f"{path}/calls/{quote_segment(event.call.id)}", event.call)
            for file in event.attachments:
                print_note(describe_attachment(file))
        elif isinstance(event, AnswerDone):
            if prints:
                click.echo()
                for line in source_lines(event.message.documents, event.message.content):
                    print_note(line)
                print_note(cost_line(event.message.timings or Timings()))
            return event.message
    raise EngineFailed("The answer broke off.", hint="`roundhouse chats show` shows what is there.")


def _answer_call(client: GatewayClient, path: str, call: AnswerToolCall) -> None:
    """Show how far a call of a tool has come; decide one that waits for that."""
    if call.state is ToolCallState.WAITING:
        print_call(call.server, call.tool, call.arguments)
        decision = ask_decision(call.server, call.tool, has_changed=call.has_changed)
        client.post(path, DecideToolCall(decision=decision), Message)
    elif call.state is ToolCallState.RUNNING:
        print_call(call.server, call.tool, call.arguments)
    elif call.state is ToolCallState.FAILED:
        print_note(f"Failed: {call.result}")


def _usual_servers(client: GatewayClient) -> list[str]:
    """Return the servers of new chats, as the window gives them."""
    rows = client.get("/settings", list[SettingInfo])
    value = next(row.value for row in rows if row.name == "chats.tool_servers")
    return value if isinstance(value, list) else []


def _message_lines(messages: Sequence[Message], numbers: dict[str, str]) -> list[str]:
    if not messages:
        return ["No messages."]
    return format_table(("NUMBER", "ID", "WHEN", "WHO", "TEXT"), _message_rows(messages, numbers))


def _message_rows(messages: Sequence[Message], numbers: dict[str, str]) -> Iterator[tuple[str, ...]]:
    for message in messages:
        words = " ".join(message.content.split())
        yield (
            numbers.get(message.id, ""),
            message.id[:SHOWN_ID],
            f"{datetime.fromtimestamp(message.created_at).astimezone():%Y-%m-%d %H:%M}",
            "You" if message.role is Role.USER else message.model or "Assistant",
            words if len(words) <= _SHOWN_WORDS else words[: _SHOWN_WORDS - 1] + "…",
        )
