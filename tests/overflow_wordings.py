"""How engines say that a prompt is too long, and what it means. Document and status are those of a whole refusal.

The words of llama.cpp, and of vLLM 0.32 and Dynamo 1.6 on a processor, were observed by running the engine. The others
come from the engines' sources and documentation, our own workers' included. LMDeploy's row is worded by assumption:
LMDeploy 0.10 has no such words; the row has vLLM's.
"""

from typing import Any

import msgspec

from app.gateway.canonical.events import Overflow


class Wording(msgspec.Struct, frozen=True):
    """One engine's refusal."""

    id: str
    document: dict[str, Any]
    overflow: Overflow
    status: int = 400


def _nest_error(message: str, **more: object) -> dict[str, Any]:
    return {"error": {"message": message, "type": "BadRequestError", "param": None, "code": 400, **more}}


def _flat(message: str) -> dict[str, Any]:
    return {"object": "error", "message": message, "type": "BadRequestError", "param": None, "code": 400}


def _tgi(message: str) -> dict[str, Any]:
    return {"error": message, "error_type": "validation"}


def _llama(message: str, **counts: int) -> dict[str, Any]:
    return {"error": {"code": 400, "message": message, "type": "exceed_context_size_error", **counts}}


TOO_LONG = Overflow(context=1024, prompt=1872)
WITH_ANSWER = Overflow(context=1024, prompt=900, answer=500)
NO_PROMPT = Overflow(context=1024)
UNKNOWN = Overflow()
_MAXIMUM = "This model's maximum context length is 1024 tokens."
_SHORTER = "Please reduce the length of the"

WORDINGS = [
    Wording(
        "Dynamo 1.6",
        {
            "message": "Invalid request",
            "type": "Bad Request",
            "code": 400,
            "details": {"type": "context_length", "limit": 1024, "actual": 1872},
        },
        TOO_LONG,
    ),
    Wording(
        "vLLM 0.32",
        _nest_error(
            "This model's maximum context length is 1024 tokens. However, your prompt contains at least 1025 input "
            "tokens, which exceeds this limit even without any output tokens. Please reduce the length of the input "
            "prompt. (parameter=input_tokens, value=1025)"
        ),
        NO_PROMPT,
    ),
    Wording(
        "llama.cpp",
        _llama(
            "request (1872 tokens) exceeds the available context size (1024 tokens), try increasing it",
            n_prompt_tokens=1872,
            n_ctx=1024,
        ),
        TOO_LONG,
    ),
    Wording(
        "llama.cpp, counts in the sentence alone",
        _llama("request (1872 tokens) exceeds the available context size (1024 tokens), try increasing it"),
        TOO_LONG,
    ),
    Wording("llama.cpp of 2025", _llama("the request exceeds the available context size, try increasing it"), UNKNOWN),
    Wording(
        "llama.cpp, embeddings",
        {
            "error": {
                "code": 500,
                "message": (
                    "input (1872 tokens) is too large to process. increase the physical batch size (current batch "
                    "size: 1024)"
                ),
                "type": "server_error",
            }
        },
        TOO_LONG,
        500,
    ),
    Wording(
        "our workers",
        {
            "error": {
                "message": "the request (1872 tokens) exceeds the available context size (1024 tokens)",
                "type": "exceed_context_size_error",
                "param": "messages",
                "code": 400,
                "n_prompt_tokens": 1872,
                "n_ctx": 1024,
            }
        },
        TOO_LONG,
    ),
    Wording(
        "MLX-LM",
        _llama("The request has 1872 tokens, and the context holds 1024 (exceed_context_size_error)."),
        TOO_LONG,
    ),
    Wording(
        "vLLM",
        _nest_error(
            f"{_MAXIMUM} However, your request has 1872 input tokens. Please reduce the length of the input messages.",
            param="input_tokens",
        ),
        TOO_LONG,
    ),
    Wording(
        "vLLM, with the answer",
        _nest_error(
            f"'max_tokens' or 'max_completion_tokens' is too large: 500. {_MAXIMUM[:-1]} and your request has 900 "
            "input tokens (500 > 1024 - 900)."
        ),
        WITH_ANSWER,
    ),
    Wording(
        "vLLM of 2026, with the answer",
        _nest_error(
            f"{_MAXIMUM} However, you requested 500 output tokens and your prompt contains at least 900 input tokens, "
            "for a total of at least 1400 tokens. Please reduce the length of the input prompt or the number of "
            "requested output tokens."
        ),
        WITH_ANSWER,
    ),
    Wording(
        "vLLM, by characters",
        _nest_error(
            f"{_MAXIMUM} However, you requested 500 output tokens and your prompt contains 200000 characters (more "
            "than 2096 characters, which is the upper bound for 524 input tokens)."
        ),
        NO_PROMPT,
    ),
    Wording(
        "vLLM, its input processor",
        _nest_error(
            "The decoder prompt (length 1872) is longer than the maximum model length of 1024. Make sure that "
            "`max_model_len` is no smaller than the number of text tokens."
        ),
        TOO_LONG,
    ),
    Wording(
        "vLLM, with pictures",
        _nest_error(
            "The prompt (total length 1872) is too long to fit into the model (context length 1024). Make sure that "
            "`max_model_len` is no smaller than the number of text tokens plus multimodal tokens."
        ),
        TOO_LONG,
    ),
    Wording(
        "vLLM of 2024",
        _flat(
            f"{_MAXIMUM} However, you requested 1400 tokens (900 in the messages, 500 in the completion). Please "
            "reduce the length of the messages or completion."
        ),
        WITH_ANSWER,
    ),
    Wording(
        "SGLang", _flat("The input (1872 tokens) is longer than the model's context length (1024 tokens)."), TOO_LONG
    ),
    Wording(
        "SGLang, with the answer",
        _flat(
            "Requested token count exceeds the model's maximum context length of 1024 tokens. You requested a total "
            "of 1400 tokens: 900 tokens from the input messages and 500 tokens for the completion. Please reduce the "
            "number of tokens in the input messages or the completion to fit within the limit."
        ),
        WITH_ANSWER,
    ),
    Wording(
        "SGLang, its scheduler",
        _flat(
            "Input length (1872 tokens) exceeds the maximum allowed length (1024 tokens). Use a shorter input or "
            "enable --allow-auto-truncate."
        ),
        TOO_LONG,
    ),
    Wording(
        "TGI", _tgi("Input validation error: `inputs` must have less than 1024 tokens. Given: 1872"), TOO_LONG, 422
    ),
    Wording(
        "TGI, with the answer",
        _tgi(
            "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 1024. Given: 900 `inputs` tokens "
            "and 500 `max_new_tokens`"
        ),
        WITH_ANSWER,
        422,
    ),
    Wording("LMDeploy", _flat(f"{_MAXIMUM} However, your request has 1872 input tokens."), TOO_LONG),
    Wording(
        "TensorRT-LLM",
        _flat("The sum of prompt length (1872.0), query length (0) should not exceed max_num_tokens (1024)"),
        TOO_LONG,
    ),
    Wording(
        "TensorRT-LLM, its longest sequence",
        _flat(
            "`default_max_tokens` (-848) must be greater than 0, `default_max_tokens` (-848) = max_seq_len (1024) - "
            "`splited_prompt_len` (1872) - `query_token_len` (0)"
        ),
        TOO_LONG,
    ),
    Wording(
        "TensorRT-LLM, compiled",
        _flat("Encountered an error: Prompt length (1872) exceeds maximum input length (1024). Set log level to info"),
        TOO_LONG,
    ),
    Wording(
        "Dynamo",
        {
            "message": f"{_MAXIMUM} However, your messages resulted in 1872 tokens. {_SHORTER} messages.",
            "type": "Bad Request",
            "code": 400,
        },
        TOO_LONG,
    ),
    Wording(
        "MLC LLM",
        _flat("Request prompt has 1872 tokens in total, larger than the model input length limit 1024."),
        TOO_LONG,
    ),
    Wording("OpenVINO Model Server", _tgi("Number of prompt tokens: 1872 exceeds model max length: 1024"), TOO_LONG),
    Wording(
        "LM Studio",
        _tgi(
            "Trying to keep the first 1872 tokens when context the overflows. However, the model is loaded with "
            "context length of only 1024 tokens, which is not enough."
        ),
        TOO_LONG,
    ),
    Wording(
        "LM Studio of 2026",
        _tgi(
            "The number of tokens to keep from the initial prompt is greater than the context length (n_keep: 1872>= "
            "n_ctx: 1024). Try to load the model with a larger context length, or provide a shorter input"
        ),
        TOO_LONG,
    ),
    Wording(
        "OpenAI",
        _nest_error(
            f"{_MAXIMUM[:-1]}, however you requested 1400 tokens (900 in your prompt; 500 for the completion). Please "
            "reduce your prompt; or completion length.",
            code="context_length_exceeded",
        ),
        WITH_ANSWER,
    ),
    Wording(
        "OpenRouter",
        _nest_error(
            "This endpoint's maximum context length is 1024 tokens. However, you requested about 1400 tokens (900 of "
            "text input, 500 in the output). Please reduce the length of either one."
        ),
        WITH_ANSWER,
    ),
    Wording("who says only what it is", _nest_error("Too much.", code="context_length_exceeded"), UNKNOWN),
]


def _openai(noun: str) -> dict[Overflow, str]:
    request_clause = f"you requested 1400 tokens (900 in the {noun}, 500 in the completion)"
    return {
        TOO_LONG: f"{_MAXIMUM} However, your {noun} resulted in 1872 tokens. {_SHORTER} {noun}.",
        WITH_ANSWER: f"{_MAXIMUM} However, {request_clause}. {_SHORTER} {noun} or completion.",
        NO_PROMPT: f"{_MAXIMUM} However, your {noun} resulted in more. {_SHORTER} {noun}.",
        UNKNOWN: f"The length of your {noun} exceeds this model's maximum context length. {_SHORTER} {noun}.",
    }


_WINDOW = "Your input exceeds the context window of this model"
_OF_1024 = "this model's maximum context length is 1024 tokens"
_INPUT = "the input length exceeds the context length"
_GREATER = "is greater than the context length"
_LOAD = "Try to load the model with a larger context length, or provide a shorter input."
_SUM = "input length and `max_tokens` exceed context limit: 900 + 500 > 1024"
_ANTHROPIC = {
    TOO_LONG: "prompt is too long: 1872 tokens > 1024 maximum",
    WITH_ANSWER: f"{_SUM}, decrease input length or `max_tokens` and try again",
    NO_PROMPT: "prompt is too long: more than the maximum of 1024 tokens",
    UNKNOWN: "prompt is too long",
}
_OLLAMA = {
    TOO_LONG: f"{_INPUT}: {_OF_1024}, and the prompt has 1872",
    WITH_ANSWER: f"{_INPUT}: {_OF_1024}, and the prompt has 900 and the answer may have 500",
    NO_PROMPT: f"{_INPUT}: {_OF_1024}",
    UNKNOWN: _INPUT,
}
WORDS = {
    **dict.fromkeys(("/v1/chat/completions", "/chat/completions", "/api/v0/chat/completions"), _openai("messages")),
    **dict.fromkeys(("/v1/completions", "/completions", "/api/v0/completions", "/infill"), _openai("prompt")),
    **dict.fromkeys(("/v1/embeddings", "/embeddings", "/api/v0/embeddings"), _openai("input")),
    **dict.fromkeys(("/api/chat", "/api/generate", "/api/embed"), _OLLAMA),
    "/v1/messages": _ANTHROPIC,
    "/v1/responses": {
        TOO_LONG: f"{_WINDOW}: {_OF_1024}, and your input has 1872.",
        WITH_ANSWER: f"{_WINDOW}: {_OF_1024}, and your input has 900 and the answer asked for 500.",
        NO_PROMPT: f"{_WINDOW}: {_OF_1024}.",
        UNKNOWN: f"{_WINDOW}. Please adjust your input and try again.",
    },
    "/api/v1/chat": {
        TOO_LONG: f"The prompt of 1872 tokens {_GREATER} of 1024. {_LOAD}",
        WITH_ANSWER: f"The prompt of 900 tokens with an answer of 500 {_GREATER} of 1024. {_LOAD}",
        NO_PROMPT: f"The prompt {_GREATER} of 1024. {_LOAD}",
        UNKNOWN: f"The prompt {_GREATER}. {_LOAD}",
    },
}
"""By address, what its clients are told."""
