"""What is kept of conversations stays within its bounds."""

import pytest

from app.core.errors import NotFound
from app.gateway.canonical.request import Image, Message, Role, Text
from app.gateway.dialects.lmstudio.chat import Remembered, new_response_id
from app.gateway.dialects.lmstudio.requests import Earlier


def talk(characters: int) -> Earlier:
    return Earlier("", (Message(Role.USER, (Text("a" * characters),)),))


def test_a_conversation_is_found_again() -> None:
    kept = Remembered()
    name = new_response_id()
    kept.keep(name, talk(3))
    assert kept.find(name) == talk(3)
    assert name.startswith("resp_")
    assert name != new_response_id()


def test_an_unknown_id_is_said_to_be_unknown() -> None:
    with pytest.raises(NotFound) as missing:
        Remembered().find("resp_1")
    assert missing.value.code == "previous_response_not_found"


def test_the_one_not_used_for_longest_goes_first() -> None:
    kept = Remembered(most=2)
    kept.keep("a", talk(1))
    kept.keep("b", talk(1))
    kept.find("a")
    kept.keep("c", talk(1))
    assert kept.find("a") is not None
    assert kept.find("c") is not None
    with pytest.raises(NotFound):
        kept.find("b")


def test_text_and_pictures_count_and_what_is_too_large_is_not_kept() -> None:
    kept = Remembered(most_characters=10)
    kept.keep("a", talk(6))
    picture = Image(media_type="image/png", data="A" * 5)
    kept.keep("b", Earlier("", (Message(Role.USER, (picture,)),)))
    with pytest.raises(NotFound):
        kept.find("a")
    kept.keep("c", talk(11))
    with pytest.raises(NotFound):
        kept.find("c")
    assert kept.find("b") is not None
    kept.keep("d", talk(5))
    assert kept.find("b") is not None
    assert kept.find("d") is not None
