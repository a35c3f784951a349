"""What is kept of conversations stays within its bounds."""

import pytest

from app.core.errors import NotFound
from app.gateway.canonical.request import ConversationMessage, Image, MessageRole, Text
from app.gateway.dialects.lmstudio.chat import LmStudioHistoryCache, new_response_id
from app.gateway.dialects.lmstudio.requests import LmStudioHistory


def talk(characters: int) -> LmStudioHistory:
    return LmStudioHistory("", (ConversationMessage(MessageRole.USER, (Text("a" * characters),)),))


def test_a_conversation_is_found_again() -> None:
    kept = LmStudioHistoryCache()
    name = new_response_id()
    kept.keep_history(name, talk(3))
    assert kept.find_history(name) == talk(3)
    assert name.startswith("resp_")
    assert name != new_response_id()


def test_an_unknown_id_is_said_to_be_unknown() -> None:
    with pytest.raises(NotFound) as missing:
        LmStudioHistoryCache().find_history("resp_1")
    assert missing.value.code == "previous_response_not_found"


def test_the_one_not_used_for_longest_goes_first() -> None:
    kept = LmStudioHistoryCache(most=2)
    kept.keep_history("a", talk(1))
    kept.keep_history("b", talk(1))
    kept.find_history("a")
    kept.keep_history("c", talk(1))
    assert kept.find_history("a") is not None
    assert kept.find_history("c") is not None
    with pytest.raises(NotFound):
        kept.find_history("b")


def test_text_and_pictures_count_and_what_is_too_large_is_not_kept() -> None:
    kept = LmStudioHistoryCache(most_characters=10)
    kept.keep_history("a", talk(6))
    picture = Image(media_type="image/png", data="A" * 5)
    kept.keep_history("b", LmStudioHistory("", (ConversationMessage(MessageRole.USER, (picture,)),)))
    with pytest.raises(NotFound):
        kept.find_history("a")
    kept.keep_history("c", talk(11))
    with pytest.raises(NotFound):
        kept.find_history("c")
    assert kept.find_history("b") is not None
    kept.keep_history("d", talk(5))
    assert kept.find_history("b") is not None
    assert kept.find_history("d") is not None
