"""What a smaller quantisation or KV cache loses: next tokens by two models of one vocabulary, set side by side.

At words of a public-domain text each says how likely its next tokens are. From that come the mean Kullback-Leibler
divergence of the smaller from the larger, how often both hold the same token for the likeliest, and the perplexity of
what really follows. A model says its likeliest tokens only, so all others count as one.
"""

import math
from collections.abc import Mapping, Sequence

import msgspec

from app.core.benchmarks import LossResult

TOP_TOKENS = 20
"""Asked for at each place; what engines give at most."""
POSITIONS = 48
_FIRST_WORD = 24
"""With less before it a text says little of what follows."""
_LEAST_PROBABILITY = 1e-6
"""Of what a model does not name at all: no divergence is endless."""

# Lewis Carroll, Alice's Adventures in Wonderland (1865), from the first chapter; Jane Austen, Pride and Prejudice
# (1813), its beginning. Both are in the public domain everywhere.
TEXT = (
    "Alice was beginning to get very tired of sitting by her sister on the bank, and of having nothing to do: once or "
    "twice she had peeped into the book her sister was reading, but it had no pictures or conversations in it, and "
    "what is the use of a book, thought Alice, without pictures or conversations? So she was considering in her own "
    "mind, as well as she could, for the hot day made her feel very sleepy and stupid, whether the pleasure of making "
    "a daisy-chain would be worth the trouble of getting up and picking the daisies, when suddenly a White Rabbit "
    "with pink eyes ran close by her. There was nothing so very remarkable in that; nor did Alice think it so very "
    "much out of the way to hear the Rabbit say to itself, Oh dear! Oh dear! I shall be late! But when the Rabbit "
    "actually took a watch out of its waistcoat-pocket, and looked at it, and then hurried on, Alice started to her "
    "feet. It is a truth universally acknowledged, that a single man in possession of a good fortune, must be in want "
    "of a wife. However little known the feelings or views of such a man may be on his first entering a "
    "neighbourhood, this truth is so well fixed in the minds of the surrounding families, that he is considered as "
    "the rightful property of some one or other of their daughters."
)

Distribution = Mapping[str, float]
"""Tokens and their probabilities; they do not come to one."""


class TextPlace(msgspec.Struct, frozen=True):
    """A place in the text: what stands before it, and what follows."""

    before: str
    after: str


def text_places(text: str = TEXT, count: int = POSITIONS) -> list[TextPlace]:
    """Return `count` places at the ends of words, spread over the text."""
    words = text.split(" ")
    step = max(1, (len(words) - _FIRST_WORD - 1) // count)
    places = range(_FIRST_WORD, len(words) - 1, step)[:count]
    return [TextPlace(" ".join(words[:place]), " " + " ".join(words[place:])) for place in places]


def read_distribution(answer: bytes) -> Distribution:
    """Return the next tokens that an answer of `/v1/completions` names, in llama.cpp's shape or in OpenAI's.

    Raises ValueError for an answer without them.
    """
    try:
        (choice, *_) = msgspec.json.decode(answer)["choices"]
        logprobs = choice["logprobs"]
        if "content" in logprobs:
            pairs = [(part["token"], part["logprob"]) for part in logprobs["content"][0]["top_logprobs"]]
        else:
            pairs = list(logprobs["top_logprobs"][0].items())
        shares = {str(token): math.exp(min(0.0, float(logprob))) for token, logprob in pairs}
    except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
        raise ValueError(f"The answer names no next tokens: {error}") from None
    if not shares:
        raise ValueError("The answer names no next tokens.")
    return shares


def compare_distributions(
    places: Sequence[TextPlace], first: Sequence[Distribution], second: Sequence[Distribution]
) -> LossResult:
    """Return what the second loses against the first. Raises ValueError for no places."""
    divergences = [_kl_divergence(before, after) for before, after in zip(first, second, strict=True)]
    same = [_likeliest(before) == _likeliest(after) for before, after in zip(first, second, strict=True)]
    if not divergences:
        raise ValueError("There is no loss at no place.")
    return LossResult(
        positions=len(divergences),
        kl_divergence=sum(divergences) / len(divergences),
        same_likeliest=sum(same) / len(same),
        perplexity_before=_perplexity(places, first),
        perplexity=_perplexity(places, second),
    )


def _kl_divergence(before: Distribution, after: Distribution) -> float:
    """Return the divergence over the tokens the first names, and all others as one."""
    rest_before, rest_after = 1 - sum(before.values()), 1 - sum(after.get(token, 0.0) for token in before)
    parts = [(share, after.get(token, _least_share(after))) for token, share in before.items()]
    parts.append((rest_before, rest_after))
    return max(0.0, sum(p * math.log(p / max(q, _LEAST_PROBABILITY)) for p, q in parts if p > _LEAST_PROBABILITY))


def _least_share(distribution: Distribution) -> float:
    """Return how likely a token may be that is not named: at most as the least likely of those that are."""
    return min([*distribution.values(), max(_LEAST_PROBABILITY, 1 - sum(distribution.values()))])


def _likeliest(distribution: Distribution) -> str:
    return max(distribution, key=lambda token: distribution[token])


def _perplexity(places: Sequence[TextPlace], distributions: Sequence[Distribution]) -> float:
    """Return e to the mean surprise at what follows; a token that is not named has what the others left."""
    surprises = []
    for place, distribution in zip(places, distributions, strict=True):
        matching_tokens = [token for token in distribution if token.strip() and place.after.startswith(token)]
        likely = distribution[max(matching_tokens, key=len)] if matching_tokens else _least_share(distribution)
        surprises.append(-math.log(max(likely, _LEAST_PROBABILITY)))
    return math.exp(sum(surprises) / len(surprises))
