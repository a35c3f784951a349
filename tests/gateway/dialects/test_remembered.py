"""What is kept of conversations stays within its bounds."""

import pytest

from app.core.errors import NotFound
from app.gateway.canonical.request import ConversationMessage, Image, MessageRole, Text
from app.gateway.dialects.lmstudio.chat import LmStudioHistoryCache, new_response_id
from app.gateway.dialects.lmstudio.requests import LmStudioHistory


def talk(characters: int) -> LmStudioHistory:
    return LmStudioHistory("", (ConversationMessage(MessageRole.USER, (Text("a" * characters),)),))


def test_a_conversation_is_found_again() -> None:
    cache = LmStudioHistoryCache()
    name = new_response_id()
    cache.keep_history(name, talk(3))
    assert cache.find_history(name) == talk(3)
    assert name.startswith("resp_")
    assert name != new_response_id()


def test_an_unknown_id_is_said_to_be_unknown() -> None:
    with pytest.raises(NotFound) as error:
        LmStudioHistoryCache().find_history("resp_1")
    assert error.value.code == "previous_response_not_found"


def test_the_one_not_used_for_longest_goes_first() -> None:
    cache = LmStudioHistoryCache(most=2)
    cache.keep_history("a", talk(1))
    cache.keep_history("b", talk(1))
    cache.find_history("a")
    cache.keep_history("c", talk(1))
    assert cache.find_history("a") is not None
    assert cache.find_history("c") is not None
    with pytest.raises(NotFound):
        cache.find_history("b")


def test_text_and_pictures_count_and_what_is_too_large_is_not_kept() -> None:
    cache = LmStudioHistoryCache(most_characters=10)
    cache.keep_history("a", talk(6))
    picture = Image(media_type="image/png", data="A" * 5)
    cache.keep_history("b", LmStudioHistory("", (ConversationMessage(MessageRole.USER, (picture,)),)))
    with pytest.raises(NotFound):
        cache.find_history("a")
    cache.keep_history("c", talk(11))
    with pytest.raises(NotFound):
        cache.find_history("c")
    assert cache.find_history("b") is not None
    cache.keep_history("d", talk(5))
    assert cache.find_history("b") is not None
    assert cache.find_history("d") is not None
