"""Every tool on every system: found, previewed, wired, wired again, and put back byte for byte."""

import json
import stat
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import tomlkit
from ruamel.yaml import YAML

from app.config.paths import Home, this_home
from app.connect.connections import TOOLS, ToolConnections, find_tool
from app.connect.document_paths import UnreadableSettings
from app.connect.tool import COMPLETION_ROUTES, ClientTool, CompletionModel, ToolRoute
from app.core.capabilities import InfillStyle
from app.core.errors import Conflict, NotFound
from tests.unit.connect.homes import (
    BASE,
    COMPLETING,
    COMPLETION,
    EXAMPLES,
    ONLY_COMPLETING,
    OTHER,
    WIRING,
    home_on,
)

SYSTEMS = ("linux", "macos", "windows")
WITH_FILE = [tool for tool in TOOLS if tool.file is not None]
BY_HAND = [tool for tool in TOOLS if tool.file is None]
PLACES = {
    ("linux", "zed"): ".config/zed/settings.json",
    ("macos", "zed"): ".config/zed/settings.json",
    ("windows", "zed"): "AppData/Roaming/Zed/settings.json",
    ("linux", "vscode"): ".config/Code/User/chatLanguageModels.json",
    ("macos", "vscode"): "Library/Application Support/Code/User/chatLanguageModels.json",
    ("windows", "vscode"): "AppData/Roaming/Code/User/chatLanguageModels.json",
    ("linux", "llm"): ".config/io.datasette.llm/extra-openai-models.yaml",
    ("macos", "llm"): "Library/Application Support/io.datasette.llm/extra-openai-models.yaml",
    ("windows", "llm"): "AppData/Roaming/io.datasette.llm/extra-openai-models.yaml",
    ("linux", "continue"): ".continue/config.yaml",
    ("windows", "codex"): ".codex/config.toml",
    ("macos", "claude-code"): ".claude/settings.json",
    ("windows", "opencode"): ".config/opencode/opencode.json",
    ("linux", "aider"): ".aider.conf.yml",
}


@pytest.fixture(params=SYSTEMS)
def home(request: pytest.FixtureRequest, tmp_path: Path) -> Home:
    folder = tmp_path / "home"
    folder.mkdir()
    return home_on(request.param, folder)


@pytest.fixture
def connections(home: Home, tmp_path: Path) -> ToolConnections:
    return ToolConnections(home, tmp_path / "kept")


def file_of(name: str, home: Home) -> Path:
    file = find_tool(name).file
    assert file is not None
    return file(home)


def with_example(name: str, home: Home, text: str | None = None) -> Path:
    file = file_of(name, home)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes((EXAMPLES[name] if text is None else text).encode())
    return file


def everything_below(folder: Path) -> dict[str, bytes | None]:
    return {str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}


@pytest.mark.parametrize(("where", "place"), PLACES.items(), ids=str)
def test_each_system_keeps_settings_in_its_own_place(where: tuple[str, str], place: str, tmp_path: Path) -> None:
    system, name = where
    assert file_of(name, home_on(system, tmp_path)) == tmp_path / place


@pytest.mark.parametrize("name", EXAMPLES)
def test_wiring_keeps_every_line_and_undo_every_byte(name: str, home: Home, connections: ToolConnections) -> None:
    file = with_example(name, home)
    before = everything_below(home.folder)
    preview = connections.preview(name, WIRING)
    assert everything_below(home.folder) == before
    change = connections.connect(name, WIRING)
    assert change.is_written
    assert change.diff == preview.diff
    wired_text = file.read_text()
    # A value may be another one; whatever else was written, comments above all, is still there and in order.
    replaced_lines = {
        line[1:] for line in change.diff.splitlines() if line.startswith("-") and not line.startswith("---")
    }
    kept_lines = [line for line in EXAMPLES[name].splitlines() if line not in replaced_lines]
    rest = iter(wired_text.splitlines())
    assert all(line in rest for line in kept_lines)
    assert len(replaced_lines) <= 3
    for comment in (part for line in EXAMPLES[name].splitlines() for part in line.partition("# ")[1:] if part != "# "):
        assert comment in wired_text
    assert {path for path, data in everything_below(home.folder).items() if before.get(path) != data} == {
        str(file.relative_to(home.folder))
    }
    connections.undo(name)
    assert everything_below(home.folder) == before


@pytest.mark.slow(cases=9)
@pytest.mark.parametrize("name", EXAMPLES)
def test_twice_changes_nothing_and_another_model_leaves_none_of_the_first(
    name: str, home: Home, connections: ToolConnections
) -> None:
    file = with_example(name, home)
    connections.connect(name, WIRING)
    wired_bytes = file.read_bytes()
    again = connections.connect(name, WIRING)
    assert (again.is_written, again.diff) == (False, "")
    assert file.read_bytes() == wired_bytes
    connections.connect(name, OTHER)
    assert b"qwen3" not in file.read_bytes()
    assert b"guide" in file.read_bytes()
    connections.undo(name)
    assert file.read_text() == EXAMPLES[name]


@pytest.mark.slow(cases=14)
@pytest.mark.parametrize("name", EXAMPLES)
def test_a_tool_that_is_not_there_is_previewed_and_can_be_wired(
    name: str, home: Home, connections: ToolConnections
) -> None:
    assert not any(info.found for info in connections.list_tools(BASE))
    preview = connections.preview(name, WIRING)
    assert preview.diff
    assert everything_below(home.folder) == {}
    connections.connect(name, WIRING)
    assert file_of(name, home).is_file()
    connections.undo(name)
    assert everything_below(home.folder) == {}


@pytest.mark.slow(cases=19)
@pytest.mark.parametrize("name", EXAMPLES)
@pytest.mark.parametrize("ends", ["\r\n", "\n no new line"])
def test_line_ends_are_kept(name: str, ends: str, home: Home, connections: ToolConnections) -> None:
    text = EXAMPLES[name].replace("\n", "\r\n") if ends == "\r\n" else EXAMPLES[name].rstrip("\n")
    file = with_example(name, home, text)
    connections.connect(name, WIRING)
    wired_text = file.read_bytes().decode()
    assert wired_text.count("\r\n") == (wired_text.count("\n") if ends == "\r\n" else 0)
    connections.undo(name)
    assert file.read_bytes().decode() == text


@pytest.mark.slow(cases=60)
@pytest.mark.parametrize("name", EXAMPLES)
@pytest.mark.parametrize("text", ["{", "[1, 2", "\x00", "a: [b", "= 3", "- - : :\n  x\n y: [", "7", '"text"'])
def test_what_cannot_be_read_is_left_alone(name: str, text: str, home: Home, connections: ToolConnections) -> None:
    file = with_example(name, home, text)
    with pytest.raises(UnreadableSettings, match="left unchanged"):
        connections.connect(name, WIRING)
    assert file.read_text() == text
    with pytest.raises(Conflict):
        connections.undo(name)


def test_what_is_in_the_way_is_left_alone(home: Home, connections: ToolConnections) -> None:
    for name, text in (
        ("claude-code", '{"env": ["A=1"]}'),
        ("zed", '{"agent": "none"}'),
        ("continue", "models:\n  a: 1\n"),
        ("llm", "model_id: a\n"),
        ("codex", "model_providers = 3\n"),
        ("vscode", "{}"),
        ("mistral-vibe", "providers = 3\n"),
        ("gemini-cli", "GEMINI_MODEL='begins\nand ends'\n"),
    ):
        file = with_example(name, home, text)
        with pytest.raises(UnreadableSettings):
            connections.connect(name, WIRING)
        assert file.read_text() == text


@pytest.mark.slow(cases=20)
@pytest.mark.parametrize("tool", WITH_FILE, ids=lambda tool: tool.id)
def test_undo_refuses_when_the_file_was_changed_since(tool: object, home: Home, connections: ToolConnections) -> None:
    name = getattr(tool, "id", "")
    file = with_example(name, home)
    connections.connect(name, WIRING)
    file.write_bytes(file.read_bytes() + b"\n# mine\n")
    with pytest.raises(Conflict, match="changed since") as error:
        connections.undo(name)
    assert "+# mine" in error.value.body.detail
    assert file.read_bytes().endswith(b"# mine\n")


def test_undo_after_somebody_put_it_back_forgets(home: Home, connections: ToolConnections) -> None:
    file = with_example("aider", home)
    connections.connect("aider", WIRING)
    file.write_text(EXAMPLES["aider"])
    assert not connections.undo("aider").is_written
    with pytest.raises(Conflict, match="not connected"):
        connections.undo("aider")


def test_a_change_of_ones_own_is_where_the_next_undo_leads(home: Home, connections: ToolConnections) -> None:
    file = with_example("aider", home)
    connections.connect("aider", WIRING)
    file.write_text(file.read_text() + "vim: true\n")
    mine = file.read_text()
    connections.connect("aider", OTHER)
    connections.undo("aider")
    assert file.read_text() == mine


def test_a_tool_is_named_by_what_only_it_begins_with() -> None:
    assert [find_tool(name).id for name in ("roo", "Open W", "CLAUDE", "llm")] == [
        "roo-code",
        "open-webui",
        "claude-code",
        "llm",
    ]
    for name in ("open", "c", "", "oo"):
        with pytest.raises(NotFound, match="No tool is called"):
            find_tool(name)


def test_the_model_a_tool_is_wired_to_is_known_until_its_file_changes(home: Home, connections: ToolConnections) -> None:
    assert (connections.current_model("codex"), connections.current_model("roo-code")) == ("", "")
    connections.connect("codex", WIRING)
    assert connections.current_model("codex") == WIRING.model
    file = find_tool("codex").file
    assert file is not None
    file(home).write_text("model = 'other'\n")
    assert connections.current_model("codex") == ""


def test_a_model_is_not_known_once_the_copy_of_what_was_written_is_gone(
    home: Home, connections: ToolConnections, tmp_path: Path
) -> None:
    with_example("codex", home)
    connections.connect("codex", WIRING)
    for copy in (tmp_path / "kept").glob("codex-*.kept"):
        copy.unlink()
    assert connections.current_model("codex") == ""


def test_a_change_that_cannot_be_written_leaves_the_one_before(
    home: Home, connections: ToolConnections, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise Conflict("The file is in use.")

    with_example("codex", home)
    connections.connect("codex", WIRING)
    with monkeypatch.context() as patch:
        patch.setattr("app.connect.connections.write_file", refuse)
        for name in ("codex", "aider"):
            with pytest.raises(Conflict, match="in use"):
                connections.connect(name, OTHER)
    assert connections.current_model("codex") == WIRING.model
    with pytest.raises(Conflict, match="not connected"):
        connections.undo("aider")
    connections.undo("codex")
    assert file_of("codex", home).read_text() == EXAMPLES["codex"]


def test_the_list_says_what_is_found_and_wired(home: Home, connections: ToolConnections) -> None:
    with_example("codex", home)
    with_example("zed", home)
    connections.connect("codex", WIRING)
    tools = connections.list_tools(BASE)
    infos = {info.id: info for info in tools}
    assert [info.id for info in tools if info.found] == ["zed", "codex"]
    assert (infos["codex"].wired, infos["codex"].model, infos["codex"].can_undo) == (True, "qwen3-8b-q4_k_m", True)
    assert (infos["zed"].wired, infos["zed"].model, infos["zed"].can_undo) == (False, "", False)
    connections.undo("codex")
    assert not any(info.wired or info.can_undo for info in connections.list_tools(BASE))


def test_tools_that_are_found_come_first(home: Home, connections: ToolConnections) -> None:
    with_example("zed", home)
    assert [info.found for info in connections.list_tools(BASE)] == [True] + [False] * (len(TOOLS) - 1)


@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.id)
def test_the_trial_of_a_tool_asks_for_one_token_as_its_route_takes_it(tool: ClientTool) -> None:
    body = tool.request_body("guide")
    if tool.route is ToolRoute.GOOGLE:
        assert body["generationConfig"] == {"maxOutputTokens": 1}
        assert tool.request_path("a/b") == "/v1beta/models/a%2Fb:generateContent"
        return
    assert tool.request_path("guide") == tool.route
    assert body["model"] == "guide"
    if tool.route in COMPLETION_ROUTES:
        options = body.get("options", body)
        assert isinstance(options, dict)
        assert 1 in {options.get(name) for name in ("max_tokens", "n_predict", "num_predict")}
        assert {"suffix", "input_suffix"} & body.keys()
        return
    assert body["stream"] is False
    if tool.route is ToolRoute.RESPONSES:
        assert (body["input"], body["max_output_tokens"], body["store"]) == ("Hi", 1, False)
        assert "messages" not in body
    elif tool.route is ToolRoute.OLLAMA:
        assert body["options"] == {"num_predict": 1}
    else:
        assert (body["messages"], body["max_tokens"]) == ([{"role": "user", "content": "Hi"}], 1)


def test_zed_is_told_that_a_model_calls_tools_and_sees_no_pictures(home: Home, connections: ToolConnections) -> None:
    connections.connect("zed", WIRING)
    text = file_of("zed", home).read_text()
    abilities = json.loads(text)["language_models"]["openai_compatible"]["Roundhouse"]["available_models"][0][
        "capabilities"
    ]
    assert [name for name, has in abilities.items() if has] == ["tools"]


@pytest.mark.slow(cases=1)
def test_tools_that_complete_code_are_told_the_model_for_it(home: Home, connections: ToolConnections) -> None:
    for name in ("continue", "zed", "vscode"):
        with_example(name, home)
        connections.connect(name, COMPLETING)
    models = YAML(typ="safe").load(file_of("continue", home))["models"]
    completion_model = next(model for model in models if model.get("roles") == ["autocomplete"])
    assert (completion_model["provider"], completion_model["model"], completion_model["apiBase"]) == (
        "ollama",
        COMPLETION.name,
        BASE,
    )
    assert completion_model["defaultCompletionOptions"] == {"contextLength": 8192}
    zed = file_of("zed", home).read_text()
    for line in (
        '"provider": "open_ai_compatible_api"',
        f'"api_url": "{BASE}/v1/completions"',
        f'"model": "{COMPLETION.name}"',
        '"prompt_format": "qwen"',
    ):
        assert line in zed
    provider = json.loads(file_of("vscode", home).read_text())[-1]
    urls = {model["id"]: model.get("completionsUrl") for model in provider["models"]}
    assert urls == {"qwen3-8b-q4_k_m": None, "guide": None, COMPLETION.name: f"{BASE}/v1/completions"}
    for name in ("continue", "zed", "vscode"):
        connections.connect(name, WIRING)
        assert COMPLETION.name not in file_of(name, home).read_text()
        connections.undo(name)
        assert file_of(name, home).read_text() == EXAMPLES[name]


def test_a_model_that_chats_and_completes_is_listed_once_in_vs_code(home: Home, connections: ToolConnections) -> None:
    both = replace(WIRING, completion=CompletionModel(WIRING.model, WIRING.context))
    connections.connect("vscode", both)
    models = json.loads(file_of("vscode", home).read_text())[0]["models"]
    assert [(model["id"], "completionsUrl" in model) for model in models] == [(WIRING.model, True), ("guide", False)]


@pytest.mark.parametrize(
    ("style", "prompt_format", "template"),
    [
        (InfillStyle.STARCODER, "star_coder", "starcoder"),
        (InfillStyle.GRANITE, "infer", "automatic"),
        (InfillStyle.CODE_LLAMA, "code_llama", "codellama"),
        (InfillStyle.DEEPSEEK, "deepseek_coder", "deepseek"),
        (InfillStyle.GLM, "glm", "automatic"),
        (None, "infer", "automatic"),
    ],
)
def test_editors_that_write_the_prompt_are_told_whose_marks_it_has(
    style: InfillStyle | None, prompt_format: str, template: str, home: Home, connections: ToolConnections
) -> None:
    completion = CompletionModel("m", 8192, style)
    connections.connect("zed", replace(WIRING, completion=completion))
    assert f'"prompt_format": "{prompt_format}"' in file_of("zed", home).read_text()
    values = connections.preview("twinny", replace(ONLY_COMPLETING, completion=completion)).values
    assert ("FIM template", template) in {(value.name, value.value) for value in values}


def test_what_only_completes_code_is_wired_to_the_model_for_it(home: Home, connections: ToolConnections) -> None:
    for name in ("llama-vscode", "tabby"):
        with_example(name, home)
        connections.connect(name, ONLY_COMPLETING)
    settings = file_of("llama-vscode", home).read_text()
    assert f'"llama-vscode.endpoint": "{BASE}"' in settings
    assert f'"llama-vscode.ai_model": "{COMPLETION.name}"' in settings, "else it names a vendor's"
    tabby = tomlkit.parse(file_of("tabby", home).read_text())["model"]
    assert tabby["completion"]["http"]["model_name"] == COMPLETION.name
    assert tabby["completion"]["http"]["kind"] == "openai/completion", "which sends what is after the gap by itself"
    assert tabby["chat"]["http"]["model_name"] == "other"
    lines = next(
        value.value for value in connections.preview("llama-vim", ONLY_COMPLETING).values if "\n" in value.value
    )
    assert f"'endpoint_fim': '{BASE}/infill'" in lines
    assert f"'model_fim': '{COMPLETION.name}'" in lines


def test_an_unreadable_file_is_a_sentence_in_the_list(home: Home, connections: ToolConnections) -> None:
    with_example("zed", home, "{ oops")
    info = next(info for info in connections.list_tools(BASE) if info.id == "zed")
    assert info.found
    assert "line 1 is not JSON" in info.problem


@pytest.mark.parametrize("tool", BY_HAND, ids=lambda tool: tool.id)
def test_what_no_file_holds_is_done_by_hand(tool: object, home: Home, connections: ToolConnections) -> None:
    name = getattr(tool, "id", "")
    change = connections.connect(name, WIRING)
    assert change.steps
    assert {BASE, f"{BASE}/v1"} & {value.value for value in change.values}
    assert (change.is_written, change.file) == (False, "")
    assert everything_below(home.folder) == {}


def test_extensions_and_programs_are_found(tmp_path: Path) -> None:
    programs = tmp_path / "bin"
    (tmp_path / ".vscode/extensions/rooveterinaryinc.roo-cline-3.30.1").mkdir(parents=True)
    programs.mkdir()
    (programs / "aider.exe").touch()
    (programs / "codex").touch()
    on_linux = this_home({"HOME": str(tmp_path), "PATH": f"/nowhere:{programs}"}, "linux")
    on_windows = Home(
        system="windows", folder=tmp_path, config=tmp_path / "c", support=tmp_path / "s", search=(programs,)
    )
    kept_folder = tmp_path / "kept"
    assert {info.id for info in ToolConnections(on_linux, kept_folder).list_tools(BASE) if info.found} == {
        "roo-code",
        "codex",
    }
    assert {info.id for info in ToolConnections(on_windows, kept_folder).list_tools(BASE) if info.found} >= {
        "roo-code",
        "aider",
    }


def test_a_variable_moves_a_tools_folder(tmp_path: Path) -> None:
    home = this_home({"HOME": "/home/ada", "CODEX_HOME": str(tmp_path), "XDG_CONFIG_HOME": "relative"}, "linux")
    assert file_of("codex", home) == tmp_path / "config.toml"
    assert file_of("zed", home) == Path("/home/ada/.config/zed/settings.json")


def test_an_unknown_tool_is_answered_with_those_there_are(connections: ToolConnections) -> None:
    with pytest.raises(NotFound) as error:
        connections.preview("emacs", WIRING)
    assert "opencode" in error.value.hint
    assert connections.preview("Claude Code", WIRING).id == "claude-code"


def test_continues_older_file_is_not_put_out_of_use(home: Home, connections: ToolConnections) -> None:
    older = home.folder / ".continue" / "config.json"
    older.parent.mkdir()
    older.write_text("{}")
    with pytest.raises(UnreadableSettings, match="older config"):
        connections.connect("continue", WIRING)
    assert [path.name for path in older.parent.iterdir()] == ["config.json"]


def test_opencodes_file_with_comments_is_the_one_that_is_edited(home: Home, connections: ToolConnections) -> None:
    with_comments = home.config / "opencode" / "opencode.jsonc"
    with_comments.parent.mkdir(parents=True)
    with_comments.write_text(EXAMPLES["opencode"])
    assert connections.connect("opencode", WIRING).file == str(with_comments)
    assert not with_comments.with_suffix(".json").exists()


@pytest.mark.slow(cases=2)
def test_what_is_written_says_what_each_tool_reads(home: Home, connections: ToolConnections) -> None:
    for name in EXAMPLES:
        connections.connect(name, WIRING)
    claude = json.loads(file_of("claude-code", home).read_text())["env"]
    assert (claude["ANTHROPIC_BASE_URL"], claude["ANTHROPIC_MODEL"]) == (BASE, "qwen3-8b-q4_k_m")
    codex = tomlkit.parse(file_of("codex", home).read_text())
    assert (codex["model_provider"], codex["model_context_window"]) == ("roundhouse", 40960)
    assert codex["model_providers"]["roundhouse"]["wire_api"] == "responses"
    opencode = json.loads(file_of("opencode", home).read_text())
    assert opencode["model"] == "roundhouse/qwen3-8b-q4_k_m"
    assert opencode["provider"]["roundhouse"]["options"]["baseURL"] == f"{BASE}/v1"
    assert [model["model"] for model in YAML(typ="safe").load(file_of("continue", home))["models"]] == [
        "qwen3-8b-q4_k_m",
        "guide",
    ]
    assert YAML(typ="safe").load(file_of("aider", home))["model"] == "openai/qwen3-8b-q4_k_m"
    provider = json.loads(file_of("vscode", home).read_text())[0]
    assert provider["models"][0]["maxInputTokens"] + provider["models"][0]["maxOutputTokens"] == 40960


@pytest.mark.skipif(sys.platform == "win32", reason="rights and links as POSIX has them")
class TestOnPosix:
    def test_rights_and_links_stay_as_they_are(self, tmp_path: Path) -> None:
        home, dotfiles = home_on("linux", tmp_path / "home"), tmp_path / "dotfiles"
        dotfiles.mkdir()
        (home.folder / ".aider").mkdir(parents=True)
        real = dotfiles / "aider.yml"
        real.write_text(EXAMPLES["aider"])
        real.chmod(0o640)
        link = file_of("aider", home)
        link.symlink_to(real)
        connections = ToolConnections(home, tmp_path / "kept")
        assert connections.connect("aider", WIRING).file == str(real)
        assert link.is_symlink()
        assert stat.S_IMODE(real.stat().st_mode) == 0o640
        connections.undo("aider")
        assert (real.read_text(), link.is_symlink()) == (EXAMPLES["aider"], True)
        assert stat.S_IMODE(real.stat().st_mode) == 0o640

    def test_new_files_and_kept_copies_are_private(self, tmp_path: Path) -> None:
        home, kept_folder = home_on("linux", tmp_path / "home"), tmp_path / "kept"
        home.folder.mkdir()
        ToolConnections(home, kept_folder).connect("codex", WIRING)
        files = [file_of("codex", home), *kept_folder.iterdir()]
        assert len(files) == 3
        assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}
        assert stat.S_IMODE(kept_folder.stat().st_mode) == 0o700

    @pytest.mark.parametrize("kind", ["nowhere", "circle", "folder"])
    def test_what_is_no_plain_file_is_left_alone(self, kind: str, tmp_path: Path) -> None:
        home = home_on("linux", tmp_path)
        file = file_of("aider", home)
        if kind == "folder":
            file.mkdir()
        else:
            file.symlink_to(file if kind == "circle" else tmp_path / "gone")
        with pytest.raises(UnreadableSettings):
            ToolConnections(home, tmp_path / "kept").connect("aider", WIRING)
        assert file.is_dir() if kind == "folder" else file.is_symlink()

    def test_a_folder_that_may_not_be_written_is_said_and_nothing_is_kept(self, tmp_path: Path) -> None:
        blocked_path = tmp_path / "home"
        blocked_path.write_text("a file where a folder should be")
        home = home_on("linux", blocked_path)
        with pytest.raises(UnreadableSettings, match="cannot be read"):
            ToolConnections(home, tmp_path / "kept").connect("codex", WIRING)
        assert not list((tmp_path / "kept").glob("*.json"))
