"""Versions of messages and the path through them."""

from app.core.chats import Message
from app.gui.screens.chat.message_tree import MessageTree
from tests.demo import long_chat


def tree() -> MessageTree:
    return MessageTree.from_chat(long_chat.make_sample_chat())


def ids(messages: list[Message]) -> list[str]:
    return [message.id for message in messages]


def test_the_path_leads_to_the_head() -> None:
    assert ids(tree().path_to_head()) == ["q1", "a1", "q2", "a2"]


def test_versions_and_moving_between_them() -> None:
    message_tree = tree()
    assert message_tree.versions_of("a2") == ["a2b", "a2"]
    assert message_tree.version_beside("a2", -1) == "a2b"
    assert message_tree.version_beside("a2", 1) is None


def test_moving_to_another_question_lands_at_the_end_of_its_newest_path() -> None:
    message_tree = tree()
    message_tree.put(long_chat.replace_fields(long_chat.make_question(9, "other", None), id="q1b"))
    assert message_tree.version_beside("q1b", -1) == "a2"


def test_a_newer_state_replaces_a_message() -> None:
    message_tree = tree()
    message_tree.put(long_chat.make_answer(2, "new"))
    assert message_tree.path_to_head()[-1].content == "new"
    assert message_tree.versions_of("a2") == ["a2b", "a2"]


def test_without_a_head_the_newest_message_is_it() -> None:
    chat = long_chat.make_sample_chat()
    assert ids(MessageTree(chat.messages, chat.messages[-1].id).path_to_head())[-1] == "a2"
