"""What is wished for on the machine page, as values: the controls, and what a counterfactual does to them."""

import msgspec

from app.core import words
from app.core.advice import Counterfactual, Intent, PlanRequest

INTENTS = {
    Intent.CHAT: "Chat",
    Intent.CODING: "Coding",
    Intent.AGENT: "An agent",
    Intent.RAG: "Questions about documents",
    Intent.STRUCTURED: "Structured output",
    Intent.BATCH: "Overnight batches",
    Intent.TEAM: "A team",
    Intent.API: "An API",
    Intent.FLEET: "A fleet",
    Intent.APP: "My own program",
    Intent.BROWSER: "A browser or phone",
}
CONTEXTS = (4096, 8192, 16384, 32768, 65536, 131072, 262144)
KV_TYPES = {"f16": "16-bit (f16)", "q8_0": "8-bit (q8_0)", "q4_0": "4-bit (q4_0)"}
MOST_PEOPLE = 10_000
AUTOMATIC = ""


class PlanForm(msgspec.Struct, frozen=True, kw_only=True):
    """What the controls say. None is left to the advisor; an empty `model` means no particular one."""

    model: str = ""
    intent: Intent = Intent.CHAT
    users: int = 1
    context: int | None = None
    kv_type: str | None = None

    def make_request(self) -> PlanRequest:
        """Return the question to the gateway."""
        return PlanRequest(
            model=self.model, intent=self.intent, users=self.users, context=self.context, kv_type=self.kv_type
        )


def apply_counterfactual(form: PlanForm, change: dict[str, str | int], *, quantization: str = "") -> PlanForm | None:
    """Return the wishes after a counterfactual's change, or None if a control for any of it is missing.

    `quantization` is the present one of a model that is only a name: there another can be put in its place.
    """
    if quantization and "quantization" in change:
        other = str(change["quantization"])
        rest = {key: value for key, value in change.items() if key != "quantization"}
        change = {**rest, "model": requantize_name(form.model, quantization, other)}
    try:
        changed = msgspec.convert({**msgspec.structs.asdict(form), **change}, PlanForm)
    except msgspec.ValidationError:
        return None
    return changed if set(change) <= set(PlanForm.__struct_fields__) and changed != form else None


def requantize_name(model: str, present: str, other: str) -> str:
    """Return a model's name with another quantisation at its end: "qwen3 8b", "qwen3-8b-q4_k_m" -> "…-Q8_0"."""
    stem = model[: -len(present)].rstrip("-_.: ") if model.casefold().endswith(present.casefold()) else model
    return f"{stem}-{other}"


def change_words(counterfactual: Counterfactual) -> str:
    """Return what applying it does, for the sentence that offers a way back."""
    return ", ".join(f"{_NAMES.get(key, key)} {_format_value(value)}" for key, value in counterfactual.change.items())


def context_options(present: int | None, largest: int | None) -> list[tuple[str, str]]:
    """Return the contexts to choose from: the round ones, the present one, and the largest that fits."""
    sizes = sorted({*CONTEXTS, *(size for size in (present, largest) if size)})
    suffixes = {largest: " (most that fits)"} if largest else {}
    return [
        (AUTOMATIC, "Automatic"),
        *((str(size), words.format_tokens(size) + suffixes.get(size, "")) for size in sizes),
    ]


_NAMES = {
    "kv_type": "KV cache",
    "context": "Context",
    "users": "Users",
    "model": "Model",
    "intent": "Use case",
    "quantization": "Quantisation",
}


def _format_value(value: str | int) -> str:
    return words.format_tokens(value) if isinstance(value, int) else value
