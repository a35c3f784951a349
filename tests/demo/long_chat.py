"""A conversation that shows everything the page can draw; for screenshots and tests."""

from datetime import datetime

import msgspec

from app.core.chats import Chat, ChatSummary, Message, MessageStatus, Role, Sampling, Timings
from tests.demo.data import READY
from tests.demo.machines import NOON

_HOUR = 3600.0
MODEL = READY.model

ANSWER = """Because `parse` returns a **borrow of its argument**, the compiler ties the life of every token to \
that argument, and your temporary dies at the end of the line.

## Two ways out

1. Keep the text alive for as long as the tokens:
   - bind it with `let` before you call `parse`, or
   - let the parser own it.
2. Return owned tokens and pay for one allocation each.

The first costs nothing at run time, so I would start there:

```rust
fn main() -> std::io::Result<()> {
    // The file's text outlives every token that points into it.
    let text = std::fs::read_to_string("notes.txt")?;
    let tokens: Vec<Token<'_>> = parse(&text).collect();

    for token in tokens.iter().filter(|token| token.kind == Kind::Word) {
        println!("{:>4}  {}", token.start, token.text);
    }
    Ok(())
}
```

| Way | Allocations | When |
|:--|--:|:--|
| Borrow | 1 | the text stays where it is |
| Own | one per token | tokens outlive the text, or cross threads |

> A lifetime is not how long a value lives, but how long a *borrow* of it must.

- [x] Bind the text
- [ ] Decide who owns tokens that cross threads

More in [the book](https://doc.rust-lang.org/book/ch10-03-lifetime-syntax.html)."""

THOUGHT = """The signature is `fn parse(text: &str) -> impl Iterator<Item = Token<'_>>`. So tokens borrow from the text.

They call it with `&read_to_string(path)?`, a temporary. That is dropped at the end of the statement."""

ARABIC = "ما الفرق بين الذاكرة العشوائية وذاكرة بطاقة الرسوم؟"
ARABIC_ANSWER = """الذاكرة **عامة** يستخدمها المعالج، \
أما ذاكرة بطاقة الرسوم فهي **أسرع** وقريبة من المعالج الرسومي.

1. النموذج الذي يتسع في ذاكرة البطاقة يعمل أسرع.
2. وما لا يتسع ينتقل جزء منه إلى `RAM`."""


def make_timings(completion: int = 412) -> Timings:
    """Return what a usual answer cost."""
    return Timings(
        ttft_s=0.84, total_s=37.0, prompt_tokens=5200, completion_tokens=completion, decode_tokens_per_s=11.4
    )


def make_question(number: int, content: str, parent: str | None) -> Message:
    """Return a message of the user."""
    return Message(id=f"q{number}", chat="c1", parent=parent, role=Role.USER, content=content, created_at=NOON + number)


def make_answer(number: int, content: str, **more: object) -> Message:
    """Return an answer to question `number`."""
    base = Message(
        id=f"a{number}",
        chat="c1",
        parent=f"q{number}",
        role=Role.ASSISTANT,
        content=content,
        model=MODEL,
        engine="llama.cpp",
        timings=make_timings(),
        created_at=NOON + number + 0.5,
    )
    return replace_fields(base, **more)


def replace_fields(message: Message, **more: object) -> Message:
    """Return a message with some fields changed."""
    fields = {name: getattr(message, name) for name in message.__struct_fields__}
    return Message(**(fields | more))


def make_sample_chat() -> Chat:
    """Return a conversation with two versions of its second answer."""
    messages = [
        make_question(1, "Why does the borrow checker refuse `parse(&read_to_string(path)?)`?", None),
        make_answer(1, ANSWER, reasoning=THOUGHT),
        make_question(2, ARABIC, "a1"),
        make_answer(
            2,
            ARABIC_ANSWER.partition("\n")[0],
            id="a2b",
            model="gemma-3-12b-it-q4_0",
            timings=msgspec.structs.replace(make_timings(58), decode_tokens_per_s=31.2, ttft_s=0.31),
            created_at=NOON + 2,
        ),
        make_answer(2, ARABIC_ANSWER),
    ]
    return make_chat(messages)


def make_chat(messages: list[Message], *, title: str = "Rust borrow checker and temporaries", name: str = "c1") -> Chat:
    """Return a chat made of these messages, the reader at the last."""
    return Chat(
        id=name,
        title=title,
        model=MODEL,
        system_prompt="",
        sampling=Sampling(),
        head=messages[-1].id if messages else None,
        created_at=NOON,
        updated_at=NOON,
        messages=messages,
    )


def make_failed_chat() -> Chat:
    """Return a conversation whose answer failed."""
    error = "The engine ended while it was reading the weights.\nggml_aligned_malloc: insufficient memory"
    messages = [
        make_question(1, "Summarise this paper in five sentences.", None),
        make_answer(1, "", status=MessageStatus.FAILED, error=error, timings=None),
    ]
    return make_chat(messages, title="Fit maths for a 64 GB laptop", name="c2")


_FORMULAS = r"""The roots of \(ax^2 + bx + c = 0\) are

\[ x = \frac{-b \pm \sqrt{b^2 - 4ac}}{2a}, \]

so for $a = 1$, $b = -3$ and $c = 2$ we get $x \in \{1, 2\}$; the book costs $5, or $10 bound. More of it:
https://example.com/roots.

1. A matrix: $$A = \begin{pmatrix} 1 & 2 \\ 3 & 4 \end{pmatrix}$$
2. An integral: $\int_0^1 x^2\,dx = \frac{1}{3}$

| Name | Formula |
|---|---|
| Sum | $\sum_{i=1}^n i = \frac{n(n+1)}{2}$ |
"""


def make_formula_chat() -> Chat:
    """Return a conversation with formulas in every kind of place, and one that no one can draw."""
    messages = [
        make_question(1, "How do I find the roots of a quadratic?", None),
        make_answer(1, f"{_FORMULAS}\nUnknown: $\\frobnicate{{x}}$\n"),
    ]
    return make_chat(messages, title="Fit maths for a 64 GB laptop", name="c2")


def make_summaries() -> list[ChatSummary]:
    """Return a list of conversations over some weeks, counted from today's noon so that "Today" is never empty."""
    noon = datetime.now().astimezone().replace(hour=12, minute=0, second=0, microsecond=0).timestamp()
    titles = [
        (0.1, "Rust borrow checker and temporaries"),
        (0.3, "Fit maths for a 64 GB laptop"),
        (2.0, "A name for the release that is not a pun, please, and a second line that is far too long"),
        (26.0, "الفرق بين الذاكرة وذاكرة البطاقة"),
        (30.0, "Regex for semantic versions"),
        (80.0, "Letter to the landlord"),
        (100.0, "SQLite: WAL or not"),
        (300.0, "Quantising the Guide"),
        (1200.0, "Trip to Bergen"),
    ]
    return [
        ChatSummary(id=f"c{n}", title=title, created_at=noon, updated_at=noon - hours * _HOUR, message_count=4)
        for n, (hours, title) in enumerate(titles, 1)
    ]


def make_search_results() -> list[ChatSummary]:
    """Return what a search for "borrow" finds."""
    snippet = "…tokens \u0002borrow\u0003 from the text, so a \u0002borrow\u0003 of a temporary…"
    return [
        ChatSummary(
            id="c1", title="Rust borrow checker and temporaries", created_at=NOON, updated_at=NOON, snippet=snippet
        ),
        ChatSummary(
            id="c2",
            title="What the book says",
            created_at=NOON,
            updated_at=NOON,
            snippet="…never \u0002borrow\u0003 what you can own…",
            hit="m1",
            file="The Rust programming language, third edition.pdf",
        ),
    ]


def chat_replies() -> dict[str, object]:
    """Return what a demo gateway answers about chats."""
    return {
        "GET /chats": make_summaries(),
        "GET /chats/folders": [],
        "GET /chats/tags": [],
        "GET /chats/c1": make_sample_chat(),
        "GET /chats/c2": make_failed_chat(),
        "PATCH /chats/c1": make_sample_chat(),
        "POST /chats/c1/restore": make_sample_chat(),
        "DELETE /chats/c1": None,
    }
