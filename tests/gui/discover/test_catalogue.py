"""Discover before a word is typed: the recommendation, the families of the catalogue and their rows."""

import msgspec
import pytest
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QWidget

from app.cli.search import fit_word
from app.core.advice import EstimateConfidence, Rate, fit_verdict
from app.core.downloads import DownloadState, Pull
from app.core.errors import ErrorBody
from app.core.events import DownloadChanged
from app.core.hub import CatalogueInfo, HubUse
from app.gui.screens.models import hub_search
from app.gui.screens.models.hub_card import VariantRow
from app.gui.screens.models.model import ModelsSide
from app.gui.screens.models.pick_card import FamilyView, PickRow
from app.gui.screens.models.view import ModelsScreen
from app.gui.shell.contract import PageId, Task
from app.gui.widgets.rows import Tag
from app.gui.widgets.text import Label
from tests.demo import hub
from tests.demo.api import DemoApi
from tests.gui.conftest import QuietShell
from tests.gui.discover.discover_page import REFUSED, search_hub


def open_catalogue(screen: ModelsScreen, api: DemoApi) -> dict[str, FamilyView | PickRow]:
    screen.show_discover()
    api.flush()
    QApplication.sendPostedEvents()
    rows = screen.discover._families.rows.items()
    return {name: view for name, view in rows if isinstance(view, (FamilyView, PickRow))}


def shown_tags(view: QWidget) -> set[str]:
    tags = [tag for tag in view.findChildren(Tag) if not tag.isHidden()]
    return {label.text() for tag in tags for label in tag.findChildren(Label)}


def test_before_a_word_is_typed_the_catalogue_is_shown_by_families(screen: ModelsScreen, api: DemoApi) -> None:
    views = open_catalogue(screen, api)
    assert list(views) == list(dict.fromkeys(pick.family for pick in hub.PICKS))
    assert ("GET", "/hub/catalogue?use=chat", None) in api.calls
    assert isinstance(views["Qwen3.8"], PickRow), "a family of one is its model"
    assert not any("/hub/search" in path for _, path, _ in api.calls), "the hub is not needed"
    screen.hub_search.fetch_picks(HubUse.CODING)
    assert ("GET", "/hub/catalogue?use=coding", None) in api.calls


@pytest.mark.slow
def test_the_first_card_is_the_recommendation_with_the_fast_model_below(screen: ModelsScreen, api: DemoApi) -> None:
    open_catalogue(screen, api)
    card = screen.discover._recommendation
    assert card.isVisible()
    assert card.accessibleName() == "Qwen3.8 27B"
    assert "The next better, GLM 5.3 Flash" in card._reason.text()
    (fast,) = card.findChildren(PickRow)
    assert "Fast" in shown_tags(fast)
    assert card.meters.quality.accessibleName() == "Quality: 340"
    unknown = [msgspec.structs.replace(pick, is_best=False, is_fast=False) for pick in hub.PICKS]
    unknown[0] = msgspec.structs.replace(unknown[0], reason="How fast this computer's memory is, is not known.")
    api.replies["GET /hub/catalogue"] = unknown
    screen.hub_search.fetch_picks(HubUse.CHAT)
    api.flush()
    assert not card.isVisible()
    assert screen.discover._unknown.text() == unknown[0].reason


@pytest.mark.slow
def test_a_family_unfolds_and_folds_and_says_what_is_new_in_it(screen: ModelsScreen, api: DemoApi) -> None:
    family = open_catalogue(screen, api)["Gemma"]
    assert isinstance(family, FamilyView)
    assert "New" in shown_tags(family.row)
    assert family.row.accessibleDescription() == "12.2B to 31.3B · best here: Gemma 4 31B"
    assert family.button.accessibleName() == "Show the models of Gemma: 3 models"
    family.button.click()
    rows = {name: view for name, view in family.list.rows.items() if isinstance(view, PickRow)}
    assert list(rows) == ["gemma4:31b", "gemma4:26b", "gemma4:12b"]
    assert [name for name, row in rows.items() if "New" in shown_tags(row)] == ["gemma4:12b"]
    family.button.click()
    assert not family.list.isVisible()


@pytest.mark.slow
def test_a_family_that_unfolds_is_laid_out_before_it_is_drawn(screen: ModelsScreen, api: DemoApi) -> None:
    """Rows that came in one turn of the event loop were squeezed into seven pixels until further ones."""
    family = open_catalogue(screen, api)["Qwen3.6"]
    assert isinstance(family, FamilyView)
    QTest.qWait(50)
    folded_height = family.height()
    family.button.click()
    rows = family.findChildren(PickRow)
    assert rows
    assert all(row.height() == row.sizeHint().height() for row in rows)
    assert family.height() == folded_height + family._place.height()
    assert family.list.height() >= sum(row.height() for row in rows)


@pytest.mark.slow
def test_a_row_says_what_it_is_for_how_it_runs_and_what_its_licence_allows(screen: ModelsScreen, api: DemoApi) -> None:
    views = open_catalogue(screen, api)
    assert {name: views[name].row.accessibleDescription() for name in ("Command", "GLM", "Spark-X")} == {
        "Command": "For conversation; calls tools · Runs, but too slow to talk to · about 62.4 GiB · "
        "no commercial use (cc-by-nc-4.0)",
        "GLM": "For conversation, code, hard questions and images; calls tools · Too large: needs about 209 GiB · "
        "about 177 GiB · commercial use: read its terms (glm-5.3)",
        "Spark-X": "For conversation · Fits · about 4.7 GiB · licence unknown: ask its makers before commercial use · "
        "unchecked: nobody verified that it is there",
    }
    assert hub_search.pick_sign(hub.PICKS[7])[0] == "warn"
    assert "Unchecked" in shown_tags(views["Spark-X"])
    assert "Unchecked" not in shown_tags(views["GLM"])
    assert views["Spark-X"].meters.quality.accessibleName() == "Quality: unknown"
    derived_pick = msgspec.structs.replace(hub.PICKS[2], is_quality_derived=True)
    assert hub_search.quality_level(derived_pick, 464)[:2] == (0.5, "about 232")


@pytest.mark.slow
def test_more_families_come_on_request(screen: ModelsScreen, api: DemoApi) -> None:
    many = [msgspec.structs.replace(hub.PICKS[3], pull=f"m{at}", family=f"Family {at}") for at in range(40)]
    api.replies["GET /hub/catalogue"] = many
    assert len(open_catalogue(screen, api)) == hub_search.FAMILIES_AT_FIRST
    screen.discover._more_families.click()
    assert len(screen.discover._families.rows) == hub_search.FAMILIES_AT_FIRST + hub_search.FAMILIES_MORE


@pytest.mark.slow
def test_a_model_is_downloaded_from_its_row_in_the_planned_format_or_another(
    screen: ModelsScreen, api: DemoApi, shell: QuietShell
) -> None:
    row = open_catalogue(screen, api)["Muse"]
    assert isinstance(row, PickRow)
    buttons = row.download_actions
    assert list(buttons.menu_entries().values()) == ["", "gguf", "mlx", "exl3", "awq"]
    buttons.download.click()
    assert buttons.download.text() == "Downloading"
    assert api.bodies_of("POST", "/downloads") == [Pull(model="muse-glimmer:30b")]
    coming_download = msgspec.structs.replace(hub.DOWNLOADS[0], model="muse-glimmer:30b")
    api.replies["GET /downloads"] = [coming_download]
    api.flush()
    assert buttons.download.accessibleName() == "63%: Muse Glimmer 30B"
    shell.broadcast_event(DownloadChanged(download=msgspec.structs.replace(coming_download, state=DownloadState.DONE)))
    assert buttons.download.text() == "Installed"
    row.download_actions.show_pick(msgspec.structs.replace(row._pick, is_here=True, installed="muse-glimmer"))
    assert buttons.download.text() == "Chat"
    buttons.download.click()
    assert shell.pages == [PageId.CHAT]
    assert len(api.bodies_of("POST", "/downloads")) == 1
    other = open_catalogue(screen, api)["Command"]
    assert isinstance(other, PickRow)
    other.download_actions.start_download("mlx")
    assert api.bodies_of("POST", "/downloads")[-1] == Pull(model="command-a:111b", format="mlx")


def test_a_model_that_is_too_new_says_so_and_leads_to_the_engines(
    screen: ModelsScreen, api: DemoApi, shell: QuietShell
) -> None:
    needs = "Needs a newer llama.cpp: update it (34 MB) first"
    api.replies["GET /hub/catalogue"] = [msgspec.structs.replace(hub.PICKS[3], needs=needs)]
    api.replies["POST /downloads"] = ErrorBody(code="engine_too_old", sentence="llama.cpp does not know it.")
    row = open_catalogue(screen, api)["Muse"]
    assert isinstance(row, PickRow)
    assert needs in row.row.accessibleDescription()
    row.download_actions.download.click()
    api.flush()
    assert screen._trouble.isVisible()
    assert screen._trouble._other.isVisible()
    screen._trouble._other.click()
    assert api.bodies_of("POST", "/downloads")[-1] == Pull(model="muse-glimmer:30b", anyway=True)
    api.flush()
    assert not screen._trouble._other.isVisible(), "it was asked for all the same, and refused all the same"
    screen._trouble._button.click()
    assert shell.pages == [PageId.ENGINES]


@pytest.mark.slow
def test_the_variants_of_a_row_are_shown_below_it(screen: ModelsScreen, api: DemoApi) -> None:
    row = open_catalogue(screen, api)["Muse"]
    assert isinstance(row, PickRow)
    row.download_actions._open_sheet()
    api.flush()
    QApplication.sendPostedEvents()
    assert [view.accessibleName() for view in row.findChildren(VariantRow)] == [
        variant.quantization for variant in hub.MODEL.variants
    ]


def test_words_are_found_in_the_catalogue_where_the_hub_cannot_be_reached(screen: ModelsScreen, api: DemoApi) -> None:
    api.replies["GET /hub/search"] = REFUSED
    search_hub(screen, api, "gemma")
    assert list(screen.discover._matches.rows) == ["gemma4:31b", "gemma4:26b", "gemma4:12b"]
    assert screen.discover._matches.isVisible()
    assert not screen.discover._recommendation.isVisible()
    assert screen.hub_search.error == REFUSED


@pytest.mark.slow
def test_the_catalogue_is_refreshed_on_request_and_a_refusal_changes_nothing(
    screen: ModelsScreen, api: DemoApi, shell: QuietShell
) -> None:
    before = list(open_catalogue(screen, api))
    refusal = ErrorBody(code="catalogue_refused", sentence="The catalogue's signature is not valid.")
    api.replies["POST /hub/catalogue"] = refusal
    screen.discover._refresh.click()
    api.flush()
    assert screen.hub_search.error == refusal
    assert list(screen.discover._families.rows) == before
    api.replies["POST /hub/catalogue"] = CatalogueInfo(issued="2027-01-02", models=400)
    api.replies["GET /hub/catalogue"] = hub.PICKS[:4]
    screen.discover._refresh.click()
    api.flush()
    assert shell.messages == ["The catalogue dates from 2027-01-02 and lists 400 models."]
    assert list(screen.discover._families.rows) == ["Qwen3.8", "Qwen3.6", "Muse"]
    assert screen.hub_search.error is None


@pytest.mark.slow
def test_what_was_seen_is_no_longer_new_once_somebody_turns_to_something_else(
    screen: ModelsScreen, api: DemoApi
) -> None:
    open_catalogue(screen, api)
    look = ("POST", "/hub/catalogue/look", None)
    assert look not in api.calls
    screen._turn_to(ModelsSide.HERE)
    assert api.calls.count(look) == 1


def test_the_palette_leads_to_discover(screen: ModelsScreen, shell: QuietShell) -> None:
    assert not screen.discover.isVisible()
    shell.task_requested.emit(Task.DISCOVER)
    assert screen.discover.isVisible()


@pytest.mark.parametrize(("rate", "color", "word"), [(4.9, "warn", "slow"), (5.1, "ok", "yes"), (9.0, "ok", "yes")])
def test_what_is_too_slow_to_talk_to_is_the_same_everywhere(rate: float, color: str, word: str) -> None:
    decode = Rate(tokens_per_second=rate, low=rate, high=rate, confidence=EstimateConfidence.PREDICTED)
    card = msgspec.structs.replace(hub.PICKS[0].card, fits=True, decode=decode)
    pick = msgspec.structs.replace(hub.PICKS[0], card=card, needs="")
    assert hub_search.pick_sign(pick)[0] == hub_search.fit_sign(card)[0] == color
    assert fit_word(card.verdict) == word
    assert card.verdict is fit_verdict(fits=True, decode=decode), (
        "as the Machine page and `roundhouse estimate` have it"
    )


@pytest.mark.slow
def test_add_a_model_begins_at_the_best_for_this_computer(screen: ModelsScreen, api: DemoApi) -> None:
    screen.show()
    screen._perform_task(Task.DISCOVER)
    api.flush()
    card = screen.discover._recommendation
    assert card.download_actions is not None
    assert card.download_actions.download.hasFocus()
    assert "Downloads in about" in card._time.text()


def test_the_time_of_a_download_follows_the_connection() -> None:
    pick = next(pick for pick in hub.PICKS if pick.card.download_bytes and not pick.is_here)
    assert "at 100 Mbit/s; chat with the Guide meanwhile" in hub_search.download_time(pick, None)
    assert "as fast as the other download" in hub_search.download_time(pick, 1e6)
    assert hub_search.download_time(msgspec.structs.replace(pick, is_here=True), None) == ""
