"""The command line without a gateway: every command can be reached, and failures are sentences."""

import json
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from app.cli import chat, keys, main, output, service
from app.core.errors import EngineFailed, NotFound
from app.core.keys import KeyInfo, Scope


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ROUNDHOUSE_HOME", str(tmp_path))
    return tmp_path


def test_help_names_every_command_with_its_line() -> None:
    text = CliRunner().invoke(main.roundhouse, ["--help"]).output
    for name, (_, line) in main.COMMANDS.items():
        assert name in text
        assert line.split(maxsplit=1)[0] in text


@pytest.mark.parametrize("name", main.COMMANDS)
def test_every_command_explains_itself_in_the_words_of_the_list(name: str) -> None:
    result = CliRunner().invoke(main.roundhouse, [name, "--help"])
    assert result.exit_code == 0
    output_text = " ".join(result.output.split())
    assert output_text.startswith(f"Usage: roundhouse {name}")
    assert "--json" in output_text or name in {"serve", "completion"}


def test_an_unknown_command_is_a_usage_error() -> None:
    result = CliRunner().invoke(main.roundhouse, ["frobnicate"])
    assert result.exit_code == 2
    assert "frobnicate" in result.output


@pytest.mark.parametrize("name", ["status", "ps", "logs"])
def test_without_a_gateway_the_sentence_says_how_to_start_one(name: str) -> None:
    result = CliRunner().invoke(main.roundhouse, [name])
    assert result.exit_code == 1
    assert "not running" in result.stderr
    assert "roundhouse up" in result.stderr
    assert not result.stdout


@pytest.mark.parametrize(
    "arguments",
    [["plan", "--intent", "fun"], ["estimate"], ["estimate", "guide", "--kv", "q5"], ["frobnicate"], ["plan", "--no"]],
    ids=" ".join,
)
def test_with_json_a_mistake_in_the_options_is_an_object_too(arguments: list[str]) -> None:
    result = CliRunner().invoke(main.roundhouse, [*arguments, "--json"])
    error = json.loads(result.stdout)["error"]
    assert (result.exit_code, error["code"]) == (2, "usage")
    assert error["sentence"] in result.stderr
    assert not CliRunner().invoke(main.roundhouse, arguments).stdout


def test_with_json_an_error_is_an_object_too() -> None:
    result = CliRunner().invoke(main.roundhouse, ["status", "--json"])
    body = json.loads(result.stdout)
    assert (body["version"], body["error"]["code"]) == (1, "gateway_gone")


def test_down_without_a_gateway_is_no_failure() -> None:
    result = CliRunner().invoke(main.roundhouse, ["down", "--json"])
    assert result.exit_code == 0
    assert json.loads(result.stdout) == {"version": 1, "stopped": False}


@pytest.mark.parametrize(("error", "code"), [(NotFound("No."), 2), (EngineFailed("It died."), 1)])
def test_exit_codes_tell_whose_fault_it_was(error: Exception, code: int) -> None:
    @click.command()
    @output.json_option
    def fails(*, as_json: bool) -> None:
        raise error

    assert CliRunner().invoke(fails).exit_code == code


def test_ctrl_c_ends_as_shells_expect() -> None:
    @click.command()
    @output.json_option
    def waits(*, as_json: bool) -> None:
        raise KeyboardInterrupt

    result = CliRunner().invoke(waits)
    assert (result.exit_code, "Aborted" in result.output) == (130, False)


def test_reset_with_a_value_is_refused_before_anything_starts(home: Path) -> None:
    result = CliRunner().invoke(main.roundhouse, ["settings", "gateway.port", "1", "--reset"])
    assert result.exit_code == 2
    assert not any(home.iterdir())


def test_following_a_log_as_json_is_refused_rather_than_ignored() -> None:
    result = CliRunner().invoke(main.roundhouse, ["logs", "-f", "--json"])
    assert (result.exit_code, json.loads(result.stdout)["error"]["code"]) == (2, "bad_request")


def test_serve_refuses_an_address_it_would_not_use(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "exec_module", lambda *_args, **_kwargs: pytest.fail("it served"))
    result = CliRunner().invoke(main.roundhouse, ["serve", "--host", "models.example.org"])
    assert (result.exit_code, "numeric address" in result.output) == (2, True)


def test_a_table_is_aligned() -> None:
    lines = [click.unstyle(line) for line in output.format_table(("A", "LONG"), [("wide cell", "x"), ("y", "z")])]
    assert lines == ["A          LONG", "wide cell  x", "y          z"]


def test_in_a_terminal_a_table_wraps_its_last_column(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    rows = [("llama.cpp", "It runs on any processor and nearly any GPU there is.")]
    lines = [click.unstyle(line) for line in output.format_table(("ENGINE", "WHY"), rows)]
    assert lines[1] == "llama.cpp  It runs on any processor and"
    assert lines[2] == "           nearly any GPU there is."
    assert max(map(len, lines)) <= 40


@pytest.mark.parametrize(("stdin", "sentence"), [(b"\xff\xfe Hi", "byte 1 cannot be read"), (b" \n", "nothing to ask")])
def test_what_cannot_be_asked_is_said_before_anything_starts(
    monkeypatch: pytest.MonkeyPatch, stdin: bytes, sentence: str
) -> None:
    monkeypatch.setattr(chat, "connect_gateway", lambda: pytest.fail("the service was started"))
    result = CliRunner().invoke(main.roundhouse, ["run", "guide"], input=stdin)
    assert result.exit_code == 2
    assert sentence in result.stderr


@pytest.mark.parametrize(("value", "is_coloured"), [("", True), ("1", False)])
def test_no_color_is_heeded(value: str, is_coloured: bool) -> None:  # noqa: FBT001 -- a case
    result = CliRunner(env={"NO_COLOR": value}).invoke(main.roundhouse, ["status"], color=True)
    assert ("\x1b[" in result.stderr) is is_coloured


def test_a_key_that_never_ends_is_not_called_revoked() -> None:
    key = KeyInfo(name="test", scopes=[Scope.INFERENCE], created_at=0.0)
    assert "no end" in "".join(keys._list_lines([key]))


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_is_installed_where_the_shell_looks(shell: str, tmp_path: Path) -> None:
    result = CliRunner(env={"HOME": str(tmp_path)}).invoke(main.roundhouse, ["completion", shell])
    assert result.exit_code == 0, result.output
    (file,) = (path for path in tmp_path.rglob("*roundhouse*") if path.is_file())
    assert "_ROUNDHOUSE_COMPLETE" in file.read_text("utf-8")
    assert str(file) in result.stderr


def test_completion_offers_commands() -> None:
    environment = {"_ROUNDHOUSE_COMPLETE": "bash_complete", "COMP_WORDS": "roundhouse unl", "COMP_CWORD": "1"}
    result = CliRunner(env=environment).invoke(main.roundhouse, [], prog_name="roundhouse")
    assert "plain,unload" in result.output
