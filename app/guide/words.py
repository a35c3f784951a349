"""A question as the words that tell what it is about: lower case, stems, one word for synonyms, names as their kind."""

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from itertools import pairwise

from app.guide.light_words import LIGHT_WORDS, OTHER_PRODUCTS, SHORT_FORMS

_WORD = re.compile(r"\{\w+\}|[^\W_]+(?:['’][^\W_]+)?")  # noqa: RUF001 -- the apostrophe of typeset text
_STOPS = frozenset(
    [
        "a",
        "an",
        "the",
        "i",
        "i'm",
        "i'd",
        "i've",
        "i'll",
        "me",
        "my",
        "mine",
        "you",
        "your",
        "yours",
        "it",
        "it's",
        "its",
        "this",
        "that",
        "these",
        "those",
        "he",
        "she",
        "we",
        "us",
        "our",
        "they",
        "them",
        "their",
        "there",
        "here",
        "is",
        "are",
        "am",
        "was",
        "were",
        "be",
        "been",
        "being",
        "do",
        "does",
        "did",
        "done",
        "don't",
        "doesn't",
        "didn't",
        "can",
        "can't",
        "cannot",
        "could",
        "couldn't",
        "will",
        "won't",
        "would",
        "should",
        "shall",
        "may",
        "might",
        "must",
        "to",
        "of",
        "in",
        "on",
        "at",
        "for",
        "from",
        "with",
        "without",
        "by",
        "as",
        "and",
        "or",
        "but",
        "if",
        "then",
        "than",
        "so",
        "how",
        "what",
        "what's",
        "which",
        "who",
        "whom",
        "whose",
        "when",
        "where",
        "where's",
        "why",
        "please",
        "just",
        "really",
        "very",
        "also",
        "too",
        "any",
        "some",
        "such",
        "one",
        "ones",
        "thing",
        "things",
        "way",
        "ways",
        "want",
        "wants",
        "wanted",
        "need",
        "needs",
        "needed",
        "like",
        "help",
        "about",
        "into",
        "onto",
        "out",
        "up",
        "down",
        "over",
        "get",
        "gets",
        "got",
        "getting",
        "have",
        "has",
        "had",
        "having",
        "make",
        "makes",
        "made",
        "making",
        "let",
        "lets",
        "let's",
        "go",
        "goes",
        "going",
        "know",
        "see",
        "tell",
        "show",
        "shows",
        "give",
        "gives",
        "put",
        "takes",
        "take",
        "taken",
        "use",
        "uses",
        "used",
        "using",
        "now",
        "right",
        "currently",
        "moment",
        "again",
        "still",
        "already",
        "yet",
        "only",
        "ever",
        "never",
        "always",
        "much",
        "many",
        "more",
        "most",
        "lot",
        "lots",
        "all",
        "every",
        "each",
        "both",
        "no",
        "not",
        "nor",
        "yes",
        "hey",
        "hi",
        "hello",
        "possible",
        "able",
        "anything",
        "something",
        "everything",
        "somehow",
        "somewhere",
        "ok",
        "okay",
        "well",
        "actually",
        "basically",
        "simply",
        "exactly",
        "kind",
        "sort",
        "different",
        "another",
        "other",
        "new",
        "good",
        "nice",
        "best",
        "better",
        "great",
        "sure",
        "work",
        "works",
        "working",
        "computer",
        "machine",
        "pc",
        "laptop",
        "box",
        "hardware",
        "device",
        "roundhouse",
        "app",
        "application",
        "program",
        "guide",
    ]
)
WEAK_SHARE = 0.35
"""What a word that only joins others counts for, against others that are as rare."""
PAIR_SHARE = 0.3
"""What two words beside each other count for besides: "log in" is no log."""
_SYNONYMS: Mapping[str, str] = {
    word: group[0]
    for group in (
        ("delete", "remove", "erase", "trash", "discard", "wipe"),
        ("chat", "conversation", "dialogue", "discussion", "thread"),
        ("picture", "image", "photo", "screenshot", "pic"),
        ("fast", "quick", "speed", "quickly", "speedy"),
        ("memory", "ram", "vram"),
        ("gpu", "graphics", "card"),
        ("large", "big", "larger", "bigger", "huge", "largest", "biggest", "longer", "long", "longest", "length"),
        ("find", "search", "look", "locate", "lookup"),
        ("show", "list", "display", "view"),
        ("install", "installed", "setup"),
        ("recommend", "suggest", "advise", "recommendation", "suggestion", "advice"),
        ("coding", "programming", "code", "developer"),
        ("file", "document", "pdf", "docx", "doc"),
        ("attach", "upload"),
        ("port", "ports"),
        ("gb", "gigabyte", "gib", "gig"),
        ("url", "address", "uri"),
        ("api", "endpoint", "server"),
        ("model", "llm", "ai", "modell"),
        ("quantise", "quantize", "quant", "quantisation", "quantization", "quantised", "quantized"),
        ("run", "running", "handle", "execute"),
        ("load", "start", "launch", "boot"),
        ("unload", "eject", "kick", "evict"),
        ("free", "release"),
        ("program", "software"),
        ("editor", "ide"),
        ("connect", "hook", "wire", "link", "integrate"),
        ("offline", "airgapped"),
        ("internet", "online", "web"),
        ("private", "privacy", "confidential"),
        ("label", "tag"),
        ("mistake", "typo", "wrong", "error"),
        ("small", "tiny", "little"),
        ("letter", "font", "text"),
        ("dark", "night"),
        ("answer", "reply", "response", "answers"),
        ("question", "prompt"),
        ("think", "thinking", "reasoning", "reason", "thought"),
        ("voice", "speak", "speech", "spoken", "talk", "loud", "aloud"),
        ("microphone", "mic", "dictate"),
        ("size", "big"),
        ("disk", "storage"),
        ("save", "keep", "store", "stored"),
        ("backup", "back-up"),
        ("version", "release"),
        ("update", "upgrade", "updates", "newer"),
        ("restore", "undelete", "recover"),
        ("simultaneous", "parallel", "concurrent"),
        ("explain", "meaning", "mean", "define", "definition", "describe"),
        ("change", "set", "adjust", "modify", "raise", "increase", "switch"),
        ("download", "fetch", "pull", "downloaded"),
        ("import", "migrate", "transfer"),
        ("organise", "organize", "group", "sort"),
    )
    for word in group
}  # fmt: skip
_LEAST_STEM = 4
_LEAST_SLIP = 6
"""Letters; shorter words are other words as soon as one letter differs."""


def split_words(text: str) -> list[str]:
    """Return the words of a text in order, in lower case."""
    words = (word.replace("’", "'") for word in _WORD.findall(text.casefold()))  # noqa: RUF001 -- as above
    return [part for word in words for part in SHORT_FORMS.get(word, word).split()]


def content_words(text: str) -> dict[str, float]:
    """Return the words and pairs that tell what a text is about, each with its share of the weight of its rarity."""
    shares: dict[str, float] = {}
    words = [(normal_word(word), WEAK_SHARE if word in _STOPS else 1.0) for word in split_words(text)]
    for word, share in words:
        shares[word] = max(share, shares.get(word, 0.0))
    for (first, first_share), (second, other) in pairwise(words):
        shares[f"{first} {second}"] = PAIR_SHARE * max(first_share, other)
    return shares


def is_light(word: str) -> bool:
    """Tell whether a word, as `content_words` has it, is of everyday talk, or joins others."""
    return word in _LIGHT


def is_other_product(word: str) -> bool:
    """Tell whether a word, as `content_words` has it, names a program or a device of somebody else."""
    return word in _OTHERS


@lru_cache(maxsize=1 << 14)  # the phrasings have 4,000 words between them, again and again
def normal_word(word: str) -> str:
    """Return what stands for a word and its forms and synonyms."""
    stem = _stem(word)
    return next((_SYNONYMS[form] for form in (word, word.removesuffix("s"), stem) if form in _SYNONYMS), stem)


def _stem(word: str) -> str:
    """Return a word without the usual English endings; crude, and the same for phrasings and questions."""
    if word.startswith("{"):
        return word
    word = word.removesuffix("'s")
    for suffix, rest in (("ies", "y"), ("sses", "ss"), ("ing", ""), ("ed", ""), ("es", "e"), ("s", "")):
        if word.endswith(suffix) and len(word) - len(suffix) + len(rest) >= _LEAST_STEM - 1 and not word.endswith("ss"):
            word = word[: -len(suffix)] + rest
            break
    if len(word) > _LEAST_STEM and word[-1] == word[-2] and word[-1] not in "lsz":
        word = word[:-1]
    return word.removesuffix("e") if len(word) > _LEAST_STEM else word


def near_word(word: str, known_words: Iterable[str]) -> str:
    """Return the known word that differs by one slip of the finger; the word itself if there is none."""
    if len(word) < _LEAST_SLIP - 1:
        return word
    return next((other for other in known_words if abs(len(other) - len(word)) <= 1 and _is_slip(word, other)), word)


def _is_slip(word: str, other: str) -> bool:
    """Tell whether two words differ by one letter more, less or other, or by two that are exchanged."""
    if word[0] != other[0] or len(other) < _LEAST_SLIP:
        return False
    start = next((at for at, (a, b) in enumerate(zip(word, other, strict=False)) if a != b), min(len(word), len(other)))
    rest, other_rest = word[start:], other[start:]
    return (
        rest[1:] == other_rest[1:]
        or rest[1:] == other_rest
        or rest == other_rest[1:]
        or (len(rest) > 1 and rest[1] + rest[0] + rest[2:] == other_rest)
    )


_LIGHT = frozenset(_stem(word) for word in LIGHT_WORDS | _STOPS if normal_word(word) == _stem(word))
_OTHERS = frozenset(map(normal_word, OTHER_PRODUCTS))
