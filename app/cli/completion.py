"""`roundhouse completion`: the script with which a shell completes our commands, printed or put where it is read."""

from pathlib import Path

import click
from click.shell_completion import get_completion_class

from app.cli.output import print_note
from app.core.errors import Bug

_VARIABLE = "_ROUNDHOUSE_COMPLETE"
_FILES = {
    "bash": ".local/share/bash-completion/completions/roundhouse",
    "zsh": ".local/share/zsh/site-functions/_roundhouse",
    "fish": ".config/fish/completions/roundhouse.fish",
}
"""Below the home folder: where bash-completion and fish look by themselves."""
_ZSH_HINT = "Add `fpath+=(~/.local/share/zsh/site-functions)` to ~/.zshrc, above `compinit`, if it is not there yet."


@click.command()
@click.argument("shell", type=click.Choice(list(_FILES)))
@click.option("--print", "only_prints", is_flag=True, help="Print the script instead of installing it.")
def completion(*, shell: str, only_prints: bool) -> None:
    """Install completion for SHELL: bash, zsh or fish."""
    script = completion_script(shell)
    if only_prints:
        click.echo(script)
        return
    file = Path.home() / _FILES[shell]
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(script, encoding="utf-8")
    print_note(f"Completion for {shell} was installed in {file}. It works in shells that are opened from now on.")
    if shell == "zsh":
        print_note(_ZSH_HINT)


def completion_files() -> list[Path]:
    """Return where the scripts are put, whether they are there or not."""
    return [Path.home() / name for name in _FILES.values()]


def completion_script(shell: str) -> str:
    """Return the script that has a shell ask us for completions."""
    from app.cli.main import roundhouse  # noqa: PLC0415 -- the command that completes is the one that is running

    kind = get_completion_class(shell)
    if kind is None:
        raise Bug(f"click completes nothing for {shell}.", hint="Please report it.")
    return kind(roundhouse, {}, "roundhouse", _VARIABLE).source()
