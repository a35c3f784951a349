"""Google's documents, as far as they concern us: https://ai.google.dev/api/generate-content.

Names of fields may be written in either case, since Google's own reader takes both; `read_document` sees to it.
"""

import re
from functools import cache
from typing import Literal, TypeVar

import msgspec

from app.gateway.dialects.raw_fields import ABSENT
from app.gateway.entry.bodies import decode_body

T = TypeVar("T")


class _WireStruct(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Base of what is read."""


class GoogleBlob(_WireStruct, frozen=True, kw_only=True):
    """A file in base64."""

    mime_type: str = ""
    data: str = ""


class GoogleFunctionCall(_WireStruct, frozen=True, kw_only=True):
    """A call that the model made. `args` is an object."""

    name: str
    args: msgspec.Raw = ABSENT
    id: str = ""


class GoogleFunctionResponse(_WireStruct, frozen=True, kw_only=True):
    """What a function answered: an object."""

    name: str
    response: msgspec.Raw = ABSENT
    id: str = ""


class GooglePart(_WireStruct, frozen=True, kw_only=True):
    """A part of a turn: one of its fields is set."""

    text: str | None = None
    thought: bool = False
    inline_data: GoogleBlob | None = None
    function_call: GoogleFunctionCall | None = None
    function_response: GoogleFunctionResponse | None = None
    file_data: msgspec.Raw = ABSENT
    executable_code: msgspec.Raw = ABSENT
    code_execution_result: msgspec.Raw = ABSENT


class GoogleContent(_WireStruct, frozen=True, kw_only=True):
    """One turn."""

    parts: list[GooglePart] = []
    role: str = ""


class GoogleFunction(_WireStruct, frozen=True, kw_only=True):
    """A function that the model may call; its parameters are in Google's form of a schema, or in JSON Schema's."""

    name: str
    description: str = ""
    parameters: msgspec.Raw = ABSENT
    parameters_json_schema: msgspec.Raw = ABSENT


class GoogleTool(_WireStruct, frozen=True, kw_only=True):
    """Some functions, or a tool of Google's own, which nothing here has."""

    function_declarations: list[GoogleFunction] = []
    google_search: msgspec.Raw = ABSENT
    google_search_retrieval: msgspec.Raw = ABSENT
    code_execution: msgspec.Raw = ABSENT
    url_context: msgspec.Raw = ABSENT


class GoogleCallingConfig(_WireStruct, frozen=True, kw_only=True):
    """Whether functions are called, and which."""

    mode: str = ""
    allowed_function_names: list[str] = []


class GoogleToolConfig(_WireStruct, frozen=True, kw_only=True):
    """Around it."""

    function_calling_config: GoogleCallingConfig = GoogleCallingConfig()


class GoogleThinkingConfig(_WireStruct, frozen=True, kw_only=True):
    """How much to think. A budget of 0 is not at all, one of -1 leaves it to the model."""

    include_thoughts: bool = False
    thinking_budget: int | None = None
    thinking_level: str = ""


class GoogleGenerationConfig(_WireStruct, frozen=True, kw_only=True):
    """How tokens are drawn, when to stop, and what form the answer has."""

    stop_sequences: list[str] = []
    response_mime_type: str = ""
    response_schema: msgspec.Raw = ABSENT
    response_json_schema: msgspec.Raw = ABSENT
    candidate_count: int | None = None
    max_output_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: float | None = None
    """A whole number, which some clients write with a point."""
    seed: int | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    response_logprobs: bool = False
    logprobs: int | None = None
    thinking_config: GoogleThinkingConfig = GoogleThinkingConfig()


class GenerateContentRequest(_WireStruct, frozen=True, kw_only=True):
    """The body of `:generateContent` and `:streamGenerateContent`. Safety settings are passed over: nothing filters."""

    contents: list[GoogleContent] = []
    system_instruction: GoogleContent | None = None
    tools: list[GoogleTool] = []
    tool_config: GoogleToolConfig = GoogleToolConfig()
    generation_config: GoogleGenerationConfig = GoogleGenerationConfig()
    cached_content: str = ""


class CountTokensRequest(_WireStruct, frozen=True, kw_only=True):
    """The body of `:countTokens`: turns, or a whole request."""

    contents: list[GoogleContent] = []
    generate_content_request: GenerateContentRequest | None = None


class EmbedContentConfig(_WireStruct, frozen=True, kw_only=True):
    """What newer clients put apart."""

    output_dimensionality: int | None = None


class EmbedContentRequest(_WireStruct, frozen=True, kw_only=True):
    """The body of `:embedContent`, and each request of `:batchEmbedContents`."""

    content: GoogleContent = GoogleContent()
    model: str = ""
    output_dimensionality: int | None = None
    embed_content_config: EmbedContentConfig = EmbedContentConfig()

    @property
    def dimensions(self) -> int | None:
        """How many dimensions are wanted."""
        apart = self.embed_content_config.output_dimensionality
        return self.output_dimensionality if apart is None else apart


class BatchEmbedRequest(_WireStruct, frozen=True, kw_only=True):
    """The body of `:batchEmbedContents`."""

    requests: list[EmbedContentRequest]


class ModelPageQuery(_WireStruct, frozen=True, kw_only=True):
    """Which part of the list of models: `page_token` is what the page before gave."""

    page_size: int = 50
    page_token: str = ""


class GoogleUsage(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Tokens. The thoughts are not among the candidates' tokens."""

    prompt_token_count: int | None = None
    cached_content_token_count: int | None = None
    candidates_token_count: int | None = None
    thoughts_token_count: int | None = None
    total_token_count: int | None = None


class GoogleReplyCall(msgspec.Struct, frozen=True, kw_only=True):
    """A call."""

    id: str
    name: str
    args: dict[str, object]


class GoogleReplyPart(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A part of an answer."""

    text: str | None = None
    thought: bool = False
    function_call: GoogleReplyCall | None = None


class GoogleReplyContent(msgspec.Struct, frozen=True, kw_only=True):
    """The answer's turn."""

    parts: list[GoogleReplyPart]
    role: Literal["model"] = "model"


class GoogleTokenLogprob(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A token and its natural log probability."""

    token: str
    log_probability: float


class GoogleTopCandidates(msgspec.Struct, frozen=True, kw_only=True):
    """What else could have been written for one token, likeliest first."""

    candidates: list[GoogleTokenLogprob]


class GoogleLogprobs(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Of every token of a piece."""

    top_candidates: list[GoogleTopCandidates]
    chosen_candidates: list[GoogleTokenLogprob]


class GoogleCandidate(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """An answer, or a piece of it."""

    content: GoogleReplyContent | None = None
    finish_reason: str = ""
    index: int | None = None
    """Always there, so that it is set where it is 0."""
    logprobs_result: GoogleLogprobs | None = None
    avg_logprobs: float | None = None


class GenerateContentReply(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A whole answer, or a piece of a stream."""

    candidates: list[GoogleCandidate]
    model_version: str
    response_id: str
    usage_metadata: GoogleUsage | None = None


_AS_THEY_ARE = frozenset(
    {"args", "response", "parameters", "parametersJsonSchema", "responseSchema", "responseJsonSchema"}
)
"""Fields whose contents are the client's own."""
_READ = (
    *(GoogleBlob, GoogleFunctionCall, GoogleFunctionResponse, GooglePart, GoogleContent, GoogleFunction, GoogleTool),
    *(GoogleCallingConfig, GoogleToolConfig, GoogleThinkingConfig, GoogleGenerationConfig, GenerateContentRequest),
    *(CountTokensRequest, EmbedContentConfig, EmbedContentRequest),
)


def read_document(body: bytes, kind: type[T]) -> T:
    """Return a request's document, whichever case its fields are written in. Raises BadRequest."""
    if not _snake_pattern().search(body):
        return decode_body(body, kind)
    return decode_body(msgspec.json.encode(_to_camel_fields(decode_body(body, object))), kind)


@cache
def _snake_pattern() -> re.Pattern[bytes]:
    """Return what finds a field of ours in the other case."""
    return re.compile(rb'"(?:%s)"[ \t\r\n]{0,8}:' % "|".join(sorted(_camel_by_snake())).encode())


@cache
def _camel_by_snake() -> dict[str, str]:
    names = {
        name: encoded_name
        for kind in _READ
        for name, encoded_name in zip(kind.__struct_fields__, kind.__struct_encode_fields__, strict=True)
    }
    return {name: encoded_name for name, encoded_name in names.items() if name != encoded_name}


def _to_camel_fields(document: object) -> object:
    if isinstance(document, list):
        return [_to_camel_fields(item) for item in document]
    if not isinstance(document, dict):
        return document
    renamed_fields = {_camel_by_snake().get(name, name): value for name, value in document.items()}
    return {name: value if name in _AS_THEY_ARE else _to_camel_fields(value) for name, value in renamed_fields.items()}
