"""`roundhouse`: the command. Each noun lives in its own file and is imported only when it is called.

Without a command it opens the window; where there is no display it does the same job in the terminal.
"""

import importlib
import sys
from collections.abc import Sequence

import click

from app import __version__
from app.cli import terminal
from app.config import environment

COMMANDS: dict[str, tuple[str, str]] = {
    "serve": ("service:serve", "Serve the endpoint in this terminal until Ctrl-C."),
    "up": ("service:up", "Start the service in the background."),
    "down": ("service:down", "Stop the service and its engines."),
    "status": ("service:status", "Show whether the service is running, and where."),
    "service": ("background:service", "Keep the service running: install, remove, status."),
    "machine": ("machine:machine", "Show this computer's hardware and the engine that suits it best."),
    "plan": ("advice:plan", "Recommend engines, formats and settings, best first, with reasons."),
    "estimate": ("advice:estimate", "Estimate a model's memory use, whether it fits, and its speed."),
    "calibrate": ("machine:calibrate", "Measure this machine, for more accurate speed predictions."),
    "bench": ("bench:bench", "Measure a model or an endpoint under a workload, and compare results."),
    "preflight": (
        "preflight:preflight",
        "Say how a model would do with a coding agent here: time and context for its prompts.",
    ),
    "quantize": ("quantize:quantize_model", "Convert a model's original weights to EXL3 on this computer's card."),
    "race": ("race:race", "Find the fastest engine for a model on this computer, and use it."),
    "trial": ("trial:trial", "Ask your own requests again of another model or engine, and compare the answers."),
    "doctor": ("machine:doctor", "Write a report about this machine, without names or serial numbers."),
    "connect": (
        "connect:connect",
        "Connect a tool you use to the endpoint: Continue, Zed, Claude Code, Codex and others.",
    ),
    "autocomplete": ("autocomplete:autocomplete", "Choose the model that completes code in editors."),
    "agents": ("agents:agents", "Have coding agents work in a folder, with models of this computer."),
    "mcp": ("mcp:mcp", "Use the tools of MCP servers, or offer Roundhouse's own to agents."),
    "collections": ("collections:collections", "Search folders of documents, in the terminal and for questions."),
    "launch": ("launch:launch", "Start a tool connected to the endpoint for one run, changing none of its files."),
    "search": ("search:search", "Search the hub for models, with the memory each needs on this computer."),
    "show": ("search:show_model", "Show a model on this computer, or what a repository on the hub offers."),
    "token": ("token:token", "Save your token for the hub, for models whose terms must be accepted first."),
    "pull": ("pull:pull", "Download a model, in the quantisation that suits this computer best."),
    "downloads": ("pull:downloads", "Show, pause, resume, move and remove downloads."),
    "list": ("library:list_models", "List the models on this computer."),
    "import": ("library:import_model", "Add a model without copying it, or search a folder for models."),
    "rm": ("library:remove", "Remove a model with its files."),
    "verify": ("library:verify", "Read a model's files and compare them with their hashes."),
    "disk": ("library:disk", "Show how much disk space models use, and where."),
    "duplicates": ("library:find_duplicates", "Find duplicate model files and let them share disk space."),
    "update-models": ("pull:update_models", "Check the hub for newer files of your models."),
    "alias": ("aliases:alias", "Give a model another name, for programs that request it by that name."),
    "attach": ("attach:attach", "Make the models of another endpoint available through this one."),
    "fleet": ("fleet:fleet", "Serve one model over several endpoints, with a router in front."),
    "deploy": ("deploy:deploy", "Write files that serve a model on a Kubernetes cluster or with Docker Compose."),
    "machines": ("machines:machines", "Use the models of your other computers, paired by a code."),
    "detach": ("attach:detach", "Remove an attached model from the list."),
    "run": ("chat:run", "Ask a model, once or in a conversation."),
    "ask": ("guide:ask", "Ask the Guide about Roundhouse or this computer; it looks the answer up."),
    "transcribe": ("speech:transcribe", "Write down what is said in a recording."),
    "speak": ("speech:speak", "Have a text read aloud into a file."),
    "chats": ("chats:chats", "List, search, continue, export, import and delete the window's chats."),
    "presets": ("presets:presets", "List, save, remove, import and export presets of chats."),
    "ps": ("engines:ps", "Show the models that are loaded."),
    "load": ("engines:load", "Load a model."),
    "unload": ("engines:unload", "Stop a model's engine and free its memory."),
    "room": ("pins:room", "Show the memory that models share."),
    "pause": ("pins:pause", "Free all memory, and load nothing until resumed."),
    "resume": ("pins:resume", "Load models again after a pause."),
    "pin": ("pins:pin", "Keep a model loaded."),
    "unpin": ("pins:unpin", "Allow a model to be unloaded again."),
    "profiles": ("profiles:profiles", "Switch between sets of models, with their pins, contexts and aliases."),
    "tune": ("tuning:tune", "Show or change the settings of one model."),
    "logs": ("engines:logs", "Show an engine's log."),
    "engines": ("engine_store:engines", "List, install, update, test and remove engines."),
    "requests": ("requests:requests", "Show the latest requests to the endpoint."),
    "traces": ("traces:traces", "Send traces of requests to an OpenTelemetry collector."),
    "usage": ("requests:usage", "Show usage by client and model."),
    "cache": ("cache:cache", "Show and remove the prompts that models need not read again."),
    "connections": ("connections:connections", "Show connections to other computers, with time and reason."),
    "completion": ("completion:completion", "Let bash, zsh or fish complete commands and options."),
    "keys": ("keys:keys", "List, create and revoke access keys for the endpoint."),
    "settings": ("settings:settings", "Show or change settings."),
    "update": ("update:update", "Check for a newer version of Roundhouse, and install it."),
    "uninstall": (
        "uninstall:uninstall",
        "List every path that belongs to Roundhouse, and remove them after confirmation.",
    ),
}
"""Name -> where it is defined and its one-line help: `--help` need not import any of them."""


class _Commands(click.Group):
    """Finds commands in `COMMANDS` without importing them all."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 -- click's signature
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 -- click's signature
        if cmd_name not in COMMANDS:
            return None
        module, _, name = COMMANDS[cmd_name][0].partition(":")
        command: click.Command = getattr(importlib.import_module(f"app.cli.{module}"), name)
        return command

    def invoke(self, ctx: click.Context) -> object:
        """Run the command; a mistake in its options is told as JSON too where JSON was asked for."""
        wants_json = "--json" in ctx.args
        try:
            return super().invoke(ctx)
        except click.UsageError as error:
            if wants_json:
                _write_mistake(error.format_message())
            raise

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 -- click's signature
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in COMMANDS.items()])


def _write_mistake(sentence: str) -> None:
    from app.cli.output import write_json  # noqa: PLC0415 -- only a mistake needs it
    from app.core.errors import BadRequest  # noqa: PLC0415 -- as above

    write_json("error", BadRequest(sentence, code="usage").body)


@click.command(cls=_Commands, invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="roundhouse")
@click.pass_context
def roundhouse(ctx: click.Context) -> None:
    """Run local AI with the engine that suits your machine best.

    Without a command, open the window; without a display, run in this terminal.
    """
    if environment.forbids_color():
        ctx.color = False
    if ctx.invoked_subcommand is None:
        from app.cli.start import start_window_or_terminal  # noqa: PLC0415 -- only the bare command needs it

        sys.exit(start_window_or_terminal())


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command line; exits the process."""
    terminal.clean_standard_streams()
    roundhouse.main(args=None if argv is None else list(argv), prog_name="roundhouse")


if __name__ == "__main__":
    main()
