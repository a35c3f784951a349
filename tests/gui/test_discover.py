"""Discover: what is asked of the gateway, what a card and its sheet show, and the downloads that come of it."""

from collections.abc import Callable

import msgspec
import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QWidget
from pytestqt.qtbot import QtBot

from app.cli.search import fit_word
from app.core.advice import EstimateConfidence, Rate, fit_verdict
from app.core.downloads import Download, DownloadState, MoveDownload, Pull
from app.core.errors import ErrorBody
from app.core.events import DownloadChanged, DownloadRemoved
from app.core.hub import CatalogueInfo, HubCard, HubModel, HubResults, HubUse, HubVariant
from app.gui import phrases
from app.gui.net.remote_lists import Stores
from app.gui.screens.models import downloads, hub_search
from app.gui.screens.models.downloads import DownloadsModel
from app.gui.screens.models.downloads_panel import DownloadRow, DownloadsPanel
from app.gui.screens.models.hub_card import CompanionRow, HubCardView, VariantRow
from app.gui.screens.models.model import ModelsSide
from app.gui.screens.models.pick_card import FamilyView, PickRow
from app.gui.screens.models.view import ModelsScreen
from app.gui.shell.contract import PageId, Task
from app.gui.shell.window import MainWindow
from app.gui.theme.theme import Theme
from app.gui.widgets.rows import Tag
from app.gui.widgets.text import Label
from tests.demo import data, hub
from tests.demo.api import DemoApi
from tests.gui.conftest import QuietShell

REFUSED = ErrorBody(code="hub_gated", sentence="It is gated.", hint="Open the model page.")


@pytest.fixture
def screen(theme: Theme, api: DemoApi, shell: QuietShell, qtbot: QtBot) -> ModelsScreen:
    screen = ModelsScreen(theme, Stores(api, shell), shell)
    qtbot.addWidget(screen)
    screen.resize(1000, 700)
    screen.show()
    api.flush()
    return screen


def searched(screen: ModelsScreen, api: DemoApi, text: str = "qwen3") -> list[HubCardView]:
    screen.show_discover()
    screen.discover.field.setText(text)
    screen.hub_search.search_now()
    api.flush()
    QApplication.sendPostedEvents()
    return cards(screen)


def cards(screen: ModelsScreen) -> list[HubCardView]:
    return [view for view in screen.discover._list.rows.values() if isinstance(view, HubCardView)]


def open_rows(screen: ModelsScreen, api: DemoApi) -> dict[str, VariantRow]:
    view = searched(screen, api)[0]
    view.button.click()
    api.flush()
    QApplication.sendPostedEvents()
    return {row.accessibleName(): row for row in view.findChildren(VariantRow)}


def catalogue_rows(screen: ModelsScreen, api: DemoApi) -> dict[str, FamilyView | PickRow]:
    screen.show_discover()
    api.flush()
    QApplication.sendPostedEvents()
    rows = screen.discover._families.rows.items()
    return {name: view for name, view in rows if isinstance(view, (FamilyView, PickRow))}


def shown_tags(view: QWidget) -> set[str]:
    tags = [tag for tag in view.findChildren(Tag) if not tag.isHidden()]
    return {label.text() for tag in tags for label in tag.findChildren(Label)}


def test_before_a_word_is_typed_the_catalogue_is_shown_by_families(screen: ModelsScreen, api: DemoApi) -> None:
    views = catalogue_rows(screen, api)
    assert list(views) == list(dict.fromkeys(pick.family for pick in hub.PICKS))
    assert ("GET", "/hub/catalogue?use=chat", None) in api.calls
    assert isinstance(views["Qwen3.8"], PickRow), "a family of one is its model"
    assert not any("/hub/search" in path for _, path, _ in api.calls), "the hub is not needed"
    screen.hub_search.fetch_picks(HubUse.CODING)
    assert ("GET", "/hub/catalogue?use=coding", None) in api.calls


def test_the_first_card_is_the_recommendation_with_the_fast_model_below(screen: ModelsScreen, api: DemoApi) -> None:
    catalogue_rows(screen, api)
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


def test_a_family_unfolds_and_folds_and_says_what_is_new_in_it(screen: ModelsScreen, api: DemoApi) -> None:
    family = catalogue_rows(screen, api)["Gemma"]
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


def test_a_family_that_unfolds_is_laid_out_before_it_is_drawn(screen: ModelsScreen, api: DemoApi) -> None:
    """Rows that came in one turn of the event loop were squeezed into seven pixels until further ones."""
    family = catalogue_rows(screen, api)["Qwen3.6"]
    assert isinstance(family, FamilyView)
    QTest.qWait(50)
    folded = family.height()
    family.button.click()
    rows = family.findChildren(PickRow)
    assert rows
    assert all(row.height() == row.sizeHint().height() for row in rows)
    assert family.height() == folded + family._place.height()
    assert family.list.height() >= sum(row.height() for row in rows)


def test_a_row_says_what_it_is_for_how_it_runs_and_what_its_licence_allows(screen: ModelsScreen, api: DemoApi) -> None:
    views = catalogue_rows(screen, api)
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
    derived = msgspec.structs.replace(hub.PICKS[2], is_quality_derived=True)
    assert hub_search.quality_level(derived, 464)[:2] == (0.5, "about 232")


def test_more_families_come_on_request(screen: ModelsScreen, api: DemoApi) -> None:
    many = [msgspec.structs.replace(hub.PICKS[3], pull=f"m{at}", family=f"Family {at}") for at in range(40)]
    api.replies["GET /hub/catalogue"] = many
    assert len(catalogue_rows(screen, api)) == hub_search.FAMILIES_AT_FIRST
    screen.discover._more_families.click()
    assert len(screen.discover._families.rows) == hub_search.FAMILIES_AT_FIRST + hub_search.FAMILIES_MORE


def test_a_model_is_downloaded_from_its_row_in_the_planned_format_or_another(
    screen: ModelsScreen, api: DemoApi, shell: QuietShell
) -> None:
    row = catalogue_rows(screen, api)["Muse"]
    assert isinstance(row, PickRow)
    buttons = row.download_actions
    assert list(buttons.menu_entries().values()) == ["", "gguf", "mlx", "exl3", "awq"]
    buttons.download.click()
    assert buttons.download.text() == "Downloading"
    assert api.bodies_of("POST", "/downloads") == [Pull(model="muse-glimmer:30b")]
    coming = msgspec.structs.replace(hub.DOWNLOADS[0], model="muse-glimmer:30b")
    api.replies["GET /downloads"] = [coming]
    api.flush()
    assert buttons.download.accessibleName() == "63%: Muse Glimmer 30B"
    shell.broadcast_event(DownloadChanged(download=msgspec.structs.replace(coming, state=DownloadState.DONE)))
    assert buttons.download.text() == "Installed"
    row.download_actions.show_pick(msgspec.structs.replace(row._pick, is_here=True, installed="muse-glimmer"))
    assert buttons.download.text() == "Chat"
    buttons.download.click()
    assert shell.pages == [PageId.CHAT]
    assert len(api.bodies_of("POST", "/downloads")) == 1
    other = catalogue_rows(screen, api)["Command"]
    assert isinstance(other, PickRow)
    other.download_actions.start_download("mlx")
    assert api.bodies_of("POST", "/downloads")[-1] == Pull(model="command-a:111b", format="mlx")


def test_a_model_that_is_too_new_says_so_and_leads_to_the_engines(
    screen: ModelsScreen, api: DemoApi, shell: QuietShell
) -> None:
    needs = "Needs a newer llama.cpp: update it (34 MB) first"
    api.replies["GET /hub/catalogue"] = [msgspec.structs.replace(hub.PICKS[3], needs=needs)]
    api.replies["POST /downloads"] = ErrorBody(code="engine_too_old", sentence="llama.cpp does not know it.")
    row = catalogue_rows(screen, api)["Muse"]
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


def test_the_variants_of_a_row_are_shown_below_it(screen: ModelsScreen, api: DemoApi) -> None:
    row = catalogue_rows(screen, api)["Muse"]
    assert isinstance(row, PickRow)
    row.download_actions._open_sheet()
    api.flush()
    QApplication.sendPostedEvents()
    assert [view.accessibleName() for view in row.findChildren(VariantRow)] == [
        variant.quantization for variant in hub.MODEL.variants
    ]


def test_words_are_found_in_the_catalogue_where_the_hub_cannot_be_reached(screen: ModelsScreen, api: DemoApi) -> None:
    api.replies["GET /hub/search"] = REFUSED
    searched(screen, api, "gemma")
    assert list(screen.discover._matches.rows) == ["gemma4:31b", "gemma4:26b", "gemma4:12b"]
    assert screen.discover._matches.isVisible()
    assert not screen.discover._recommendation.isVisible()
    assert screen.hub_search.error == REFUSED


def test_the_catalogue_is_refreshed_on_request_and_a_refusal_changes_nothing(
    screen: ModelsScreen, api: DemoApi, shell: QuietShell
) -> None:
    before = list(catalogue_rows(screen, api))
    refused = ErrorBody(code="catalogue_refused", sentence="The catalogue's signature is not valid.")
    api.replies["POST /hub/catalogue"] = refused
    screen.discover._refresh.click()
    api.flush()
    assert screen.hub_search.error == refused
    assert list(screen.discover._families.rows) == before
    api.replies["POST /hub/catalogue"] = CatalogueInfo(issued="2027-01-02", models=400)
    api.replies["GET /hub/catalogue"] = hub.PICKS[:4]
    screen.discover._refresh.click()
    api.flush()
    assert shell.messages == ["The catalogue dates from 2027-01-02 and lists 400 models."]
    assert list(screen.discover._families.rows) == ["Qwen3.8", "Qwen3.6", "Muse"]
    assert screen.hub_search.error is None


def test_what_was_seen_is_no_longer_new_once_somebody_turns_to_something_else(
    screen: ModelsScreen, api: DemoApi
) -> None:
    catalogue_rows(screen, api)
    look = ("POST", "/hub/catalogue/look", None)
    assert look not in api.calls
    screen._turn_to(ModelsSide.HERE)
    assert api.calls.count(look) == 1


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


def test_more_is_put_below_and_nothing_twice(screen: ModelsScreen, api: DemoApi) -> None:
    assert len(searched(screen, api)) == len(hub.CARDS)
    api.replies["GET /hub/search"] = HubResults(cards=[hub.CARDS[0], hub.LONG_CARD], as_of=0.0)
    screen.hub_search.fetch_more()
    assert "page=more" in api.calls[-1][1]
    api.flush()
    assert [card.base for card in screen.hub_search.cards] == [card.base for card in [*hub.CARDS, hub.LONG_CARD]]
    assert screen.hub_search.next == ""


def test_what_was_found_keeps_its_place_while_looking_and_after_a_failure(screen: ModelsScreen, api: DemoApi) -> None:
    before = searched(screen, api)
    api.replies["GET /hub/search"] = REFUSED
    screen.hub_search.set_filters(format="mlx")
    assert cards(screen) == before
    assert all(view.isVisible() for view in before)
    api.flush()
    assert screen.hub_search.error == REFUSED
    assert cards(screen) == before
    assert all(view.isVisible() for view in before)


def test_how_old_an_answer_is_is_said(screen: ModelsScreen, api: DemoApi) -> None:
    api.replies["GET /hub/search"] = hub.OFFLINE_RESULTS
    searched(screen, api)
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


def test_a_sheet_shows_every_rung_and_marks_one(screen: ModelsScreen, api: DemoApi) -> None:
    rows = open_rows(screen, api)
    assert list(rows) == [variant.quantization for variant in hub.MODEL.variants]
    assert "33 tok/s (26 to 41)" in rows["Q5_K_M"].accessibleDescription()
    assert rows["Q4_K_M"].button.text() == "Installed"
    assert not rows["Q4_K_M"].button.isEnabled()
    view = cards(screen)[0]
    assert "Q5_K_M is recommended" in view.sheet._why.text()
    view.button.click()
    assert view.sheet.isHidden()


def test_a_download_begins_from_a_rung_once(screen: ModelsScreen, api: DemoApi) -> None:
    row = open_rows(screen, api)["Q5_K_M"]
    row.button.click()
    row.button.click()
    assert row.button.text() == "Downloading"
    assert api.bodies_of("POST", "/downloads") == [Pull(model="unsloth/Qwen3-8B-GGUF:Q5_K_M")]
    coming = msgspec.structs.replace(hub.DOWNLOADS[0], repository="unsloth/Qwen3-8B-GGUF")
    api.replies["GET /downloads"] = [coming]
    top = screen.discover.mapTo(screen, QPoint(0, 0))
    api.flush()
    QApplication.sendPostedEvents()
    assert row.button.text() == "63%"
    assert screen.discover.mapTo(screen, QPoint(0, 0)) == top
    assert screen._places.coming.text() == "unsloth/Qwen3-14B-GGUF:Q5_K_M, 63%"
    screen._shell.broadcast_event(DownloadChanged(download=msgspec.structs.replace(coming, state=DownloadState.DONE)))
    assert row.button.text() == "Installed"


def test_what_goes_with_a_model_comes_where_it_is_asked_for(screen: ModelsScreen, api: DemoApi) -> None:
    seeing = [
        msgspec.structs.replace(variant, projector="mmproj-f16.gguf", projector_bytes=1 << 30)
        for variant in hub.MODEL.variants
    ]
    api.replies["GET /hub/model"] = msgspec.structs.replace(hub.MODEL, variants=seeing)
    open_rows(screen, api)
    sheet = cards(screen)[0].sheet
    assert "Comes with mmproj-f16.gguf (1.0 GiB), which lets it see images." in sheet._with_it.text()
    draft, lora = (row for row in sheet.findChildren(CompanionRow))
    assert not lora.button.isEnabled(), "it is here"
    draft.button.click()
    assert draft.button.text() == "Downloading"
    assert not draft.button.isEnabled()
    assert api.bodies_of("POST", "/downloads") == [Pull(model=f"{hub.MODEL.repository}/Qwen3-0.6B-draft-Q8_0.gguf")]


def test_with_a_file_alone_there_is_no_chat() -> None:
    done = msgspec.structs.replace(hub.DOWNLOADS[0], state=DownloadState.DONE)
    assert downloads.buttons_of(done) == ("chat",)
    alone = msgspec.structs.replace(done, files=["a.gguf"], title=f"{done.repository}/a.gguf")
    assert downloads.buttons_of(alone) == ()


def test_a_refusal_says_what_to_do_and_the_button_is_free_again(screen: ModelsScreen, api: DemoApi) -> None:
    api.replies["POST /downloads"] = REFUSED
    row = open_rows(screen, api)["Q5_K_M"]
    row.button.click()
    api.flush()
    assert screen._trouble.isVisible()
    assert row.button.text() == "Download"


def test_what_to_accept_and_where_is_said(screen: ModelsScreen, api: DemoApi) -> None:
    api.replies["GET /hub/model"] = hub.GATED
    open_rows(screen, api)
    sheet = cards(screen)[0].sheet
    assert sheet._gate.isVisible()
    assert "https://huggingface.co/google/gemma-3-12b-it" in sheet._gate.text()


def test_a_repository_that_cannot_be_read_says_so_in_its_place(screen: ModelsScreen, api: DemoApi) -> None:
    api.replies["GET /hub/model"] = REFUSED
    assert open_rows(screen, api) == {}
    assert screen.hub_search.sheet is not None
    assert screen.hub_search.sheet.error == REFUSED


def test_another_repository_of_the_card_is_looked_at_in_its_place(screen: ModelsScreen, api: DemoApi) -> None:
    open_rows(screen, api)
    second = hub.CARDS[0].repositories[1].repository
    view = cards(screen)[0]
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


def test_everything_can_be_reached_with_the_keyboard(screen: ModelsScreen, api: DemoApi) -> None:
    rows = open_rows(screen, api)
    screen.discover.field.setFocus()
    seen = set()
    for _ in range(60):
        focused = screen.focusWidget()
        seen.add(focused)
        QTest.keyClick(focused, Qt.Key.Key_Tab)
    assert {row.button for row in rows.values() if row.button.isEnabled()} <= seen
    assert cards(screen)[-1].button in seen


def test_the_palette_leads_to_discover(screen: ModelsScreen, shell: QuietShell) -> None:
    assert not screen.discover.isVisible()
    shell.task_requested.emit(Task.DISCOVER)
    assert screen.discover.isVisible()


@pytest.fixture
def queue(theme: Theme, api: DemoApi, shell: QuietShell, qtbot: QtBot) -> tuple[DownloadsModel, DownloadsPanel]:
    api.replies["GET /downloads"] = hub.DOWNLOADS
    model = DownloadsModel(Stores(api, shell), shell)
    panel = DownloadsPanel(theme, model, shell)
    qtbot.addWidget(panel)
    panel.show()
    api.flush()
    QApplication.sendPostedEvents()
    return model, panel


def rows_of(panel: DownloadsPanel) -> list[DownloadRow]:
    return [row for row in panel.list.rows.values() if isinstance(row, DownloadRow)]


def offered(row: DownloadRow) -> list[str]:
    return [key for key, button in row._buttons.items() if button.isVisible()]


def test_every_download_says_how_far_it_is_and_offers_what_can_be_done(
    queue: tuple[DownloadsModel, DownloadsPanel],
) -> None:
    _, panel = queue
    running, waiting, failed, done = rows_of(panel)
    assert running.accessibleDescription() == "3.4 GiB of 5.4 GiB · 46.0 MiB/s · 45 s left · from desk"
    assert [offered(row) for row in (running, waiting, failed, done)] == [
        ["pause"],
        ["pause", "first"],
        ["again"],
        ["chat"],
    ]
    assert "2.1 GB are free" in failed._wrong.text()
    assert "plain HTTP" in running._note.text()
    assert [row._note.isVisible() for row in (running, waiting, failed, done)] == [True, False, False, False]
    assert not done._progress.isVisible()


@pytest.mark.parametrize("state", list(DownloadState))
def test_a_note_is_shown_while_it_matters(state: DownloadState) -> None:
    noted = msgspec.structs.replace(hub.DOWNLOADS[0], state=state)
    is_over = state in {DownloadState.DONE, DownloadState.FAILED}
    assert downloads.download_note(noted) == ("" if is_over else noted.note)


def test_a_chat_begins_with_what_was_brought(screen: ModelsScreen, api: DemoApi, shell: QuietShell) -> None:
    done = hub.DOWNLOADS[3]
    here = msgspec.structs.replace(data.MODELS[1], name="qwen-here", path=f"{done.folder}/{done.files[0]}")
    api.replies |= {"GET /downloads": hub.DOWNLOADS, "GET /models": [here]}
    screen.model.library.read()
    screen.downloads_model.queue.read()
    api.flush()
    prompts: list[str] = []
    shell.chat_requested.connect(prompts.append)
    (panel,) = screen.findChildren(DownloadsPanel)
    rows_of(panel)[3]._buttons["chat"].click()
    assert prompts == ["qwen-here"]
    assert phrases.library_name([], done) == done.title


def test_a_choice_of_a_filter_shows_on_it_and_narrows(screen: ModelsScreen, api: DemoApi) -> None:
    screen.show_discover()
    discover = screen.discover
    discover._apply_filter(discover._licence, "mit", {"licence": "mit"})
    discover._apply_filter(discover._age, "Changed this month", {"days": 31})
    assert (discover._licence.text(), discover._age.accessibleName()) == ("mit", "Changed this month")
    assert {"licence=mit", "days=31"} <= set(api.calls[-1][1].partition("?")[2].split("&"))


def test_the_queue_is_paused_moved_and_cancelled(
    queue: tuple[DownloadsModel, DownloadsPanel], api: DemoApi, shell: QuietShell
) -> None:
    model, panel = queue
    running, waiting, *_ = rows_of(panel)
    api.replies |= {
        f"POST /downloads/{hub.DOWNLOADS[0].id}/pause": hub.DOWNLOADS[0],
        f"POST /downloads/{hub.DOWNLOADS[1].id}/move": [hub.DOWNLOADS[1], *hub.DOWNLOADS[:1]],
        f"DELETE /downloads/{hub.DOWNLOADS[1].id}": None,
    }
    toasts: list[str] = []
    model.toast_requested.connect(lambda sentence, _undo: toasts.append(sentence))
    running._buttons["pause"].click()
    waiting._buttons["first"].click()
    assert api.bodies_of("POST", f"/downloads/{hub.DOWNLOADS[1].id}/move") == [MoveDownload(position=0)]
    api.flush()
    assert len(api.bodies_of("POST", f"/downloads/{hub.DOWNLOADS[0].id}/pause")) == 1
    model.remove(hub.DOWNLOADS[1])
    api.flush()
    assert hub.DOWNLOADS[1] not in model.queue.items
    assert toasts == [f"The download of {hub.DOWNLOADS[1].title} was cancelled."]


def test_a_row_follows_the_events_and_stays_the_same_row(
    queue: tuple[DownloadsModel, DownloadsPanel], shell: QuietShell
) -> None:
    model, panel = queue
    before = rows_of(panel)[0]
    ended: list[Download] = []
    model.queue.ended.connect(ended.append)
    further = msgspec.structs.replace(hub.DOWNLOADS[0], present_bytes=hub.DOWNLOADS[0].total_bytes)
    shell.broadcast_event(DownloadChanged(download=further))
    assert rows_of(panel)[0] is before
    assert ended == []
    done = msgspec.structs.replace(further, state=DownloadState.DONE)
    shell.broadcast_event(DownloadChanged(download=done))
    shell.broadcast_event(DownloadChanged(download=done))
    assert ended == [done]
    shell.broadcast_event(DownloadRemoved(id=done.id))
    assert before not in rows_of(panel)


def test_the_panel_takes_no_room_without_downloads(theme: Theme, api: DemoApi, shell: QuietShell, qtbot: QtBot) -> None:
    panel = DownloadsPanel(theme, DownloadsModel(Stores(api, shell), shell), shell)
    qtbot.addWidget(panel)
    api.flush()
    assert panel.isHidden()


def test_all_that_comes_is_summed_up() -> None:
    assert phrases.downloads_summary([]) == ""
    assert phrases.downloads_summary(hub.DOWNLOADS[2:]) == ""
    assert phrases.downloads_summary(hub.DOWNLOADS[:1]) == "unsloth/Qwen3-14B-GGUF:Q5_K_M, 63%"
    assert phrases.downloads_summary(hub.DOWNLOADS) == "2 downloads, 32%"
    assert downloads.time_left(3.2) == "3 s"
    assert downloads.time_left(75) == "1 min 15 s"
    assert phrases.download_ended(hub.DOWNLOADS[2])[0].endswith("was not downloaded")
    assert phrases.download_ended(hub.DOWNLOADS[3])[0].endswith("was downloaded")
    assert data.gateway_replies()["GET /downloads"] == []


def test_the_rail_and_the_system_tell_of_downloads(
    make_window: Callable[[PageId], MainWindow], api: DemoApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    window = make_window(PageId.MODELS)
    window.mark_connected(data.STATUS)
    api.flush()
    button = window.rail.buttons[PageId.MODELS]
    assert button.accessibleDescription() == ""
    window.shell.broadcast_event(DownloadChanged(download=hub.DOWNLOADS[0]))
    assert button.accessibleDescription() == "unsloth/Qwen3-14B-GGUF:Q5_K_M, 63%"
    offers: list[str] = []
    monkeypatch.setattr(window.toast, "show_offer", lambda sentence, *_offer: offers.append(sentence))
    window.shell.broadcast_event(
        DownloadChanged(download=msgspec.structs.replace(hub.DOWNLOADS[0], state=DownloadState.DONE))
    )
    assert offers == ["unsloth/Qwen3-14B-GGUF:Q5_K_M was downloaded."]
    assert button.accessibleDescription() == ""


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
