"""How many tokens a question is: its words and what was read of its files, as the window counts them."""

from collections.abc import Sequence

import msgspec

from app.cli.attachments import QuestionFiles
from app.client.endpoint import TextPart
from app.client.http import GatewayClient
from app.core.engines import EngineState, EngineStatus
from app.core.models import ModelInfo
from app.core.tokens import LONGEST_COUNTED, CountText, TextTokens, estimate_text_tokens

_COUNT_S = 30.0
_LEAST_SHARE = 0.01


class QuestionTokens(msgspec.Struct, frozen=True, kw_only=True):
    """How many tokens a question is, without what a chat template puts around it, and what its model takes.

    `context` is that of the loaded model, else what the model was trained for; None where nobody knows.
    """

    model: str
    tokens: int
    is_estimate: bool
    context: int | None = None

    def describe(self) -> str:
        """Return the count in a sentence."""
        about = "about " if self.is_estimate else ""
        sentence = f"The question is {about}{self.tokens:,} tokens"
        if self.context is None:
            return f"{sentence}."
        share = self.tokens / self.context
        words = f"{share:.0%}" if share >= _LEAST_SHARE else "under 1%"
        return f"{sentence}, {words} of the {self.context:,} that {self.model} takes."


def count_question(client: GatewayClient, model: str, words: Sequence[str], files: QuestionFiles) -> QuestionTokens:
    """Count a question: by the engine where the model is loaded, else by estimate, and so pictures and sounds."""
    texts = [part.text for part in files.parts if isinstance(part, TextPart)]
    text = "\n\n".join(part for part in (*words, *texts) if part)
    count = (
        client.post("/tokens", CountText(model=model, text=text), TextTokens, timeout_s=_COUNT_S)
        if len(text) <= LONGEST_COUNTED
        else TextTokens(tokens=estimate_text_tokens(text))
    )
    return QuestionTokens(
        model=model,
        tokens=count.tokens + files.media_tokens,
        is_estimate=count.is_estimate or files.media_tokens > 0,
        context=_context_of(client, model),
    )


def _context_of(client: GatewayClient, model: str) -> int | None:
    statuses = client.get("/running", list[EngineStatus])
    status = next((item for item in statuses if item.model == model and item.state is EngineState.READY), None)
    if status is not None and status.context:
        return status.context
    models = client.get("/models", list[ModelInfo])
    return next((info.trained_context for info in models if info.name == model), None)
