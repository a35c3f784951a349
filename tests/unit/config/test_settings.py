"""The settings table: precedence, validation, and a file that is never lost."""

from pathlib import Path

import pytest

from app.config.setting import SettingKind
from app.config.store import SettingsStore, parse_setting, validate_setting
from app.config.table import BY_NAME, SETTINGS
from app.core.api import SettingValue
from app.core.errors import BadRequest, Conflict, NotFound, StorageFault


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "config" / "settings.toml"


def test_every_default_is_allowed_by_its_own_row() -> None:
    for row in SETTINGS:
        assert validate_setting(row, row.default) == row.default
        assert row.help.endswith(".")
        assert row.title


def test_names_and_variables_are_unique() -> None:
    assert len({row.name for row in SETTINGS}) == len(SETTINGS) == len({row.variable for row in SETTINGS})


def test_environment_beats_file_beats_default(file: Path) -> None:
    assert SettingsStore(file, {}).get("gateway.port") == 11434
    SettingsStore(file, {}).change_values({"gateway.port": 9000})
    assert SettingsStore(file, {}).get("gateway.port") == 9000
    settings = SettingsStore(file, {"ROUNDHOUSE_GATEWAY_PORT": "9001"})
    assert settings.get("gateway.port") == 9001
    assert [settings.is_chosen(name) for name in ("gateway.port", "gateway.host")] == [True, False]
    sources = {row.name: row.source for row in settings.describe_all()}
    assert (sources["gateway.port"], sources["gateway.host"]) == ("environment", "default")


def test_what_the_environment_sets_cannot_be_changed_here(file: Path) -> None:
    settings = SettingsStore(file, {"ROUNDHOUSE_GATEWAY_PORT": "9001"})
    with pytest.raises(Conflict, match="ROUNDHOUSE_GATEWAY_PORT"):
        settings.change_values({"gateway.port": 9002})
    assert not file.exists()


def test_a_change_keeps_comments_and_unknown_lines(file: Path) -> None:
    file.parent.mkdir()
    file.write_text('# mine\n[gateway]\nport = 9000 # because\n[other]\nkey = "kept"\n')
    settings = SettingsStore(file, {})
    assert settings.change_values({"window.theme": "dark"}) == ["window.theme"]
    text = file.read_text()
    assert "# mine" in text
    assert "# because" in text
    assert 'key = "kept"' in text
    assert SettingsStore(file, {}).get("window.theme") == "dark"


def test_none_resets_to_the_default(file: Path) -> None:
    settings = SettingsStore(file, {})
    settings.change_values({"gateway.port": 9000})
    assert settings.change_values({"gateway.port": None}) == ["gateway.port"]
    assert SettingsStore(file, {}).get("gateway.port") == 11434


def test_one_bad_value_changes_nothing(file: Path) -> None:
    settings = SettingsStore(file, {})
    with pytest.raises(BadRequest):
        settings.change_values({"window.theme": "dark", "gateway.port": 70000})
    assert settings.get("window.theme") == "system"
    assert not file.exists()


def test_unknown_name_is_said(file: Path) -> None:
    with pytest.raises(NotFound, match=r"gateway\.prot"):
        SettingsStore(file, {}).change_values({"gateway.prot": 1})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("gateway.port", "11434"),
        ("gateway.port", True),
        ("gateway.port", 0),
        ("gateway.port", 1.5),
        ("gateway.host", "models.example.org"),
        ("gateway.host", "192.168.1.400"),
        ("gateway.host", ""),
        ("gateway.allowed_origins", ["*"]),
        ("gateway.allowed_origins", ["https://*.example.org"]),
        ("gateway.allowed_origins", ["null"]),
        ("gateway.allowed_hosts", ["models.example.org:80"]),
        ("gateway.allowed_hosts", ["*"]),
        ("window.theme", "sepia"),
        ("window.reduce_motion", 1),
        ("models.folders", "one"),
        ("models.folders", [1]),
    ],
)
def test_wrong_values_are_refused_in_a_sentence(name: str, value: SettingValue) -> None:
    with pytest.raises(BadRequest) as error:
        validate_setting(BY_NAME[name], value)
    assert str(error.value).endswith((".", "'", ")"))


@pytest.mark.parametrize("text", ["[gateway\nport=1", "gateway = 3", "\x00\xff", "[gateway]\nport = 'x'\nhost = '::1'"])
def test_a_broken_file_is_reported_and_left_alone(file: Path, text: str) -> None:
    file.parent.mkdir()
    file.write_bytes(text.encode("latin-1"))
    settings = SettingsStore(file, {})
    assert settings.get("gateway.port") == 11434
    assert file.read_bytes() == text.encode("latin-1")
    assert settings.problems or "gateway = 3" in text


@pytest.mark.parametrize("content", [b"[gateway]\nhost = '\xff'\n", b"gateway = 3\n", b"[[gateway]]\nport = 1\n"])
def test_a_change_that_a_broken_file_does_not_take_is_said_and_breaks_nothing_more(file: Path, content: bytes) -> None:
    file.parent.mkdir()
    file.write_bytes(content)
    with pytest.raises(StorageFault, match="could not be saved"):
        SettingsStore(file, {}).change_values({"gateway.port": 9000})
    assert file.read_bytes() == content


def test_unwritable_folder_is_a_storage_fault(tmp_path: Path) -> None:
    blocked_path = tmp_path / "file"
    blocked_path.write_text("")
    with pytest.raises(StorageFault, match="could not be saved"):
        SettingsStore(blocked_path / "settings.toml", {}).change_values({"gateway.port": 9000})


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("window.reduce_motion", "Yes", True),
        ("window.reduce_motion", "off", False),
        ("window.reduce_motion", "maybe", "maybe"),
        ("gateway.port", "123", 123),
        ("gateway.port", "abc", "abc"),
        ("gateway.host", "::1", "::1"),
        ("gateway.host", "0.0.0.0", "0.0.0.0"),  # noqa: S104 -- allowed once there is a key, which the gateway looks at
    ],
)
def test_typed_text_becomes_the_rows_type(name: str, text: str, value: object) -> None:
    assert parse_setting(BY_NAME[name], text) == value


def test_folders_are_listed_as_in_path_and_web_addresses_with_commas() -> None:
    import os  # noqa: PLC0415 -- for its separator only

    folders = [os.sep + "a", os.sep + "b c"]
    assert parse_setting(BY_NAME["models.folders"], os.pathsep.join(folders)) == folders
    origins = ["https://a.example", "http://b.example:8080"]
    assert parse_setting(BY_NAME["gateway.allowed_origins"], ", ".join(origins)) == origins


def test_every_list_says_how_it_is_written() -> None:
    assert all(row.separator for row in SETTINGS if row.kind is SettingKind.LIST)


def test_a_folder_that_depends_on_where_one_stands_is_refused() -> None:
    with pytest.raises(BadRequest, match="full path"):
        validate_setting(BY_NAME["models.folders"], ["models"])
    assert validate_setting(BY_NAME["models.folders"], ["~/models", str(Path.cwd())])
