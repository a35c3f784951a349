r"""Formulas in exported pages: drawn where the window draws them, and what is none stays as it was written."""

import re

import pytest
from markdown_it.rules_block import StateBlock

from app.chat_files.writing import write_html
from app.core.chats import Chat, Message, Role, Sampling
from app.markdown import parser
from app.markdown.rendering import PageRenderer


def page_of(*texts: str) -> str:
    messages = [
        Message(id=f"m{n}", chat="c", parent=f"m{n - 1}" if n else None, role=Role.ASSISTANT, content=text)
        for n, text in enumerate(texts)
    ]
    chat = Chat(
        id="c",
        title="T",
        model="",
        system_prompt="",
        sampling=Sampling(),
        head=messages[-1].id,
        created_at=1.0,
        updated_at=1.0,
        messages=messages,
    )
    return write_html(chat, {}).decode()


def render(text: str) -> str:
    return PageRenderer().render_text(text)


@pytest.mark.parametrize(
    ("text", "drawings", "blocks"),
    [
        (r"The \(x^2\) of it, and $y_1$", 2, 0),
        ("Before:\n\\[\nx = 1\n\\]\nafter", 1, 1),
        ("$$\n- x\n= 1\n\n+ 2\n$$", 1, 1),
        (r"\begin{align*} a &= b \\ &= c \end{align*}", 1, 1),
        ("> \\[ x \\]\n\ny", 1, 1),
        ("1. First:\n   $$\n   x\n   $$\n2. Second", 1, 1),
        ("- a\n\n  \\[\n\n  x\n\n  \\]\n- b", 1, 1),
        ("| a | b |\n|---|---|\n| $x$ | \\(y\\) |", 2, 0),
        ("# About $x$\n\n**bold $y$**", 2, 0),
        ("$$x = 1$$ goes on as a sentence", 1, 0),
        ("$$\nx\n$$ and a rest", 1, 1),
        ("\\[ x \\].", 1, 1),
    ],
)
def test_formulas_are_drawn_where_the_window_draws_them(text: str, drawings: int, blocks: int) -> None:
    page = render(text)
    assert (page.count("<svg "), page.count('<div class="formula">')) == (drawings, blocks), page
    words = re.sub(r"<span title=.*?</svg></span>", "", page, flags=re.DOTALL)
    assert not re.search(r"\$|\\[(\[]|\\begin", words), words


@pytest.mark.parametrize(
    "text",
    [
        "It costs $5 and $10.",
        "`$x$` and `\\(y\\)`",
        "    \\[\n    x\n    \\]",
        "```\n$$\nx\n$$\n```",
        "$$\nnever ends\n\n# Title",
        "$$\nx\n```python\nprint()\n```\n$$",
        r"\\(so\\) is this",
    ],
)
def test_money_code_and_what_never_ends_are_not_drawn(text: str) -> None:
    assert "<svg" not in render(text)


def test_what_follows_a_formula_in_its_last_line_is_kept() -> None:
    page = render("$$\nx\n$$ and *so* on\n\nnext")
    assert page.index("<svg") < page.index("<p>and <em>so</em> on</p>") < page.index("<p>next</p>")


def test_what_cannot_be_drawn_is_shown_as_it_was_written() -> None:
    page = render("So \\(\\frobnicate{<b>}\\) and\n\n$$\n\\frobnicate{y}\n$$\n")
    assert "<code>\\(\\frobnicate{&lt;b&gt;}\\)</code>" in page
    assert "<pre><code>$$\n\\frobnicate{y}\n$$</code></pre>" in page
    assert "<svg" not in page


def test_a_drawing_says_itself_in_words_and_keeps_its_source() -> None:
    page = render(r'\(x^2 < \text{"y"}\)')
    assert 'title="\\(x^2 &lt; \\text{&quot;y&quot;}\\)"' in page
    assert 'aria-label="x squared' in page
    assert "aria-labelledby" not in page


def test_every_shape_of_a_page_has_a_name_of_its_own() -> None:
    page = page_of("$x^2$ and $x^2$", "and again $x^2$ and $y$")
    names = re.findall(r' id="([^"]+)"', page)
    references = re.findall(r'xlink:href="#([^"]+)"', page)
    assert len(names) == len(set(names)) > 4
    assert set(references) == set(names)


def test_a_drawing_runs_and_loads_nothing() -> None:
    page = page_of(r"$$\text{<script>alert(1)</script>}$$ and \(\href{http://x.y}{z}\)")
    assert "<script" not in page
    assert not re.search(r"href=\"(?!#)", page)


def test_formulas_that_never_end_are_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    counts: list[int] = []
    line_of = parser._line_of

    def count_line(state: StateBlock, line: int) -> str:
        counts[-1] += 1
        return line_of(state, line)

    monkeypatch.setattr(parser, "_line_of", count_line)
    for lines in (1000, 2000, 4000):
        counts.append(0)
        render("\\[\n" * lines)
    assert counts[2] < 5 * counts[0]
