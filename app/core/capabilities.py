"""What a model can do, in one set of words: a model's files, an endpoint's cards and every listing are put in them."""

from collections.abc import Iterable
from enum import StrEnum

from app.core.errors import BadRequest, quote_value


class Capability(StrEnum):
    """One thing a model can do, in the order in which they are listed."""

    COMPLETION = "completion"
    """Goes on with a text."""
    CHAT = "chat"
    """Answers a conversation."""
    TOOLS = "tools"
    INFILL = "infill"
    """Writes the middle of a text; Ollama calls it "insert"."""
    VISION = "vision"
    AUDIO = "audio"
    EMBEDDING = "embedding"
    RERANK = "rerank"
    """Says how well documents answer a query."""
    THINKING = "thinking"
    TRANSCRIPTION = "transcription"
    """Writes down what is said in a recording."""
    SPEECH = "speech"
    """Reads a text aloud."""
    IMAGES = "images"
    """Makes pictures."""


class InfillStyle(StrEnum):
    """How the prompt for the middle of a text is written, by the family whose marks it has.

    For editors that write the prompt themselves; the others are asked with what is before and after the gap.
    """

    QWEN = "qwen"
    """`<|fim_prefix|>`; CodeGemma's is the same."""
    STARCODER = "starcoder"
    """`<fim_prefix>`; also Granite Code and StableCode."""
    GRANITE = "granite"
    """`<fim-prefix>`."""
    CODE_LLAMA = "codellama"
    """`<PRE>`."""
    DEEPSEEK = "deepseek"
    GLM = "glm"
    """`<|code_prefix|>`."""


SINGLE = frozenset({Capability.EMBEDDING, Capability.RERANK, Capability.SPEECH, Capability.IMAGES})
"""Models made for one of these write no text."""
_OTHER_NAMES = {
    "completions": Capability.COMPLETION,
    "insert": Capability.INFILL,
    "embeddings": Capability.EMBEDDING,
    "embed": Capability.EMBEDDING,
    "reranking": Capability.RERANK,
    "tool_use": Capability.TOOLS,
    "trained_for_tool_use": Capability.TOOLS,
    "function_calling": Capability.TOOLS,
    "completion_chat": Capability.CHAT,
    "completion_fim": Capability.INFILL,
    "multimodal": Capability.VISION,
    "reasoning": Capability.THINKING,
    "transcriptions": Capability.TRANSCRIPTION,
    "transcribe": Capability.TRANSCRIPTION,
    "speech_to_text": Capability.TRANSCRIPTION,
    "stt": Capability.TRANSCRIPTION,
    "asr": Capability.TRANSCRIPTION,
    "automatic-speech-recognition": Capability.TRANSCRIPTION,
    "text_to_speech": Capability.SPEECH,
    "text-to-speech": Capability.SPEECH,
    "tts": Capability.SPEECH,
    "image_generation": Capability.IMAGES,
    "text-to-image": Capability.IMAGES,
}
"""What people and other programs say for the same."""


def in_order(capabilities: Iterable[Capability]) -> list[Capability]:
    """Return each of them once, in the order of listings."""
    present = set(capabilities)
    return [capability for capability in Capability if capability in present]


def parse_capability(name: str) -> Capability | None:
    """Return what a word means, whatever its case; None for a word that means none of them."""
    plain = name.strip().casefold()
    return next((capability for capability in Capability if capability == plain), _OTHER_NAMES.get(plain))


def parse_capabilities(text: str) -> list[Capability]:
    """Return what a list with commas says. A model that chats goes on with texts too. Raises BadRequest."""
    by_word = {word: parse_capability(word) for word in text.split(",") if word.strip()}
    unknown = [word.strip() for word, capability in by_word.items() if capability is None]
    if unknown:
        raise BadRequest(
            f"There is no capability {quote_value(unknown[0])}.",
            hint=f"The capabilities are {', '.join(Capability)}.",
            code="invalid_value",
        )
    return add_implied(capability for capability in by_word.values() if capability is not None)


def add_implied(capabilities: Iterable[Capability]) -> list[Capability]:
    """Return them with what they bring along: what chats can go on with a text, and so can what sees or calls tools."""
    present = set(capabilities)
    if present & _OF_CHAT:
        present.add(Capability.CHAT)
    if Capability.CHAT in present:
        present.add(Capability.COMPLETION)
    return in_order(present)


_OF_CHAT = {Capability.TOOLS, Capability.VISION, Capability.AUDIO, Capability.THINKING}
