"""Every sentence of the window is where translators find it, whole, and comes out in their words."""

import ast
from collections.abc import Iterator
from gettext import NullTranslations

import pytest

from app.core.translation import LazyText, tr, tr_list, tr_plural, use_language
from tests.demo.pseudo_language import PseudoLanguage, disguise
from tests.window_texts import CATALOGUE, Source, catalogue, parameter_names, read_source, read_sources, stray_words

pytestmark = pytest.mark.slow  # `make check` runs them


@pytest.fixture
def pseudo() -> Iterator[None]:
    before = use_language(PseudoLanguage())
    yield
    use_language(before)


def faults_of(code: str) -> list[str]:
    tree = ast.parse(code)
    return read_source("app/gui/made_up.py", tree, parameter_names([tree])).faults


@pytest.fixture(scope="module")
def sources() -> list[Source]:
    return read_sources()


def test_no_words_of_the_window_are_astray(sources: list[Source]) -> None:
    assert not stray_words(sources), "wrap them in `tr`, `tr_plural` or `LazyText` (docs/internals/words.md)"


def test_the_catalogue_holds_what_the_source_says(sources: list[Source]) -> None:
    is_current = CATALOGUE.read_text(encoding="utf-8") == catalogue(sources)
    assert is_current, "`python -m tests.window_texts --write` writes it anew"


@pytest.mark.parametrize(
    "code",
    [
        'def f(label): label.setText("Try again")',
        'def f(label): label.setToolTip("copy")',
        'def f(label, n): label.setText(f"{n} models")',
        'def f(label, is_on): label.setText("on" if is_on else "off")',
        'class Note:\n    title: str\ndef f(): return Note("later")',
        'def f(menu): menu.add_entry("Copy the folder", print)',
        'WORDS = {1: "Not loaded"}',
        'def f(command): return command.title == "Command palette"',
    ],
)
def test_words_that_no_translator_sees_are_found(code: str) -> None:
    assert faults_of(code)


@pytest.mark.parametrize(
    "code",
    [
        'def f(left): return tr("Loading") + left',
        'def f(left): return tr(", {left} left", left=left)',
        'def f(name, size): return tr("Install {name}{size}", name=name, size=size)',
        'def f(name): return tr("{name} is here", names=name)',
        'def f(count): return tr_plural("one model", "{number} models", count)',
        "def f(text): return tr(text)",
        'TITLE = tr("Settings")',
        'def f(title=tr("Settings")): return title',
    ],
)
def test_sentences_that_cannot_be_translated_are_found(code: str) -> None:
    assert faults_of(code)


@pytest.mark.parametrize(
    "code",
    [
        '"""Only a docstring."""',
        'def f(label, key): label.setText(tr("Keys of {key}", key=key))',
        'def f(label, n): label.setText(tr_plural("one model", "{count} models", n))',
        'TITLE = LazyText("Settings")',
        'def f(theme): theme.color("accent-soft")',
        'def f(api): api.get(f"/models/{1}")',
        'def f(a, b): return f"{a} · {b}"',
        'def f(): raise ValueError("Not a widget")',
        'def f(): _log.warning("A call failed: %s", 1)',
    ],
)
def test_what_nobody_reads_is_no_fault(code: str) -> None:
    assert not faults_of(code)


def test_the_catalogue_says_where_a_sentence_is_and_what_its_braces_mean() -> None:
    tree = ast.parse('def f(n): return tr("It is \\"{n}\\".", n=n), tr_plural("one", "{count}", n), tr("a\\nb")')
    text = catalogue([read_source(name, tree, {}) for name in ("app/gui/a.py", "app/gui/b.py")])
    assert '#: app/gui/a.py\n#: app/gui/b.py\n#, python-brace-format\nmsgid "It is \\"{n}\\"."\nmsgstr ""\n' in text
    assert 'msgid "one"\nmsgid_plural "{count}"\nmsgstr[0] ""\nmsgstr[1] ""\n' in text
    assert 'msgid ""\n"a\\n"\n"b"\n' in text


@pytest.mark.parametrize(("count", "words"), [(0, "0 models"), (1, "1 model"), (1200, "1,200 models")])
def test_a_number_chooses_the_form(count: int, words: str) -> None:
    assert tr_plural("{count:,} model", "{count:,} models", count) == words


def test_values_may_hold_braces_and_messages() -> None:
    assert tr("Ask {model}", model="{x}") == "Ask {x}"
    assert tr("Ask {model}", model=LazyText("the Guide")) == "Ask the Guide"
    assert tr("100 {") == "100 {"


@pytest.mark.parametrize(
    ("items", "words"), [([], ""), (["a"], "a"), (["a", "b"], "a and b"), (list("abc"), "a, b and c")]
)
def test_several_things_are_listed(items: list[str], words: str) -> None:
    assert tr_list(items) == words


def test_another_language_has_its_own_words_and_forms(pseudo: None) -> None:
    assert tr("Settings").startswith("[Šéttîñgš")
    assert LazyText("Settings").tr() == f"{LazyText('Settings')}" == tr("Settings")
    assert "2 mõdélš" in tr_plural("{count} model", "{count} models", 2)
    assert isinstance(use_language(PseudoLanguage()), NullTranslations)


@pytest.mark.parametrize("sentence", ["Load", "Unload {model}", "This cannot be undone. {count:,} files go."])
def test_the_pseudo_language_is_longer_and_keeps_the_placeholders(sentence: str) -> None:
    assert len(disguise(sentence)) > 1.15 * len(sentence)
    assert all(part in disguise(sentence) for part in ("[", "]", *[w for w in sentence.split() if w.startswith("{")]))
