"""What Ollama's clients send and read, field by field, named and typed as Ollama has them.

A field with a default is left out when it has that value, as Go's `omitempty` does; one without is always there.
Durations are nanoseconds. Unknown fields of requests are passed over, as Ollama does.
"""

import msgspec

from app.gateway.canonical.events import TokenLogprob
from app.gateway.dialects.keep_alive import KeepAliveFields
from app.gateway.dialects.raw_fields import ABSENT, value_of

Fields = dict[str, msgspec.Raw]


class OllamaCallFunction(msgspec.Struct, frozen=True):
    """The function of a tool call in a message. `arguments` is an object; text that holds one is taken too."""

    name: str = ""
    arguments: msgspec.Raw = ABSENT


class OllamaToolCall(msgspec.Struct, frozen=True):
    """A tool call a client sends back."""

    function: OllamaCallFunction = OllamaCallFunction()
    id: str = ""


class OllamaMessage(msgspec.Struct, frozen=True, kw_only=True):
    """One message of a conversation. Images are bare base64."""

    role: str
    content: str | None = None
    thinking: str | None = None
    images: list[str] | None = None
    audio: msgspec.Raw = ABSENT
    audios: msgspec.Raw = ABSENT
    input_audio: msgspec.Raw = ABSENT
    """This and the two before it are no fields of Ollama's, which clients send all the same: they are refused."""
    tool_calls: list[OllamaToolCall] | None = None
    tool_name: str | None = None
    name: str | None = None
    """What `tool_name` was called in Ollama's first tool messages."""
    tool_call_id: str | None = None


class OllamaToolFunction(msgspec.Struct, frozen=True):
    """A function offered to the model."""

    name: str
    description: str | None = None
    parameters: msgspec.Raw = ABSENT


class OllamaTool(msgspec.Struct, frozen=True):
    """A tool offered to the model; functions are the only kind."""

    function: OllamaToolFunction


class OllamaCommonFields(KeepAliveFields, frozen=True, kw_only=True):
    """What chat and generate share."""

    model: str | None = None
    stream: bool | None = None
    format: msgspec.Raw = ABSENT
    options: Fields | None = None
    think: bool | str | None = None
    truncate: bool | None = None
    logprobs: bool | None = None
    top_logprobs: int | None = None


class OllamaChatRequest(OllamaCommonFields, frozen=True, kw_only=True):
    """`POST /api/chat`."""

    messages: list[OllamaMessage] | None = None
    tools: list[OllamaTool] | None = None


class OllamaGenerateRequest(OllamaCommonFields, frozen=True, kw_only=True):
    """`POST /api/generate`."""

    prompt: str | None = None
    suffix: str | None = None
    system: str | None = None
    template: str | None = None
    context: list[int] | None = None
    raw: bool | None = None
    images: list[str] | None = None


class OllamaEmbedRequest(KeepAliveFields, frozen=True, kw_only=True):
    """`POST /api/embed`."""

    model: str | None = None
    input: msgspec.Raw = ABSENT
    truncate: bool | None = None
    dimensions: int | None = None
    options: Fields | None = None


class OllamaEmbeddingsRequest(KeepAliveFields, frozen=True, kw_only=True):
    """`POST /api/embeddings`, which `POST /api/embed` replaced."""

    model: str | None = None
    prompt: str | None = None
    options: Fields | None = None


class OllamaModelRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What show, pull, push and delete are sent. Older clients say `name`."""

    model: str | None = None
    name: str | None = None
    stream: bool | None = None
    verbose: bool | None = None

    @property
    def model_name(self) -> str:
        """The model meant."""
        return self.model or self.name or ""


class OllamaCreateRequest(OllamaModelRequest, frozen=True, kw_only=True, rename={"from_": "from"}):
    """`POST /api/create`. Files and adapters are names and digests of blobs; `modelfile` is what clients sent once."""

    from_: str | None = None
    files: dict[str, str] | None = None
    adapters: dict[str, str] | None = None
    system: str | None = None
    template: str | None = None
    license: str | list[str] | None = None
    parameters: Fields | None = None
    messages: list[OllamaMessage] | None = None
    quantize: str | None = None
    quantization: str | None = None
    modelfile: str | None = None
    renderer: msgspec.Raw = ABSENT
    parser: msgspec.Raw = ABSENT
    requires: msgspec.Raw = ABSENT
    info: msgspec.Raw = ABSENT
    draft_files: msgspec.Raw = ABSENT

    @property
    def fields_without_effect(self) -> list[str]:
        """What is there and has no effect here."""
        names = ("renderer", "parser", "requires", "info", "draft_files")
        return [name for name in names if value_of(getattr(self, name))]


class OllamaCopyRequest(msgspec.Struct, frozen=True, kw_only=True):
    """`POST /api/copy`."""

    source: str = ""
    destination: str = ""


class OllamaReplyFunction(msgspec.Struct, frozen=True, kw_only=True):
    """The function of a tool call in an answer. `arguments` is an object."""

    index: int
    name: str
    arguments: dict[str, object]


class OllamaReplyCall(msgspec.Struct, frozen=True, kw_only=True):
    """A whole tool call: Ollama never sends one in pieces."""

    id: str
    function: OllamaReplyFunction


class OllamaReplyMessage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the model said. `content` is always text, empty or not."""

    role: str
    content: str
    thinking: str = ""
    tool_calls: tuple[OllamaReplyCall, ...] = ()


class OllamaEndFields(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What only the last line of a stream, or a whole answer, has."""

    done_reason: str = ""
    total_duration: int = 0
    load_duration: int = 0
    prompt_eval_count: int = 0
    prompt_eval_duration: int = 0
    eval_count: int = 0
    eval_duration: int = 0
    dropped_messages: int = 0
    """Ours: how many did not fit and were left out, where `truncate` asked for that."""


class OllamaChatReply(OllamaEndFields, frozen=True, kw_only=True, omit_defaults=True):
    """One line of a chat's stream, or the whole answer. `created_at` is RFC 3339."""

    model: str
    created_at: str
    message: OllamaReplyMessage
    done: bool
    logprobs: tuple[TokenLogprob, ...] = ()


class OllamaGenerateReply(OllamaEndFields, frozen=True, kw_only=True, omit_defaults=True):
    """One line of a completion's stream, or the whole answer."""

    model: str
    created_at: str
    response: str
    done: bool
    thinking: str = ""
    tool_calls: tuple[OllamaReplyCall, ...] = ()
    logprobs: tuple[TokenLogprob, ...] = ()


class OllamaEmbedReply(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Vectors of length 1, one per input."""

    model: str
    embeddings: list[list[float]]
    total_duration: int = 0
    load_duration: int = 0
    prompt_eval_count: int = 0
    truncated_inputs: int = 0
    """Ours: how many did not fit and were cut."""


class OllamaEmbeddingsReply(msgspec.Struct, frozen=True):
    """One vector."""

    embedding: list[float]


class OllamaProgress(msgspec.Struct, frozen=True):
    """A line of the stream of pull, push and create."""

    status: str


class OllamaPullProgress(msgspec.Struct, frozen=True, kw_only=True):
    """A line of the stream of pull while bytes come."""

    status: str
    digest: str
    total: int
    completed: int


class OllamaVersion(msgspec.Struct, frozen=True):
    """`GET /api/version`."""

    version: str


class OllamaModelDetails(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A model in a few words. All texts are always there: Zed's parser wants them."""

    parent_model: str
    format: str
    family: str
    families: list[str]
    parameter_size: str
    quantization_level: str
    context_length: int = 0
    embedding_length: int = 0


class OllamaTagEntry(msgspec.Struct, frozen=True, kw_only=True):
    """A model in `GET /api/tags`. `digest` is 64 hexadecimal digits."""

    name: str
    model: str
    modified_at: str
    size: int
    digest: str
    details: OllamaModelDetails
    capabilities: list[str]


class OllamaRunningModel(msgspec.Struct, frozen=True, kw_only=True):
    """A model in `GET /api/ps`. `size_vram` are the bytes that are on a GPU, `context_length` what is loaded."""

    name: str
    model: str
    size: int
    digest: str
    details: OllamaModelDetails
    expires_at: str
    size_vram: int
    context_length: int


class OllamaModelList(msgspec.Struct, frozen=True):
    """The document around a list of models."""

    models: list[OllamaTagEntry] | list[OllamaRunningModel]


class OllamaPresetMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A turn that every conversation with a model begins with."""

    role: str
    content: str


class OllamaShowReply(msgspec.Struct, frozen=True, kw_only=True):
    """`POST /api/show`. `model_info` and `capabilities` are never null: clients look into them unasked."""

    license: str
    modelfile: str
    parameters: str
    template: str
    system: str
    details: OllamaModelDetails
    model_info: dict[str, object]
    capabilities: list[str]
    modified_at: str
    messages: list[OllamaPresetMessage] | msgspec.UnsetType = msgspec.UNSET
