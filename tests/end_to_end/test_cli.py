"""The command line from start to goodbye, with the real engine and the Guide."""

import json
import sys
from pathlib import Path

import psutil
import pytest

from app.client.discovery import ensure_gateway, find_running_gateway, read_port_file
from app.config.paths import Paths
from tests.end_to_end.conftest import Roundhouse
from tests.patience import wait_until

pytestmark = [pytest.mark.real_engine, pytest.mark.own_gateway]


def test_up_says_where_and_status_agrees(roundhouse: Roundhouse) -> None:
    first = json.loads(roundhouse("up", "--json").stdout)
    second = json.loads(roundhouse("status", "--json").stdout)
    assert first["version"] == second["version"] == 1
    assert first["status"]["url"] == second["status"]["url"]


def test_machine_shows_facts_with_sources_and_a_choice(roundhouse: Roundhouse) -> None:
    text = roundhouse("machine", "--sources").stdout
    assert "Memory" in text
    assert "measured]" in text
    machine = json.loads(roundhouse("machine", "--json").stdout)["machine"]
    assert machine["choice"]["engine"] == "llama.cpp"
    assert machine["memory"]["total"]["value"] > 0


def test_list_has_the_guide_labelled(roundhouse: Roundhouse) -> None:
    row = next(line for line in roundhouse("list").stdout.splitlines() if line.startswith("guide"))
    assert "tiny built-in help model" in row


def test_run_answers_and_says_what_it_cost(roundhouse: Roundhouse) -> None:
    result = roundhouse("run", "guide", "What is Roundhouse?", "--temperature", "0")
    assert result.returncode == 0, result.stderr
    assert "Roundhouse" in result.stdout
    assert "to the first token" in result.stderr


@pytest.mark.slow
def test_run_reads_standard_input_and_prints_json(roundhouse: Roundhouse) -> None:
    result = roundhouse("run", "guide", "--json", "--temperature", "0", stdin="What is a KV cache?")
    answer = json.loads(result.stdout)["answer"]
    assert answer["model"] == "guide"
    assert answer["content"]
    assert answer["timings"]["completion_tokens"] > 0


@pytest.mark.slow
def test_ps_load_logs_unload(roundhouse: Roundhouse) -> None:
    loaded_engine = json.loads(roundhouse("load", "guide", "--json").stdout)["engine"]
    assert (loaded_engine["state"], loaded_engine["model"]) == ("ready", "guide")
    assert "guide" in roundhouse("ps").stdout
    assert roundhouse("logs", "guide", "--tail", "50").stdout.strip()
    assert "unloaded" in roundhouse("unload", "guide").stdout
    assert json.loads(roundhouse("ps", "--json").stdout)["running"] in ([], [{**loaded_engine, "state": "stopped"}])


@pytest.mark.slow
def test_run_takes_a_model_as_it_was_loaded(roundhouse: Roundhouse) -> None:
    roundhouse("load", "guide", "--context", "512")
    assert roundhouse("run", "guide", "--temperature", "0", "hello").returncode == 0
    assert json.loads(roundhouse("ps", "--json").stdout)["running"][0]["context"] == 512
    assert roundhouse("logs").stdout.strip()
    assert roundhouse("logs", "no-such-model").returncode == 2


@pytest.mark.slow
def test_settings_show_change_reset_and_refuse(roundhouse: Roundhouse) -> None:
    assert "gateway.port" in roundhouse("settings").stdout
    changed_setting = json.loads(roundhouse("settings", "window.scale", "120", "--json").stdout)["setting"]
    assert (changed_setting["value"], changed_setting["source"]) == (120, "file")
    assert "window.scale = 100" in roundhouse("settings", "window.scale", "--reset").stdout
    refusal = roundhouse("settings", "window.scale", "900")
    assert refusal.returncode == 2
    assert "between 80 and 200" in refusal.stderr


def test_unknown_model_names_the_ones_that_exist(roundhouse: Roundhouse) -> None:
    result = roundhouse("run", "no-such-model", "hi")
    assert result.returncode == 2
    assert "no-such-model" in result.stderr
    assert "guide" in result.stderr


def test_a_broken_file_is_said_to_be_broken(roundhouse: Roundhouse, broken_gguf: Path) -> None:
    result = roundhouse("run", str(broken_gguf), "hi")
    assert result.returncode in {1, 2}
    assert "Traceback" not in result.stderr
    assert result.stderr.strip()


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
def test_after_kill_9_nothing_is_left_and_the_next_start_works(roundhouse: Roundhouse, home: Paths) -> None:
    roundhouse("load", "guide")
    engine = json.loads(roundhouse("ps", "--json").stdout)["running"][0]["pid"]
    gateway = ensure_gateway(home)
    psutil.Process(gateway.pid).kill()
    wait_until(lambda: not exists(engine))
    assert find_running_gateway(home) is None
    assert roundhouse("run", "guide", "--temperature", "0", "hello").returncode == 0
    port_info = read_port_file(home.port_file)
    assert port_info is not None
    assert port_info.pid != gateway.pid


@pytest.mark.slow
def test_without_a_display_the_bare_command_does_the_whole_job_and_ends(roundhouse: Roundhouse) -> None:
    roundhouse("down")
    result = roundhouse(env={"DISPLAY": "", "WAYLAND_DISPLAY": ""})
    assert result.returncode == 0, result.stderr
    for word in ("Processor", "because", "Guide", "tok/s", "Endpoint"):
        assert word in result.stdout
    assert "no display" in result.stderr
    wait_until(lambda: roundhouse("status").returncode == 1)


def exists(pid: int) -> bool:
    import psutil  # noqa: PLC0415 -- this test only

    return bool(psutil.pid_exists(pid)) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE


@pytest.mark.slow
def test_an_alias_answers_and_can_be_taken_back(roundhouse: Roundhouse) -> None:
    assert roundhouse("alias", "gpt-*", "guide").stdout == "guide answers to gpt-*.\n"
    assert "gpt-*" in roundhouse("alias", "list").stdout
    result = roundhouse("run", "gpt-5", "What is Roundhouse?", "--temperature", "0")
    assert (result.returncode, bool(result.stdout)) == (0, True), result.stderr
    assert "no longer an alias" in roundhouse("alias", "remove", "gpt-*").stdout
    assert "gpt-*=guide" not in json.loads(roundhouse("alias", "--json").stdout)["aliases"]
    assert roundhouse("alias", "guide", "auto").returncode == 2, "a model's own name always means that model"
    assert roundhouse("alias", "gpt-*", "nowhere").returncode == 2
    assert roundhouse("alias", "remove", "gpt-*").returncode == 2


def test_an_engine_that_is_not_installed_from_here_says_how_to_get_it(roundhouse: Roundhouse) -> None:
    result = roundhouse("engines", "install", "tensorrt-llm")
    assert result.returncode == 2
    assert "`trtllm-serve` is on the PATH" in result.stderr
    assert "roundhouse attach" in result.stderr
