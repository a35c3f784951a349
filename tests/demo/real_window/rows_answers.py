"""What answers show, and what is done with them."""

from app.core.chats import MessageStatus, Role
from tests.demo.real_window.models import PAGE
from tests.demo.real_window.rows_files import set_sampling
from tests.demo.real_window.window import RealWindow

_QUESTION = "what is a quantised model"


def ask_with_keys(window: RealWindow) -> None:
    """A question typed into a fresh window: the answer names its model, its speed and its first token."""
    window.new_chat("Guide")
    answer = window.ask(_QUESTION)
    assert answer.model == "guide"
    assert answer.timings is not None
    window.take_picture("answer")


def draw_formulas(window: RealWindow) -> None:
    """An answer that streams formulas in pieces; it is stored as TeX, and copied as TeX."""
    window.new_chat("Writer")
    answer = window.ask("write the page")
    assert answer.content.strip() == PAGE.strip()
    window.take_picture("formulas")
    window.choose_action("Copy answer")
    window.wait_for(lambda: "\\frac{n(n+1)}{2}" in window.read_clipboard(), "the formula on the clipboard")
    conversation = window.tree.area(window.find("Conversation"))
    window.drag((conversation.x + 200, conversation.y + 10), (conversation.x + 800, conversation.y + 400))
    window.press("ctrl+c")
    window.wait_for(lambda: "\\frac{\\sqrt{\\pi}}{2}" in window.read_clipboard(), "the selected formula as TeX")


def copy_tables(window: RealWindow) -> None:
    """The table of an answer, copied as Markdown and as CSV by the keyboard."""
    window.new_chat("Writer")
    window.ask("write the page")
    window.choose_action("Copy table as Markdown")
    window.wait_for(lambda: "| llama.cpp |" in window.read_clipboard(), "Markdown on the clipboard")
    window.choose_action("Copy table as CSV")
    window.wait_for(lambda: '"""vLLM"", fast",AWQ,96' in window.read_clipboard(), "CSV on the clipboard")


def colour_diffs(window: RealWindow) -> None:
    """A diff in an answer: its lines are on the picture in two colours, and its code is copied as it is."""
    window.new_chat("Writer")
    window.ask("write the page")
    window.choose_action("Copy code")
    window.wait_for(lambda: window.read_clipboard().startswith("-    return slow(page)"), "the diff on the clipboard")


def link_addresses(window: RealWindow) -> None:
    """A bare address in an answer is a link, which the keyboard reaches."""
    window.new_chat("Writer")
    window.ask("write the page")
    names = window.action_names()
    assert "Open https://example.org/roundhouse" in names, names


def regenerate(window: RealWindow) -> None:
    """Regenerate, by Alt Up and Return: both versions are kept, and the arrow goes back to the first."""
    window.new_chat("Guide")
    first = window.ask(_QUESTION)
    second = window.await_answer(lambda: window.choose_action("Regenerate answer"))
    assert first.parent == second.parent
    window.choose_action("Previous version")
    window.wait_for(lambda: window.chat().head == first.id, "the first version")


def regenerate_with_another(window: RealWindow) -> None:
    """Regenerate with another model, chosen from a menu: the answer has the other model's name."""
    window.new_chat("Guide")
    window.ask(_QUESTION)
    window.choose_action("Regenerate with another model…")
    answer = window.await_answer(lambda: window.choose_in_menu("Roundhouse Guide.*"))
    assert answer.model == "second", answer.model
    window.take_picture("another-model")


def edit_question(window: RealWindow) -> None:
    """Edit a question: other words, sent again, stand beside the first as a version."""
    window.new_chat("Guide")
    window.ask(_QUESTION)
    window.choose_action("Edit", back=2)
    window.find("Editing a message.*")
    window.press("ctrl+a")
    window.write("what is a projector")
    answer = window.await_answer(lambda: window.press("Return"))
    questions = [message for message in window.chat().messages if message.role is Role.USER]
    assert [message.content for message in questions] == [_QUESTION, "what is a projector"]
    assert answer.parent == questions[1].id


def edit_answer(window: RealWindow) -> None:
    """Edit an answer: the words are kept beside the model's own."""
    window.new_chat("Guide")
    window.ask(_QUESTION)
    window.choose_action("Edit answer")
    window.find("Editing.*")
    window.press("ctrl+a")
    window.write("A smaller one.")
    window.press("Return")
    window.wait_for(lambda: "A smaller one." in [item.content for item in window.chat().messages], "the new words")


def delete_and_undo(window: RealWindow) -> None:
    """Delete one message with the Delete key; Undo in the toast brings it back."""
    window.new_chat("Guide")
    window.ask(_QUESTION)
    window.choose_message(back=2)
    window.press("Delete")
    window.find("The message was deleted.*")
    window.wait_for(lambda: len(window.chat().messages) == 1, "one message less")
    window.take_picture("message-deleted")
    window.press_button("Undo")
    window.wait_for(lambda: len(window.chat().messages) == 2, "the message again")


def fork(window: RealWindow) -> None:
    """Fork: a new chat with everything down to an answer; the first stays."""
    window.new_chat("Guide")
    window.ask(_QUESTION)
    count = len(window.chats())
    window.choose_action("Fork: new chat from here")
    window.wait_for(lambda: len(window.chats()) == count + 1, "one chat more")
    assert window.chat().messages[0].content == _QUESTION


def continue_answer(window: RealWindow) -> None:
    """An answer that ended at its longest goes on where it stopped."""
    window.new_chat("Guide")
    set_sampling(window, **{"Longest answer": "8"})
    window.focus_composer()
    short = window.ask(_QUESTION)
    window.choose_action("Continue answer")
    window.wait_for(
        lambda: any(
            item.content.startswith(short.content)
            and len(item.content) > len(short.content) + 10
            and item.status is MessageStatus.COMPLETE
            for item in window.chat().messages
        ),
        "a longer answer",
    )


def compare_models(window: RealWindow) -> None:
    """Two models answer one question side by side, each with its speed; one is kept."""
    window.new_chat("Guide")
    window.press_button("Compare models", "check box")
    window.press_button("Roundhouse Guide", "check box")
    window.take_picture("compare-choice")
    earlier = {message.id for message in window.answers()}
    window.focus_composer()
    window.write(_QUESTION)
    window.press("Return")
    window.find("Keep the answer of Roundhouse Guide.*")
    window.wait_for(lambda: len([item for item in window.answers() if item.id not in earlier]) == 2, "two answers")
    window.take_picture("compare")
    window.press_button("Keep the answer of Roundhouse Guide.*")
    kept_answer = next(item for item in window.answers() if item.id not in earlier and item.model == "second")
    window.wait_for(lambda: window.chat().head == kept_answer.id, "the answer that was kept")


def switch_thinking(window: RealWindow) -> None:
    """A model that thinks: its thoughts fold open; with thinking off in the sampling card the prompt says so."""
    window.new_chat("Thinker")
    answer = window.ask("why")
    assert "two sides" in answer.reasoning, answer
    window.take_picture("thoughts-folded")
    shows = next(name for name in window.action_names() if name.endswith("show the thoughts"))
    window.choose_action(shows)
    window.take_picture("thoughts")
    window.press_button("Sampling", "check box")
    window.choose_entry("Thinking: .*", "Off")
    window.press_button("Close sampling")
    window.ask("why again")
    assert window.chat().sampling.thinking == "off"
