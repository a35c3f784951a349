"""From a sentence in the source to the words in the window: gettext's way, with named placeholders.

The source holds whole English sentences, which are also the keys of the catalogue that translators get
(`resources/translations/window.pot`). What is decided when a module is imported is a `LazyText`, translated
when it is shown because the language is chosen later. Qt's own `tr` would need a catalogue for English plurals too,
knows no named placeholders, and could not be used here, where words for both the window and the command line are made.
"""

from collections.abc import Sequence
from gettext import NullTranslations

import msgspec

_languages = [NullTranslations()]


class LazyText(msgspec.Struct, frozen=True):
    """A sentence of a table or a constant, not translated yet."""

    source: str

    def tr(self, **values: object) -> str:
        """Return it in the language of this program, with values in the places of their names."""
        return _fill(_languages[-1].gettext(self.source), values)

    def __str__(self) -> str:
        """Return it as it is shown, so that it can be a value in another sentence."""
        return self.tr()


def tr(sentence: str, /, **values: object) -> str:
    """Return a sentence in the language of this program, with values in the places of their names.

    The sentence is a literal, so that it can be found for the catalogue. Without values its braces mean nothing.
    """
    return _fill(_languages[-1].gettext(sentence), values)


def tr_plural(singular: str, many: str, count: int, /, **values: object) -> str:
    """Return the sentence for so many: English has two forms, other languages up to six. `{count}` is the number."""
    return _fill(_languages[-1].ngettext(singular, many, count), {"count": count, **values})


def tr_list(items: Sequence[str]) -> str:
    """Return several things as one: "a", "a and b", "a, b and c"."""
    if len(items) < 2:  # noqa: PLR2004 -- one thing needs no "and"
        return "".join(items)
    return tr("{items} and {last}", items=", ".join(items[:-1]), last=items[-1])


def tr_list_or(items: Sequence[str]) -> str:
    """Return several things to choose from: "a", "a or b", "a, b or c"."""
    if len(items) < 2:  # noqa: PLR2004 -- one thing needs no "or"
        return "".join(items)
    return tr("{items} or {last}", items=", ".join(items[:-1]), last=items[-1])


def tr_source(sentence: str) -> str:
    """Return what another program said in English, in the language of this one if the catalogue has it."""
    return _languages[-1].gettext(sentence) if sentence else ""


def use_language(translations: NullTranslations) -> NullTranslations:
    """Translate with this from now on, and return what was used before. What is on the screen already stays."""
    before, _languages[-1] = _languages[-1], translations
    return before


def _fill(sentence: str, values: dict[str, object]) -> str:
    return sentence.format(**values) if values else sentence
