"""Words as the full-text index has them, and a question as an expression that asks it.

The index parts words at blanks and marks. Scripts that put none between words are indexed by characters, and asked for
by pairs that follow each other. A question is looked for word by word: a passage that has more of them, and rarer ones,
comes first.
"""

import re
from itertools import pairwise

from app.core.documents import LONGEST_QUERY

_NO_BLANKS = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_CHARACTER = re.compile(f"([{_NO_BLANKS}])")
_WORD = re.compile(r"\w+")
MOST_WORDS = 48
"""Of a question; each costs a lookup."""


def index_words(text: str) -> str:
    """Return a text as it is indexed."""
    return _CHARACTER.sub(r" \1 ", text).replace("\0", " ")


def question_words(text: str) -> list[str]:
    """Return the words of a question as expressions of the index, each once."""
    terms: dict[str, None] = {}
    for word in _WORD.findall(text[:LONGEST_QUERY].replace("_", " ")):
        for run in filter(None, _split_scripts(word)):
            terms.update(dict.fromkeys(_terms_of(run)))
    return list(terms)[:MOST_WORDS]


def _split_scripts(word: str) -> list[str]:
    return re.split(f"([{_NO_BLANKS}]+)", word)


def _terms_of(run: str) -> list[str]:
    if not _CHARACTER.match(run):
        return [f'"{run.casefold()}"']
    if len(run) == 1:
        return [f'"{run}"']
    return [f'"{first} {second}"' for first, second in pairwise(run)]
