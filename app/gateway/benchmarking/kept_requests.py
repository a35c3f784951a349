"""Requests that the inspector keeps with their words, to be asked again: of another model, or as a benchmark's prompts.

Chats of the dialects of OpenAI, Anthropic and Ollama can be, as long as they are kept whole and hold words only.
"""

from collections.abc import Iterator, Sequence

import msgspec

from app.core.benchmarks import BenchmarkMessage, BenchmarkPrompt, StartBenchmark, Workload
from app.core.errors import BadRequest, NotFound
from app.core.requests import RequestDetail
from app.gateway.benchmarking.race import require_own_model
from app.gateway.canonical.request import (
    ConversationMessage,
    ConversationRequest,
    Image,
    MessageRole,
    Sound,
    Text,
    ToolCall,
    ToolResult,
)
from app.gateway.dialects.anthropic.requests import AnthropicRequest
from app.gateway.dialects.anthropic.routes import to_conversation
from app.gateway.dialects.ollama.requests import read_chat
from app.gateway.dialects.ollama.wire import OllamaChatRequest
from app.gateway.dialects.openai.chat_request import OpenAIChatRequest, to_canonical_request
from app.gateway.entry.bodies import decode_body
from app.gateway.exchange.observer import BODY_BYTES
from app.gateway.services import Services
from app.gateway.watching.inspector import RequestInspector

_MOST_LISTED = 10_000
"""As many as the inspector keeps at most."""
_MOST_MESSAGES = 200
"""As many as a prompt may have."""


class KeptRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One request with its words, whoever asked it."""

    id: str
    conversation: ConversationRequest

    @property
    def prompt(self) -> BenchmarkPrompt:
        """Its words as messages, its tools and their calls with them."""
        return BenchmarkPrompt(messages=list(_plain_messages(self.conversation))[-_MOST_MESSAGES:])


def find_kept_requests(
    inspector: RequestInspector, *, model: str = "", count: int = 0, ids: Sequence[str] = ()
) -> list[KeptRequest]:
    """Return the requests with these ids, or the newest `count` that a model was asked, oldest first.

    Raises NotFound for an id that is not kept, BadRequest for one that cannot be asked again, or where there is none.
    """
    if ids:
        return [_read_request(inspector.show_request(request_id)) for request_id in ids]
    kept_requests: list[KeptRequest] = []
    for info in inspector.list_requests(limit=_MOST_LISTED, model=model):
        if len(kept_requests) == count:
            break
        try:
            kept_requests.append(_read_request(inspector.show_request(info.id)))
        except (BadRequest, NotFound):
            continue
    if not kept_requests:
        raise BadRequest(
            f"No request to {model or 'any model'} is kept that could be asked again.",
            hint="Turn on the setting inspector.bodies, and ask something first.",
            code="no_kept_requests",
        )
    return kept_requests[::-1]


async def with_kept_prompts(services: Services, request: StartBenchmark, inspector: RequestInspector) -> StartBenchmark:
    """Return a request with kept requests for its prompts. Raises NotFound, or BadRequest where there are none.

    They go to models of this computer only: an address may be anywhere.
    """
    if request.url:
        raise BadRequest("Kept requests are asked of models of this computer only.", code="model_unusable")
    await require_own_model(services, request.model)
    prompts = [kept_request.prompt for kept_request in find_kept_requests(inspector, count=request.kept)]
    settings = msgspec.structs.replace(request.settings, workload=Workload.FILE)
    return msgspec.structs.replace(request, settings=settings, prompts=prompts)


def _read_request(detail: RequestDetail) -> KeptRequest:
    """Return a request as it was asked. Raises BadRequest."""
    about, body = detail.request, detail.asked.encode()
    if not detail.asked:
        raise _not_again(about.id, "its words were not kept")
    if len(body) >= BODY_BYTES:
        raise _not_again(about.id, "only its beginning was kept")
    conversation = _read_conversation(about.path, body)
    if conversation is None or not conversation.messages:
        raise _not_again(about.id, "it is no chat")
    if any(isinstance(part, Image | Sound) for message in conversation.messages for part in message.parts):
        raise _not_again(about.id, "it holds images or sounds")
    return KeptRequest(id=about.id, conversation=conversation)


def _read_conversation(path: str, body: bytes) -> ConversationRequest | None:
    if path.endswith("/chat/completions"):
        return to_canonical_request(decode_body(body, OpenAIChatRequest))
    if path.endswith("/messages"):
        return to_conversation(body, decode_body(body, AnthropicRequest))
    if path.endswith("/api/chat"):
        request = read_chat(decode_body(body, OllamaChatRequest)).request
        return request if isinstance(request, ConversationRequest) else None
    return None


def _not_again(request_id: str, reason: str) -> BadRequest:
    return BadRequest(f"Request {request_id} cannot be asked again: {reason}.", code="request_not_kept")


def _plain_messages(conversation: ConversationRequest) -> Iterator[BenchmarkMessage]:
    """Yield messages that any chat template takes: roles alternate, tools stand in the system message."""
    tools = "\n".join(_tool_text(tool.name, tool.description, tool.parameters) for tool in conversation.tools)
    begin = (ConversationMessage(MessageRole.SYSTEM, (Text(tools),)),) if tools else ()
    role, texts = "", list[str]()
    for message in (*begin, *conversation.messages):
        next_role = "user" if message.role is MessageRole.TOOL else str(message.role)
        if next_role != role and texts:
            yield BenchmarkMessage(role=role, content="\n\n".join(texts))
            texts = []
        role = next_role
        texts += [text for part in message.parts if (text := _part_text(part))]
    if texts:
        yield BenchmarkMessage(role=role, content="\n\n".join(texts))


def _tool_text(name: str, description: str, parameters: msgspec.Raw | None) -> str:
    return f"{name}: {description} {bytes(parameters).decode() if parameters else ''}".strip()


def _part_text(part: object) -> str:
    match part:
        case Text() | ToolResult():
            return part.text
        case ToolCall():
            return f"{part.name}({part.arguments})"
        case _:
            return ""
