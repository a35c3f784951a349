"""Licences in plain words: what is allowed, what is not, and what has to be read first."""

import pytest

from app.core.licences import CommercialUse, commercial_use, is_classified, licence_words
from tests.catalogue_docs import shipped_entries


@pytest.mark.parametrize(
    ("licence", "use", "line"),
    [
        ("apache-2.0", CommercialUse.YES, "commercial use allowed (apache-2.0)"),
        ("MIT", CommercialUse.YES, "commercial use allowed (MIT)"),
        ("cc-by-nc-4.0", CommercialUse.NO, "no commercial use (cc-by-nc-4.0)"),
        ("llama3.1", CommercialUse.ASK, "commercial use: read its terms (llama3.1)"),
        ("modified-mit", CommercialUse.ASK, "commercial use: read its terms (modified-mit)"),
        ("", CommercialUse.ASK, "licence unknown: ask its makers before commercial use"),
    ],
)
def test_a_licence_is_said_in_plain_words(licence: str, use: CommercialUse, line: str) -> None:
    assert (commercial_use(licence), licence_words(licence)) == (use, line)


def test_a_licence_that_says_it_is_not_commercial_is_not_taken_for_one() -> None:
    licences = {entry.licence for entry in shipped_entries()}
    forbidden = {name for name in licences if "-nc" in name or "research" in name}
    assert forbidden
    assert {commercial_use(name) for name in forbidden} == {CommercialUse.NO}


def test_every_licence_of_the_catalogue_is_in_a_class_that_somebody_put_it_in() -> None:
    """A new one has to be read, and put where it belongs, before it is issued."""
    licences = {entry.licence for entry in shipped_entries() if entry.licence}
    assert not {name for name in licences if not is_classified(name)}
    assert not is_classified("a-licence-of-tomorrow")
    assert commercial_use("a-licence-of-tomorrow") is CommercialUse.ASK
