"""Read a chat template as a syntax tree, and say what it does that the one it was made from does not.

Looked for is what hides instructions from whoever chats: text of its own, writing that depends on the date or on words
of a message, and other files. What a template computes beyond that is not seen: that it has no notes proves nothing.
"""

import re
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import TypeVar

from jinja2 import TemplateError, nodes

from app.core.model_facts import ModelFacts
from app.core.models import ModelInfo, ModelSettings, TemplateReading
from app.hub.facts.capabilities import chat_template_of
from engines.serving.templates import make_environment

_N = TypeVar("_N", bound=nodes.Node)

_MOST_NOTES = 8
_QUOTED_CHARS = 80
_SENTENCE = re.compile(r"(?<![^\W\d_])[^\W\d_]{2,}+(?:[ ,;:'\n-]++[^\W\d_]++){3}")
"""Four words in a row: prompts' own marks are shorter."""
_MARK = re.compile(r"[<>\[\]{}|]")
"""What tells a mark of a prompt's form, such as `</think>`, from a word."""
_DATES = frozenset({"strftime_now", "date_string", "now", "today", "current_date"})
_CONTENT = frozenset({"content", "text"})
_LOOKS = frozenset({"startswith", "endswith", "find", "index", "count", "split", "search", "match"})
_WORD_CHARS = 3
_RAISES = "raise_exception"


def read_template(
    model: ModelInfo, own: ModelSettings, facts: ModelFacts | None, hub_cache: Path
) -> TemplateReading | None:
    """Return what the template does that the next load takes; None where there is none to read. Reads disks."""
    preset = model.preset.chat_template if model.preset is not None else ""
    models_own = facts.chat_template if facts is not None else ""
    replacement = preset or own.chat_template or ""
    if not (replacement or models_own):
        return None
    if replacement and models_own:
        return compare_templates(replacement, models_own, base="the model's own")
    base, text = _base_template(Path(model.path), facts, hub_cache)
    return compare_templates(replacement or models_own, text, base=base)


def compare_templates(text: str, base_text: str, *, base: str) -> TemplateReading:
    """Return what a template does that another does not; without another's text, what it does."""
    notes, base_notes = _notes_of(text), _notes_of(base_text) if base_text else ()
    if notes is None:
        return TemplateReading(base=base, is_changed=bool(base), notes=["It cannot be read as Jinja."])
    added_notes = [note for note in notes if note not in (base_notes or ())]
    is_changed = bool(base_text) and _shape_of(text) != _shape_of(base_text)
    return TemplateReading(base=base, is_changed=is_changed, notes=added_notes[:_MOST_NOTES])


def _base_template(path: Path, facts: ModelFacts | None, hub_cache: Path) -> tuple[str, str]:
    """Return where a template is that this one should be the same as, in words, and its text; both may be empty."""
    if path.suffix == ".gguf" and (beside := chat_template_of(path.parent)):
        return "the one in the model's folder", beside
    if facts is not None and facts.base_model:
        folder = hub_cache / f"models--{facts.base_model.replace('/', '--')}" / "snapshots"
        for snapshot in sorted(folder.glob("*")):
            if text := chat_template_of(snapshot):
                return f"the one of {facts.base_model}", text
    return "", ""


@lru_cache(maxsize=64)
def _notes_of(text: str) -> tuple[str, ...] | None:
    """Return what a template does that deserves a look, in sentences; None if it cannot be read."""
    tree = _parse_template(text)
    return None if tree is None else tuple(dict.fromkeys(_iter_notes(tree)))


@lru_cache(maxsize=64)
def _shape_of(text: str) -> str:
    """Return a template's tree as text: the same for templates that differ in spaces within their tags only."""
    tree = _parse_template(text)
    return text if tree is None else repr(tree)


def _parse_template(text: str) -> nodes.Template | None:
    try:
        return make_environment().parse(text)
    except (TemplateError, RecursionError):
        return None


def _iter_notes(tree: nodes.Template) -> Iterator[str]:
    if any(tree.find_all((nodes.Include, nodes.Import, nodes.FromImport, nodes.Extends))):
        yield "It includes other files."
    names = _content_names(tree)
    for test in _iter_conditions(tree):
        if any(name.name in _DATES for name in _iter_nodes(test, nodes.Name) if not _is_defined_test(test)):
            yield "What it writes depends on the date."
        for word in _iter_words(test, names):
            yield f"What it writes depends on whether a message has “{_quote(word)}” in it."
    for text in _iter_texts(tree):
        for sentence in _SENTENCE.finditer(text):
            yield f"It writes text of its own: “{_quote(text[sentence.start() :])}”"
            break


def _iter_conditions(tree: nodes.Template) -> Iterator[nodes.Node]:
    for branch in tree.find_all(nodes.If):
        yield branch.test
    for choice in tree.find_all(nodes.CondExpr):
        yield choice.test
    for loop in tree.find_all(nodes.For):
        if loop.test is not None:
            yield loop.test


def _iter_nodes(node: nodes.Node, kind: type[_N]) -> Iterator[_N]:
    """Yield a node and all below it that are of a kind."""
    if isinstance(node, kind):
        yield node
    yield from node.find_all(kind)


def _is_defined_test(test: nodes.Node) -> bool:
    inner = test.node if isinstance(test, nodes.Not) else test
    return isinstance(inner, nodes.Test) and inner.name in {"defined", "undefined"}


def _content_names(tree: nodes.Template) -> frozenset[str]:
    """Return the variables that are made of messages' content."""
    names: frozenset[str] = frozenset({"content"})
    assignments = [
        (node.target.name, node.node) for node in tree.find_all(nodes.Assign) if isinstance(node.target, nodes.Name)
    ]
    for _ in assignments:
        more = names | {name for name, value in assignments if _has_content(value, names)}
        if more == names:
            break
        names = more
    return names


def _has_content(node: nodes.Node, names: frozenset[str]) -> bool:
    return (
        any(part.attr in _CONTENT for part in _iter_nodes(node, nodes.Getattr))
        or any(getattr(part.arg, "value", "") in _CONTENT for part in _iter_nodes(node, nodes.Getitem))
        or any(part.name in names for part in _iter_nodes(node, nodes.Name))
    )


def _iter_words(test: nodes.Node, names: frozenset[str]) -> Iterator[str]:
    """Yield the words that a condition looks for in messages."""
    looks: list[nodes.Node] = list(_iter_nodes(test, nodes.Compare))
    looks += [
        call
        for call in _iter_nodes(test, nodes.Call)
        if isinstance(call.node, nodes.Getattr) and call.node.attr in _LOOKS
    ]
    for look in looks:
        if not _has_content(look, names):
            continue
        for constant in _iter_nodes(look, nodes.Const):
            word = constant.value
            if (
                isinstance(word, str)
                and len(word.strip()) >= _WORD_CHARS
                and not _MARK.search(word)
                and word not in _CONTENT
            ):
                yield word


def _iter_texts(tree: nodes.Template) -> Iterator[str]:
    """Yield the texts a template has, which it may write: all but what it says when it refuses a conversation."""
    raised_ids = {id(constant) for call in _iter_refusals(tree) for constant in call.find_all(nodes.Const)}
    for data in tree.find_all(nodes.TemplateData):
        yield data.data
    for constant in tree.find_all(nodes.Const):
        if isinstance(constant.value, str) and id(constant) not in raised_ids:
            yield constant.value


def _iter_refusals(tree: nodes.Template) -> Iterator[nodes.Call]:
    is_its_own = any(macro.name == _RAISES for macro in tree.find_all(nodes.Macro)) or any(
        name.name == _RAISES and name.ctx == "store" for name in tree.find_all(nodes.Name)
    )
    for call in tree.find_all(nodes.Call):
        if not is_its_own and isinstance(call.node, nodes.Name) and call.node.name == _RAISES:
            yield call


def _quote(text: str) -> str:
    """Return the beginning of a text in one line, without characters that act on a terminal."""
    plain = " ".join("".join(char if char.isprintable() else " " for char in text[: 2 * _QUOTED_CHARS]).split())
    return plain if len(plain) <= _QUOTED_CHARS else plain[:_QUOTED_CHARS] + "…"
