"""The table from options to flags, on its own: versions, help texts, extra arguments."""

import pytest

from engines.api import EngineInstallation, LaunchOptions
from engines.flags import WORDS, FlagTable, build_arguments, flags_in, no_flag, task_flag, value_flag

TABLE = FlagTable(
    engine="Engine",
    flags=(
        value_flag("context", "--length", since="2.0"),
        value_flag("threads", "--threads", until="1.9", can_do_without=True),
        no_flag("slots"),
        task_flag({"chat": (), "embed": ("--embed",)}),
    ),
    reserved=frozenset({"--port", "-p", "-tp"}),
    reserved_env=frozenset({"KEY", "ENGINE_ARG_*"}),
)


def version(number: str) -> EngineInstallation:
    return EngineInstallation(engine="e", version=number, backend="cpu")


def make_installation(*flags: str) -> EngineInstallation:
    return EngineInstallation(engine="e", version="1.0", backend="cpu", flags=frozenset(flags))


def test_every_option_but_the_two_that_are_passed_on_has_words() -> None:
    assert set(WORDS) == set(LaunchOptions.__struct_fields__) - {"extra_args", "extra_env"}


def test_unset_options_say_nothing() -> None:
    assert build_arguments(TABLE, LaunchOptions(), version("1.0")).args == ()


@pytest.mark.parametrize(("number", "is_fine"), [("2.0", True), ("2.0.1+cu128", True), ("1.9", False), ("10.0", True)])
def test_without_a_probe_the_version_decides(number: str, is_fine: bool) -> None:  # noqa: FBT001 -- a table's column
    options = LaunchOptions(context=512)
    if is_fine:
        assert build_arguments(TABLE, options, version(number)).args == ("--length", "512")
    else:
        with pytest.raises(
            ValueError, match=r"Engine 1\.9 has no --length, so the length of the context cannot be set"
        ):
            build_arguments(TABLE, options, version(number))


def test_a_probe_overrules_what_the_table_believes_of_versions() -> None:
    assert build_arguments(TABLE, LaunchOptions(context=512), make_installation("--length")).args == ("--length", "512")


def test_what_ended_with_a_version_is_left_out_with_a_word() -> None:
    arguments = build_arguments(TABLE, LaunchOptions(threads=4), version("2.0"))
    assert (arguments.args, [each.option for each in arguments.left_out]) == ((), ["threads"])
    assert arguments.left_out[0].sentence == "Engine 2.0 has no --threads, so the number of threads cannot be set."


@pytest.mark.parametrize(
    "options",
    [
        {"slots": 0},
        {"context": 0},
        {"task": "rerank"},
        {"gpu_layers": 1},
        {"extra_args": ("--por", "1")},
        {"extra_args": ("--port=1",)},
        {"extra_args": ("-p8000",)},
        {"extra_args": ("-tp4",)},
        {"extra_args": ("-t", "4")},
        {"extra_args": ("--length.most", "1")},
        {"extra_args": ("--len.most", "1")},
        {"extra_args": ("--len", "1")},
        {"extra_args": ("stray",)},
        {"extra_args": ("--seed 7",)},
        {"extra_args": ("--", "--port")},
        {"extra_env": {"key": "x"}},
        {"extra_env": {"ENGINE_ARG_PORT": "1"}},
    ],
    ids=str,
)
def test_it_is_refused_with_a_sentence(options: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"\.$"):
        build_arguments(TABLE, LaunchOptions(**options), version("2.0"))  # type: ignore[arg-type]  # mixed on purpose


def test_negative_numbers_are_values() -> None:
    assert build_arguments(TABLE, LaunchOptions(extra_args=("--seed", "-1")), version("2.0")).args == ("--seed", "-1")


def test_a_field_of_an_argument_is_known_where_the_argument_is() -> None:
    extra = ("--other-config.some_field", "1")
    assert build_arguments(TABLE, LaunchOptions(extra_args=extra), make_installation("--other-config")).args == extra
    with pytest.raises(ValueError, match=r"has no argument --other-config\.some_field"):
        build_arguments(TABLE, LaunchOptions(extra_args=extra), make_installation("--other"))


HELP = """usage: engine [-h] [--port PORT]

-c,    --ctx-size N      size of the prompt context, see --not-a-flag-of-its-own
--draft, --draft-max N   the argument has been removed. use --spec-draft-n-max
  --spec-draft-n-max N   tokens to draft
  -fa, --flash-attn [on|off|auto]
      --no_underscores   yes
"""


def test_a_help_text_gives_its_flags_without_those_it_only_mourns() -> None:
    flags = flags_in(HELP)
    assert flags >= {
        "-h",
        "--port",
        "-c",
        "--ctx-size",
        "--spec-draft-n-max",
        "-fa",
        "--flash-attn",
        "--no_underscores",
    }
    assert not flags & {"--draft", "--draft-max"}
