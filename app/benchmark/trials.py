"""Two answers to one request set side by side: equal or not, from which character and token on, valid or not."""

import hashlib
from collections.abc import Sequence
from statistics import median

import msgspec

from app.benchmark.statistics import bootstrap_ratio
from app.core.benchmarks import Figure
from app.core.trials import TrialAnswer, TrialComparison, TrialResult, TrialSide


class WrittenAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """An answer in the pieces in which it came, and what was measured of it."""

    pieces: list[str] = []
    about: TrialAnswer = TrialAnswer()

    @property
    def text(self) -> str:
        """All of it."""
        return "".join(self.pieces)

    def describe(self) -> TrialAnswer:
        """Return it without words."""
        if self.about.error:
            return self.about
        text = self.text
        return msgspec.structs.replace(self.about, sha256=sha256_text(text), length=len(text))


def sha256_text(text: str) -> str:
    """Return the hash of a text."""
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()


def compare_answers(request_id: str, prompt: str, first: WrittenAnswer, second: WrittenAnswer) -> TrialComparison:
    """Return the comparison, without words."""
    comparison = TrialComparison(
        id=request_id,
        prompt_sha256=sha256_text(prompt),
        prompt_length=len(prompt),
        first=first.describe(),
        second=second.describe(),
    )
    if first.about.error or second.about.error:
        return comparison
    if first.text == second.text:
        return msgspec.structs.replace(comparison, is_equal=True)
    place = _find_difference(first.text, second.text)
    return msgspec.structs.replace(
        comparison, is_equal=False, diverges_at=place, diverges_at_token=_count_pieces(first.pieces, place)
    )


def _find_difference(first: str, second: str) -> int:
    """Return the first character that differs; the length of the shorter where the other goes on from it."""
    pairs = enumerate(zip(first, second, strict=False))
    return next((place for place, (before, after) in pairs if before != after), min(len(first), len(second)))


def _count_pieces(pieces: Sequence[str], place: int) -> int:
    """Return how many pieces end at or before a character."""
    end = 0
    for number, piece in enumerate(pieces):
        end += len(piece)
        if end > place:
            return number
    return len(pieces)


def summarize_side(side: TrialSide, answers: Sequence[TrialAnswer]) -> TrialSide:
    """Return a side with what its answers come to."""
    complete_answers = [part for part in answers if not part.error]
    rates = [rate for part in complete_answers if (rate := part.tokens_s) is not None]
    calls = sum(part.calls for part in complete_answers)
    json_verdicts = [part.is_valid_json for part in complete_answers if part.is_valid_json is not None]
    return msgspec.structs.replace(
        side,
        answered=len(complete_answers),
        ttft_s=median(part.ttft_s for part in complete_answers) if complete_answers else None,
        tokens_s=median(rates) if rates else None,
        valid_calls=sum(part.valid_calls for part in complete_answers) / calls if calls else None,
        valid_json=sum(json_verdicts) / len(json_verdicts) if json_verdicts else None,
    )


def summarize_trial(result: TrialResult) -> TrialResult:
    """Return a result with its shares, ratios and sentence."""
    both = [part for part in result.requests if part.is_equal is not None]
    timed_answers = [] if result.disturbances else both
    equal = sum(part.is_equal is True for part in both) / len(both) if both else None
    summary = msgspec.structs.replace(
        result,
        equal=equal,
        ttft_ratio=_ratio_of([(part.first.ttft_s, part.second.ttft_s) for part in timed_answers]),
        e2e_ratio=_ratio_of([(part.first.e2e_s, part.second.e2e_s) for part in timed_answers]),
        can_switch=bool(both),
    )
    return msgspec.structs.replace(summary, sentence=_describe_trial(summary, len(both)))


def _ratio_of(pairs: Sequence[tuple[float, float]]) -> Figure | None:
    return bootstrap_ratio([first for first, _ in pairs], [second for _, second in pairs]) if pairs else None


def _describe_trial(result: TrialResult, both: int) -> str:
    error = result.second.error or result.first.error
    if not both:
        return f"Nothing can be compared: {error or 'no request was answered by both.'}"
    equal = sum(part.is_equal is True for part in result.requests)
    places = [part.diverges_at for part in result.requests if part.diverges_at is not None]
    parts = [f"{equal} of {both} answers are equal"]
    if places:
        parts.append(f"the others differ from character {int(median(places)) + 1} on (median)")
    return f"{'; '.join(parts)}. {error}".strip()
