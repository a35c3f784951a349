"""Searching the hub: what is asked of the gateway, what a card and its sheet show, and downloads from a rung."""

import msgspec
import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from app.core.downloads import DownloadState, Pull
from app.core.events import DownloadChanged
from app.core.hub import HubCard, HubModel, HubResults, HubVariant
from app.gui.screens.models import downloads, hub_search
from app.gui.screens.models.hub_card import CompanionRow, VariantRow
from app.gui.screens.models.view import ModelsScreen
from tests.demo import hub
from tests.demo.api import DemoApi
from tests.gui.discover.discover_page import REFUSED, list_cards, search_hub


def open_rows(screen: ModelsScreen, api: DemoApi) -> dict[str, VariantRow]:
    view = search_hub(screen, api)[0]
    view.button.click()
    api.flush()
    QApplication.sendPostedEvents()
    return {row.accessibleName(): row for row in view.findChildren(VariantRow)}


def test_words_are_looked_for_once_typing_pauses(screen: ModelsScreen, api: DemoApi, qtbot: QtBot) -> None:
    screen.show_discover()
    for text in ("q", "qw", "qwen3 8b"):
        screen.discover.field.setText(text)
    qtbot.waitUntil(lambda: any("/hub/search" in path for _, path, _ in api.calls))
    paths = [path for _, path, _ in api.calls if "/hub/search" in path]
    assert paths == ["/hub/search?text=qwen3+8b&sort=downloads"]


def test_filters_narrow_at_once_and_an_older_answer_does_not_come_through(screen: ModelsScreen, api: DemoApi) -> None:
    model = screen.hub_search
    api.replies["GET /hub/search"] = lambda _body: HubResults(cards=hub.CARDS[:1], as_of=0.0)
    model.type_query("qwen3")
    model.search_now()
    api.replies["GET /hub/search"] = HubResults(cards=hub.CARDS[1:3], as_of=0.0)
    model.set_filters(format="gguf", max_parameters=4_500_000_000, gated=False)
    last = api.calls[-1][1]
    assert {"format=gguf", "max_parameters=4500000000", "gated=False"} <= set(last.partition("?")[2].split("&"))
    api.flush()
    assert [card.title for card in model.cards] == [card.title for card in hub.CARDS[1:3]]


@pytest.mark.slow
def test_more_is_put_below_and_nothing_twice(screen: ModelsScreen, api: DemoApi) -> None:
    assert len(search_hub(screen, api)) == len(hub.CARDS)
    api.replies["GET /hub/search"] = HubResults(cards=[hub.CARDS[0], hub.LONG_CARD], as_of=0.0)
    screen.hub_search.fetch_more()
    assert "page=more" in api.calls[-1][1]
    api.flush()
    assert [card.base for card in screen.hub_search.cards] == [card.base for card in [*hub.CARDS, hub.LONG_CARD]]
    assert screen.hub_search.next == ""


@pytest.mark.slow
def test_what_was_found_keeps_its_place_while_looking_and_after_a_failure(screen: ModelsScreen, api: DemoApi) -> None:
    before = search_hub(screen, api)
    api.replies["GET /hub/search"] = REFUSED
    screen.hub_search.set_filters(format="mlx")
    assert list_cards(screen) == before
    assert all(view.isVisible() for view in before)
    api.flush()
    assert screen.hub_search.error == REFUSED
    assert list_cards(screen) == before
    assert all(view.isVisible() for view in before)


@pytest.mark.slow
def test_how_old_an_answer_is_is_said(screen: ModelsScreen, api: DemoApi) -> None:
    api.replies["GET /hub/search"] = hub.OFFLINE_RESULTS
    search_hub(screen, api)
    assert screen.discover._note.isVisible()
    assert "2 h 10 min ago" in screen.discover._note.text()


def test_a_card_says_at_a_glance_whether_it_fits_and_that_it_is_an_estimate() -> None:
    card = hub.CARDS[0]
    assert hub_search.fit_sign(card) == ("ok", "Fits")
    assert card.decode is not None
    slow = msgspec.structs.replace(card.decode, tokens_per_second=0.2)
    assert hub_search.fit_sign(msgspec.structs.replace(card, decode=slow)) == ("warn", "Fits, but slow")
    assert hub_search.card_figures(card) == "about 6.1 GiB · ~38 tok/s"
    assert hub_search.card_facts(card) == "Qwen · 5 repositories · apache-2.0 · 2.8M downloads"
    unknown = HubCard(base="a/b", title="b", repositories=card.repositories)
    assert (hub_search.fit_sign(unknown), hub_search.card_figures(unknown)) == (("ink-3", "Unknown"), "")


@pytest.mark.slow
def test_a_sheet_shows_every_rung_and_marks_one(screen: ModelsScreen, api: DemoApi) -> None:
    rows = open_rows(screen, api)
    assert list(rows) == [variant.quantization for variant in hub.MODEL.variants]
    assert "33 tok/s (26 to 41)" in rows["Q5_K_M"].accessibleDescription()
    assert rows["Q4_K_M"].button.text() == "Installed"
    assert not rows["Q4_K_M"].button.isEnabled()
    view = list_cards(screen)[0]
    assert "Q5_K_M is recommended" in view.sheet._why.text()
    view.button.click()
    assert view.sheet.isHidden()


@pytest.mark.slow
def test_a_download_begins_from_a_rung_once(screen: ModelsScreen, api: DemoApi) -> None:
    row = open_rows(screen, api)["Q5_K_M"]
    row.button.click()
    row.button.click()
    assert row.button.text() == "Downloading"
    assert api.bodies_of("POST", "/downloads") == [Pull(model="unsloth/Qwen3-8B-GGUF:Q5_K_M")]
    coming_download = msgspec.structs.replace(hub.DOWNLOADS[0], repository="unsloth/Qwen3-8B-GGUF")
    api.replies["GET /downloads"] = [coming_download]
    top = screen.discover.mapTo(screen, QPoint(0, 0))
    api.flush()
    QApplication.sendPostedEvents()
    assert row.button.text() == "63%"
    assert screen.discover.mapTo(screen, QPoint(0, 0)) == top
    assert screen._places.coming.text() == "unsloth/Qwen3-14B-GGUF:Q5_K_M, 63%"
    screen._shell.broadcast_event(
        DownloadChanged(download=msgspec.structs.replace(coming_download, state=DownloadState.DONE))
    )
    assert row.button.text() == "Installed"


@pytest.mark.slow
def test_what_goes_with_a_model_comes_where_it_is_asked_for(screen: ModelsScreen, api: DemoApi) -> None:
    vision_variants = [
        msgspec.structs.replace(variant, projector="mmproj-f16.gguf", projector_bytes=1 << 30)
        for variant in hub.MODEL.variants
    ]
    api.replies["GET /hub/model"] = msgspec.structs.replace(hub.MODEL, variants=vision_variants)
    open_rows(screen, api)
    sheet = list_cards(screen)[0].sheet
    assert "Comes with mmproj-f16.gguf (1.0 GiB), which lets it see images." in sheet._with_it.text()
    draft, lora = (row for row in sheet.findChildren(CompanionRow))
    assert not lora.button.isEnabled(), "it is here"
    draft.button.click()
    assert draft.button.text() == "Downloading"
    assert not draft.button.isEnabled()
    assert api.bodies_of("POST", "/downloads") == [Pull(model=f"{hub.MODEL.repository}/Qwen3-0.6B-draft-Q8_0.gguf")]


def test_with_a_file_alone_there_is_no_chat() -> None:
    finished_download = msgspec.structs.replace(hub.DOWNLOADS[0], state=DownloadState.DONE)
    assert downloads.buttons_of(finished_download) == ("chat",)
    alone = msgspec.structs.replace(finished_download, files=["a.gguf"], title=f"{finished_download.repository}/a.gguf")
    assert downloads.buttons_of(alone) == ()


@pytest.mark.slow
def test_a_refusal_says_what_to_do_and_the_button_is_free_again(screen: ModelsScreen, api: DemoApi) -> None:
    api.replies["POST /downloads"] = REFUSED
    row = open_rows(screen, api)["Q5_K_M"]
    row.button.click()
    api.flush()
    assert screen._trouble.isVisible()
    assert row.button.text() == "Download"


@pytest.mark.slow
def test_what_to_accept_and_where_is_said(screen: ModelsScreen, api: DemoApi) -> None:
    api.replies["GET /hub/model"] = hub.GATED
    open_rows(screen, api)
    sheet = list_cards(screen)[0].sheet
    assert sheet._gate.isVisible()
    assert "https://huggingface.co/google/gemma-3-12b-it" in sheet._gate.text()


@pytest.mark.slow
def test_a_repository_that_cannot_be_read_says_so_in_its_place(screen: ModelsScreen, api: DemoApi) -> None:
    api.replies["GET /hub/model"] = REFUSED
    assert open_rows(screen, api) == {}
    assert screen.hub_search.sheet is not None
    assert screen.hub_search.sheet.error == REFUSED


@pytest.mark.slow
def test_another_repository_of_the_card_is_looked_at_in_its_place(screen: ModelsScreen, api: DemoApi) -> None:
    open_rows(screen, api)
    second = hub.CARDS[0].repositories[1].repository
    view = list_cards(screen)[0]
    view._choice._chips[second].click()
    api.flush()
    assert screen.hub_search.sheet is not None
    assert screen.hub_search.sheet.repository == second


NAMES = [
    (hub.MODEL, hub.MODEL.variants[0], "unsloth/Qwen3-8B-GGUF:BF16"),
    (hub.GATED, hub.GATED.variants[0], "google/gemma-3-12b-it"),
    (
        hub.MODEL,
        HubVariant(quantization="4.0bpw", format="exl3", size_bytes=1, files=1, revision="4.0bpw_H6"),
        "unsloth/Qwen3-8B-GGUF@4.0bpw_H6",
    ),
    (msgspec.structs.replace(hub.MODEL, revision="v2"), hub.MODEL.variants[1], "unsloth/Qwen3-8B-GGUF@v2:Q8_0"),
]


@pytest.mark.parametrize(("model", "variant", "name"), NAMES)
def test_a_variant_is_asked_for_by_name(model: HubModel, variant: HubVariant, name: str) -> None:
    assert hub_search.pull_name(model, variant) == name


@pytest.mark.slow
def test_everything_can_be_reached_with_the_keyboard(screen: ModelsScreen, api: DemoApi) -> None:
    rows = open_rows(screen, api)
    screen.discover.field.setFocus()
    seen_widgets = set()
    for _ in range(60):
        focus_widget = screen.focusWidget()
        seen_widgets.add(focus_widget)
        QTest.keyClick(focus_widget, Qt.Key.Key_Tab)
    assert {row.button for row in rows.values() if row.button.isEnabled()} <= seen_widgets
    assert list_cards(screen)[-1].button in seen_widgets


@pytest.mark.slow
def test_a_choice_of_a_filter_shows_on_it_and_narrows(screen: ModelsScreen, api: DemoApi) -> None:
    screen.show_discover()
    discover = screen.discover
    discover._apply_filter(discover._licence, "mit", {"licence": "mit"})
    discover._apply_filter(discover._age, "Changed this month", {"days": 31})
    assert (discover._licence.text(), discover._age.accessibleName()) == ("mit", "Changed this month")
    assert {"licence=mit", "days=31"} <= set(api.calls[-1][1].partition("?")[2].split("&"))
