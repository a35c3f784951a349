"""The server page's keys: shown once, revoked with a way back; other computers only once there is a key."""

from datetime import date
from typing import Any

import msgspec
import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot

from app.core.errors import ErrorBody
from app.core.keys import KeyLimits, KeyRename, LimitName, NewKey, Scope
from app.core.requests import KeyDay
from app.gui.net.remote_lists import Stores
from app.gui.screens.server.key_limits_model import continue_names, hold_text, put_name
from app.gui.screens.server.key_row import KeyRow
from app.gui.screens.server.key_usage import MOST_SHOWN, DayTotal, KeyUsageList, KeyUsageRow, key_totals
from app.gui.screens.server.keys_model import KeysModel, key_facts
from app.gui.screens.server.keys_view import KeysSection
from app.gui.screens.server.model import ServerModel, SnippetKind
from app.gui.shell.contract import Shell
from app.gui.theme.theme import Theme
from app.gui.widgets.menus import Menu
from tests.demo import data
from tests.demo.api import DemoApi

REFUSED = ErrorBody(code="key_required", sentence="There is no key.")


@pytest.fixture
def model(api: DemoApi, shell: Shell) -> KeysModel:
    model = KeysModel(Stores(api, shell), shell)
    api.flush()
    return model


@pytest.fixture
def restarts() -> list[str]:
    return []


@pytest.fixture
def section(theme: Theme, model: KeysModel, shell: Shell, qtbot: QtBot, restarts: list[str]) -> KeysSection:
    section = KeysSection(theme, model, shell, restart=lambda: restarts.append("again"))
    qtbot.addWidget(section)
    section.show()
    return section


def test_a_new_key_is_there_until_it_is_put_away(model: KeysModel, api: DemoApi) -> None:
    model.make("  tablet ", may_manage=True)
    api.flush()
    assert api.bodies_of("POST", "/keys") == [NewKey(name="tablet", scopes=[Scope.INFERENCE, Scope.MANAGE])]
    assert model.new_key == data.MADE_KEY
    model.put_away()
    assert model.new_key is None


def test_revoking_happens_at_once_and_can_be_undone(model: KeysModel, api: DemoApi, qtbot: QtBot) -> None:
    with qtbot.waitSignal(model.toast_requested) as toast:
        model.revoke("laptop")
        api.flush()
    sentence, undo = toast.args
    assert "laptop" in sentence
    undo()
    api.flush()
    assert api.bodies_of("POST", "/keys/laptop/restore") == [None]


def test_a_refusal_is_said(model: KeysModel, api: DemoApi, qtbot: QtBot) -> None:
    api.replies["POST /keys"] = REFUSED
    with qtbot.waitSignal(model.failed) as failure_signal:
        model.make("x", may_manage=False)
        api.flush()
    assert failure_signal.args == [REFUSED]
    assert model.new_key is None


def test_others_are_not_let_in_before_there_is_a_key_that_opens(api: DemoApi, shell: Shell) -> None:
    for keys in ([], [msgspec.structs.replace(data.KEYS[0], expires_at=1.0)]):
        api.replies["GET /keys"] = keys
        model = KeysModel(Stores(api, shell), shell)
        api.flush()
        assert "Create a key first" in model.why_fixed
    api.replies["GET /keys"] = data.KEYS
    model = KeysModel(Stores(api, shell), shell)
    assert model.why_fixed  # nothing is known yet
    api.flush()
    assert model.why_fixed == ""


def test_an_address_of_the_environment_cannot_be_switched(api: DemoApi, shell: Shell) -> None:
    rows = data.default_settings()
    host = next(row for row in rows if row.name == "gateway.host")
    api.replies["GET /settings"] = [data.with_value(host, "127.0.0.1", "environment")]
    model = KeysModel(Stores(api, shell), shell)
    api.flush()
    assert "environment" in model.why_fixed


def test_the_consequence_names_who_where_and_what(api: DemoApi, shell: Shell, model: KeysModel) -> None:
    assert "Only programs on this computer" in model.consequence
    api.replies.update(data.network_replies())
    model_info = KeysModel(Stores(api, shell), shell)
    api.flush()
    assert "http://192.168.1.20:11434/v1" in model_info.consequence
    assert "not encrypted" in model_info.consequence
    assert (model_info.is_open, model_info.waits_for_restart, model_info.why_fixed) == (True, False, "")


def test_the_page_says_who_can_reach_it_and_its_snippets_ask_for_a_key(api: DemoApi, shell: Shell) -> None:
    server = ServerModel(Stores(api, shell), shell)
    api.flush()
    assert "Only this computer" in server.about
    assert "Authorization" not in server.format_snippet(SnippetKind.CURL)
    api.replies.update(data.network_replies())
    shell.connected.emit()
    api.flush()
    assert "every program needs a key" in server.about
    assert all("YOUR-KEY" in server.format_snippet(dialect) for dialect in SnippetKind)


def test_switching_waits_for_the_service_to_start_again(
    section: KeysSection, model: KeysModel, api: DemoApi, restarts: list[str]
) -> None:
    assert section.restart_button.isHidden()
    api.replies["PATCH /settings"] = data.network_replies()["GET /settings"]
    section.wider.switch.click()
    assert api.bodies_of("PATCH", "/settings") == [{"gateway.host": "0.0.0.0"}]  # noqa: S104 -- what the switch means
    api.flush()
    assert (model.is_open, model.waits_for_restart, section.wider.switch.isChecked()) == (True, True, True)
    section.restart_button.click()
    assert restarts == ["again"]
    api.replies["PATCH /settings"] = data.default_settings()
    section.wider.switch.click()
    api.flush()
    assert api.bodies_of("PATCH", "/settings")[-1] == {"gateway.host": None}
    assert section.restart_button.isHidden()


def test_a_refused_switch_goes_back(section: KeysSection, api: DemoApi) -> None:
    api.replies["PATCH /settings"] = REFUSED
    section.wider.switch.click()
    api.flush()
    assert not section.wider.switch.isChecked()


def test_the_key_is_shown_and_copied_once(section: KeysSection, api: DemoApi) -> None:
    assert section.new_key_card.isHidden()
    assert not section.make_button.isEnabled()
    section.name.setText("tablet")
    section.make_button.click()
    api.flush()
    assert not section.new_key_card.isHidden()
    assert data.MADE_KEY.key in section.new_key_field.accessibleName()
    section.model.put_away()
    assert section.new_key_card.isHidden()
    assert data.MADE_KEY.key not in section.new_key_field.accessibleName()


def limited_key(section: KeysSection, api: DemoApi, shell: Shell, place: int = 2) -> KeyRow:
    api.replies["GET /keys"] = data.LIMITED_KEYS
    shell.connected.emit()
    api.flush()
    row = section._list.rows[data.LIMITED_KEYS[place].id]
    assert isinstance(row, KeyRow)
    return row


def test_limits_are_shown_with_what_is_used_of_them(section: KeysSection, api: DemoApi, shell: Shell) -> None:
    free, intern, nightly = (limited_key(section, api, shell, place) for place in (0, 2, 3))
    shown_meters = {name.value: meter.accessibleName() for name, meter in intern.meters.items() if not meter.isHidden()}
    assert shown_meters == {
        "requests_per_minute": "Requests a minute: 17 of 20",
        "tokens_per_day": "Tokens in 24 hours: 61,204 of 200,000",
    }
    assert intern.usage.text() == "only qwen*, gpt-oss-20b · 9,120 tokens this minute"
    assert intern.held_back.isHidden()
    assert nightly.held_back.text() == (
        "Held back: its tokens of these 24 hours are used up. Free again in 2 h 15 min. "
        "38 requests were refused in the last hour."
    )
    assert nightly.usage.isHidden()
    minute = "2 requests this minute · 6,281 tokens this minute"
    assert free.usage.text() == f"1 running · {minute} · 148,310 tokens in 24 hours"


@pytest.mark.parametrize(
    ("usage", "text"),
    [
        ({"limit_reached": LimitName.CONCURRENT_REQUESTS}, "Held back: it has as many requests answered at once as it"),
        ({"limit_reached": LimitName.REQUESTS_PER_MINUTE, "wait_s": 34.0}, "Free again in 34 s."),
        ({"refused_last_hour": 1}, "1 request was refused in the last hour."),
        ({}, ""),
    ],
)
def test_that_a_key_is_held_back_is_said(usage: dict[str, Any], text: str) -> None:
    key = data.LIMITED_KEYS[2]
    assert key.usage is not None
    sentence = hold_text(msgspec.structs.replace(key, usage=msgspec.structs.replace(key.usage, **usage)))
    assert text in sentence
    assert bool(sentence) == bool(text)


def test_limits_are_changed_together_with_the_name_and_back(
    section: KeysSection, api: DemoApi, shell: Shell, qtbot: QtBot
) -> None:
    row, before = limited_key(section, api, shell), data.LIMITED_KEYS[2]
    limits = KeyLimits(requests_per_minute=5, tokens_per_minute=40_000, models=["qwen*"])
    renamed_key = msgspec.structs.replace(before, name="student")
    api.replies["POST /keys/intern/rename"] = renamed_key
    api.replies["POST /keys/student/limits"] = msgspec.structs.replace(renamed_key, limits=limits)
    row.edit_button.click()
    fields = row.form.fields
    assert {name: field.text() for name, field in fields.items()} == {
        "name": "intern",
        "requests_per_minute": "20",
        "tokens_per_minute": "",
        "tokens_per_day": "200,000",
        "concurrent_requests": "",
        "models": "qwen*, gpt-oss-20b",
    }
    typed_fields = {"name": " student ", "requests_per_minute": "5", "tokens_per_minute": "40k", "tokens_per_day": " "}
    for name, text in {**typed_fields, "models": "qwen*,, qwen* ,"}.items():
        fields[name].setText(text)
    with qtbot.waitSignal(section.model.keys_changed), qtbot.waitSignal(section.model.toast_requested) as toast:
        row.form.save_button.click()
        assert not row.form.isHidden()
        api.flush()
    assert row.form.isHidden()
    assert api.bodies_of("POST", "/keys/intern/rename") == [KeyRename(name="student")]
    assert api.bodies_of("POST", "/keys/student/limits") == [limits]
    sentence, undo = toast.args
    assert sentence == "The key student was changed."
    api.replies["POST /keys/student/rename"] = msgspec.structs.replace(renamed_key, name="intern", limits=limits)
    api.replies["POST /keys/intern/limits"] = before
    undo()
    api.flush()
    assert api.bodies_of("POST", "/keys/student/rename") == [KeyRename(name="intern")]
    assert api.bodies_of("POST", "/keys/intern/limits") == [before.limits]


def test_nothing_is_sent_where_nothing_changed(section: KeysSection, api: DemoApi, shell: Shell) -> None:
    row = limited_key(section, api, shell)
    row.edit_button.click()
    row.form.save_button.click()
    assert row.form.isHidden()
    assert [path for method, path, _ in api.calls if method == "POST"] == []


@pytest.fixture
def intern(section: KeysSection, api: DemoApi, shell: Shell) -> KeyRow:
    return limited_key(section, api, shell)


@pytest.mark.slow(cases=2)
@pytest.mark.parametrize(
    ("field", "text", "sentence"),
    [
        ("requests_per_minute", "0", "is not a number from 1 to 1,000,000,000,000"),
        ("tokens_per_minute", "-5", "“-5” is not a number"),
        ("tokens_per_day", "1.5", "is not a number"),
        ("tokens_per_day", "2,00", "is not a number"),
        ("tokens_per_day", "9999999999999M", "is not a number"),
        ("concurrent_requests", "many", "Leave the field empty for no limit."),
        ("models", "m, " * 30 + ", ".join(f"m{number}" for number in range(65)), "At most 64 models"),
        ("models", "x" * 201, "up to 200 characters"),
        ("name", "a/b", "without slashes"),
        ("name", "", "A name has 1 to 64 characters"),
    ],
)
def test_what_is_no_limit_is_said_and_kept_for_mending(
    intern: KeyRow, api: DemoApi, field: str, text: str, sentence: str
) -> None:
    row = intern
    row.edit_button.click()
    row.form.fields[field].setText(text)
    row.form.save_button.click()
    assert sentence in row.form.problem.text()
    assert not row.form.problem.isHidden()
    assert row.form.fields[field].property("wrong")
    row._model.changed.emit()  # what is used goes on being shown
    assert row.form.fields[field].text() == text
    assert [path for method, path, _ in api.calls if method == "POST"] == []
    row.edit_button.click()
    assert row.form.isHidden()
    row.edit_button.click()
    assert row.form.problem.isHidden()
    assert row.form.fields[field].text() != text


NAMES = ["qwen3-8b", "gpt-oss-20b", "Qwen3-Coder", "guide"]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("", ["gpt-oss-20b", "guide", "qwen3-8b", "Qwen3-Coder"]),
        ("QW", ["qwen3-8b", "Qwen3-Coder"]),
        ("code", ["Qwen3-Coder"]),
        ("qwen3-8b, ", ["gpt-oss-20b", "guide", "Qwen3-Coder"]),
        ("qwen3-8b,g", ["gpt-oss-20b", "guide"]),
        ("guide", []),
        ("qwen*", []),
    ],
)
def test_a_list_of_models_is_continued_by_those_that_are_here(text: str, names: list[str]) -> None:
    assert continue_names(text, NAMES) == names


def test_a_name_takes_the_place_of_what_was_begun() -> None:
    assert put_name("", "guide") == "guide"
    assert put_name("qwen*, gu", "guide") == "qwen*, guide"
    assert put_name("qwen*,, ", "guide") == "qwen*, guide"


def test_the_form_offers_the_library_s_names_and_keeps_what_is_typed(
    intern: KeyRow, api: DemoApi, qtbot: QtBot
) -> None:
    intern.edit_button.click()
    models, field = intern.form.models, intern.form.fields["models"]
    name = intern._model.model_names[0]
    field.setText(f"qwen*, {name[:3]}")
    QTest.keyClick(field, Qt.Key.Key_Down)
    menu = models.findChild(Menu)
    assert menu is not None
    entry = next(action for action in menu.actions() if action.text() == name)
    entry.trigger()
    menu.close()
    assert field.text() == f"qwen*, {name}"
    field.setText("no model begins like this")
    qtbot.waitUntil(lambda: models.findChild(Menu) is None)
    QTest.keyClick(field, Qt.Key.Key_Down)
    assert models.findChild(Menu) is None


def test_a_refused_change_leaves_the_form_open(section: KeysSection, api: DemoApi, shell: Shell, qtbot: QtBot) -> None:
    row = limited_key(section, api, shell)
    api.replies["POST /keys/intern/rename"] = REFUSED
    row.edit_button.click()
    row.form.fields["name"].setText("laptop")
    with qtbot.waitSignal(section.model.failed):
        row.form.save_button.click()
        api.flush()
    assert not row.form.isHidden()
    QTest.keyClick(row.form.fields["name"], Qt.Key.Key_Escape)
    assert row.form.isHidden()


def test_a_key_that_may_manage_can_only_be_renamed(section: KeysSection, api: DemoApi, shell: Shell) -> None:
    row = limited_key(section, api, shell, 1)
    row.edit_button.click()
    assert [name for name, field in row.form.fields.items() if field.isEnabled()] == ["name"]


def test_what_is_used_is_read_while_it_can_be_seen(section: KeysSection, api: DemoApi) -> None:
    model = section.model
    assert model._looks.isActive()
    api.calls.clear()
    model._looks.timeout.emit()
    api.flush()
    assert [path for _, path, _ in api.calls] == ["/keys"]
    section.hide()
    assert not model._looks.isActive()


def test_what_keys_were_used_for_by_day(theme: Theme, qtbot: QtBot) -> None:
    usage = KeyUsageList(theme)
    qtbot.addWidget(usage)
    today = date(2026, 11, 26)
    common: dict[str, Any] = {"failed": 0, "prompt_tokens": 100, "cached_tokens": 0, "completion_tokens": 11}
    rows = [
        KeyDay(day="2026-11-26", key="ci", key_id="k1", requests=2, held_back=0, **common),
        KeyDay(day="2026-11-26", key="", key_id="", requests=1, held_back=0, **common),
        KeyDay(day="2026-11-24", key="ci", key_id="k1", requests=5, held_back=3, **common),
        KeyDay(day="2026-10-28", key="old", key_id="k2", requests=1, held_back=0, is_revoked=True, **common),
    ]
    usage.show_days(rows, today)
    assert not usage.isHidden()
    shown_rows = {row.accessibleName(): row for row in usage.rows.rows.values() if isinstance(row, KeyUsageRow)}
    assert list(shown_rows) == ["ci", "without a key", "old (revoked)"]
    assert (
        shown_rows["ci"].accessibleDescription()
        == "7 requests · 222 tokens · 3 held back; today 2 requests · 111 tokens"
    )
    assert shown_rows["old (revoked)"].accessibleDescription() == "1 request · 111 tokens; nothing today"
    bars = shown_rows["ci"].bars
    assert bars.accessibleDescription() == "2026-11-24: 5 requests · 111 tokens; 2026-11-26: 2 requests · 111 tokens"
    bars.resize(bars.sizeHint())
    last, beyond = bars._day_at(bars.width() - 1), bars._day_at(bars.width())
    assert last is not None
    assert (last.day, beyond) == ("2026-11-26", None)
    many = [msgspec.structs.replace(rows[0], key_id=f"k{number}") for number in range(MOST_SHOWN + 3)]
    *_, others = key_totals(many, today).values()
    assert (others.name, others.requests, others.days[-1]) == ("3 other keys", 6, DayTotal("2026-11-26", 333, 6))
    usage.show_days([rows[1]], today)  # without any key, clients say it all
    assert usage.isHidden()


def test_a_key_is_told_in_one_line() -> None:
    laptop, server = data.KEYS
    assert key_facts(laptop).startswith("may use models · last used 20")
    assert key_facts(server).startswith("may manage Roundhouse · never used · until 2")
    assert key_facts(msgspec.structs.replace(server, expires_at=1.0)).endswith("expired")
