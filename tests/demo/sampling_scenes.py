"""Pictures of a chat's sampling card."""

from collections.abc import Iterator

import msgspec

from app.core.chats import Sampling
from app.core.models import AnswerChoices
from app.core.thinking import ThinkingLevel
from app.gui.screens.chat.view import ChatScreen
from app.gui.shell.contract import PageId
from app.gui.shell.window import MainWindow
from app.gui.widgets.prompt_field import PromptField
from tests.demo import data, long_chat
from tests.demo.api import DemoApi
from tests.demo.scene import USUAL_LOOKS, Replies, Scene, SceneLook

_SCHEMA = '{"type": "object",\n "properties": {"city": {"type": "string"}},\n "required": ["city"]}'
THINKING = AnswerChoices(
    thinks=True,
    can_switch_thinking=True,
    takes_effort=True,
    takes_budget=True,
    takes_schema=True,
    takes_grammar=True,
    engine_name="llama.cpp",
)
SAMPLING = Sampling(
    temperature=0.4, thinking=ThinkingLevel.HIGH, thinking_budget=2000, stops=["END"], json_schema=_SCHEMA
)


def sampling_scenes() -> Iterator[Scene]:
    """Yield the card as chosen, with a schema that is wrong, and for a model that cannot."""
    looks = (*USUAL_LOOKS, SceneLook(is_mirrored=True))
    yield Scene("chat-sampling", PageId.CHAT, sampling_replies(SAMPLING), open_sampling, looks=looks)
    yield Scene("chat-sampling-wrong", PageId.CHAT, sampling_replies(SAMPLING), type_wrong_schema, looks=looks[:4])
    plain = AnswerChoices(engine_name="MLX-LM")
    yield Scene("chat-sampling-plain", PageId.CHAT, sampling_replies(SAMPLING, plain), open_sampling)


def sampling_replies(sampling: Sampling, answers: AnswerChoices = THINKING) -> Replies:
    """Return what the gateway answers about a chat with this sampling and a model that can so much."""
    chat = msgspec.structs.replace(long_chat.make_sample_chat(), sampling=sampling)
    tuned_settings = msgspec.structs.replace(data.TUNED, answers=answers)
    return {
        **data.gateway_replies(),
        **long_chat.chat_replies(),
        "GET /chats/c1": chat,
        f"GET /model-settings/{chat.model}": tuned_settings,
    }


def open_sampling(window: MainWindow, api: DemoApi) -> None:
    """Open the sample's card, at its end."""
    page = window.pages.currentWidget()
    if isinstance(page, ChatScreen):
        page.model.open_chat("c1")
        api.flush()
        page.conversation_view.toggle_sampling()
        api.flush()


def type_wrong_schema(window: MainWindow, api: DemoApi) -> None:
    """Leave a schema with a mistake in its second line."""
    open_sampling(window, api)
    page = window.pages.currentWidget()
    if isinstance(page, ChatScreen):
        form = next(field for field in page.findChildren(PromptField) if field.accessibleName() == "Form of answers")
        form.setFocus()
        form.setPlainText(_SCHEMA.replace('"string"', '"strin"'))
        page.conversation_view.composer.field.setFocus()
        form.focus_left.emit()
