"""What is chosen about answers: their form, where they end, presets, the overflow, titles; and what they cost."""

import json

from app.core.chats import OverflowRule
from tests.demo.real_window.window import NotSeen, RealWindow

_QUESTION = "what is a quantised model"
_SCHEMA = '{"type":"object","properties":{"bits":{"type":"integer"}},"required":["bits"],"additionalProperties":false}'
_LONG_WORDS = 900
"""More than the 2,048 tokens of the model that is asked."""


def hold_to_schema(window: RealWindow) -> None:
    """A JSON schema in the sampling card: the answer is an object of that form."""
    window.new_chat("Guide")
    fill_form(window, "JSON schema", _SCHEMA)
    answer = json.loads(window.ask(_QUESTION).content)
    assert list(answer) == ["bits"]
    assert isinstance(answer["bits"], int)
    window.take_picture("schema")
    window.press_button("Close sampling")


def hold_to_grammar(window: RealWindow) -> None:
    """A grammar (GBNF): the answer is one of the two words that it has; a wrong one is refused with its line."""
    window.new_chat("Guide")
    fill_form(window, r"Grammar \(GBNF\)", 'root ::= ("steam"')
    window.find(".*[Ll]ine 1.*|.*grammar.*")
    window.take_picture("grammar-refused")
    fill_form(window, "", 'root ::= "steam" | "water"')
    assert window.ask(_QUESTION).content in {"steam", "water"}
    window.press_button("Close sampling")


def end_at_stop_text(window: RealWindow) -> None:
    """A stop text: the answer ends before it."""
    window.new_chat("Guide")
    open_sampling(window)
    window.press_button("Stop texts", "text")
    window.write("weights")
    window.press_button("Close sampling")
    assert window.ask(_QUESTION).content.strip() == "Quantisation stores a model's"


def use_preset(window: RealWindow) -> None:
    """A question with two variables is saved as a preset; used in another chat it asks for both and fills them in."""
    window.new_chat("Guide")
    window.focus_composer()
    window.write("Plan {{days}} days in {{city}}.")
    window.press_button("Presets", "check box")
    window.press_button("Name of a new preset", "text")
    window.write("Trips")
    window.press_button("Save this chat")
    window.press_button("Close presets")
    window.new_chat("Guide")
    window.press_button("Presets", "check box")
    window.press_button("Use Trips")
    for name, value in (("days", "three"), ("city", "Bern")):
        window.press_button(f"{name}.*", "text")
        window.write(value)
    window.take_picture("preset")
    window.press_button("Use")
    window.wait_for(lambda: window.composer_text() == "Plan three days in Bern.", "the filled question")


def count_while_typing(window: RealWindow) -> None:
    """While a question is typed, the engine's own count of its tokens stands beside it."""
    window.new_chat("Guide")
    window.ask(_QUESTION)
    window.focus_composer()
    window.write("seven words that nobody has counted yet")
    window.find("[0-9]+ tokens", "label")
    window.find("Context used: .*")
    window.take_picture("count")


def choose_overflow(window: RealWindow) -> None:
    """A chat longer than the context: a warning while typing, then a choice; "cut" answers without the oldest."""
    window.new_chat("Writer")
    window.ask("write the page")
    window.focus_composer()
    window.put_text_on_clipboard("steam and water " * _LONG_WORDS)
    window.press("ctrl+v")
    window.find("About .* tokens; the model takes .*")
    window.take_picture("overflow-warning")
    window.press("ctrl+a", "BackSpace")
    window.put_text_on_clipboard("steam " * 250)
    for _ in range(3):
        window.focus_composer()
        window.press("ctrl+v", "Return")
        window.wait_for(lambda: window.chat().messages[-1].status != "generating", "the end of the answer")
        if window.chat().messages[-1].status == "failed":
            break
    else:
        raise NotSeen("an answer that says that the context is full")
    window.take_picture("overflow")
    names = window.action_names()
    cut = next(name for name in names if "oldest" in name)
    answer = window.await_answer(lambda: window.choose_action(cut))
    assert answer.left_out
    assert window.chat().overflow is OverflowRule.CUT


def title_by_model(window: RealWindow) -> None:
    """The setting for titles, switched on its page: the model names the next chat."""
    switch_titles(window)
    window.new_chat("Thinker")
    window.ask(_QUESTION)
    window.wait_for(lambda: window.chat().title.startswith("The answer"), "the model's title")
    window.take_picture("title")
    switch_titles(window)


def switch_titles(window: RealWindow) -> None:
    """Switch the setting for titles on or off with the mouse."""
    window.press("Escape", "ctrl+comma")
    before = window.find("Titles by the model.*", "check box").is_checked
    window.press_button("Titles by the model.*", "check box")
    window.wait_for(lambda: window.find("Titles by the model.*", "check box").is_checked != before, "the switch")


def use_keys_alone(window: RealWindow) -> None:
    """Keys alone: a new chat, a question, the answer copied, the chat deleted and brought back."""
    window.press("Escape", "ctrl+1", "ctrl+n")
    window.write(_QUESTION)
    answer = window.await_answer(lambda: window.press("Return"))
    chat = window.chat()
    window.press("alt+Up")
    if "Copy answer" not in window.hear_actions(until="Copy answer"):
        raise NotSeen("the action that copies")
    window.press("Return")
    window.wait_for(lambda: window.read_clipboard().strip() == answer.content.strip(), "the answer on the clipboard")
    window.choose_command("Delete this chat")
    window.wait_for(lambda: chat.id not in [item.id for item in window.chats()], "the end of the chat")
    window.press("ctrl+z")
    window.wait_for(lambda: chat.id in [item.id for item in window.chats()], "the chat again")


def open_sampling(window: RealWindow) -> None:
    """Open the sampling card, where it is not open from the chat before."""
    if not window.shows("Close sampling"):
        window.press_button("Sampling", "check box")


def fill_form(window: RealWindow, kind: str, text: str) -> None:
    """Choose the form of answers in the sampling card, and write it."""
    open_sampling(window)
    if kind:
        window.press_button("Form of answers: .*", "push button")
        window.choose_in_menu(kind)
    window.press_button("Form of answers", "text")
    window.put_text_on_clipboard(text)
    window.press("ctrl+a", "ctrl+v", "Tab")
