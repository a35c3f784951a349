"""The manual page of the command, from the command itself."""

import datetime as dt

import click

from app import __version__
from app.cli.main import COMMANDS

_HEAD = """\
.TH ROUNDHOUSE 1 "{date}" "Roundhouse {version}" "User Commands"
.SH NAME
roundhouse \\- run AI models on this computer
.SH SYNOPSIS
.B roundhouse
[\\fICOMMAND\\fR] [\\fIARGUMENT\\fR...]
.SH DESCRIPTION
Without a command, opens the window; where there is no display, does the same job in the terminal.
.SH COMMANDS
"""
_TAIL = """\
.SH ENVIRONMENT
.TP
.B ROUNDHOUSE_HOME
A folder to keep everything in, instead of the usual places.
.TP
.B ROUNDHOUSE_SECTION_NAME
Overrides the setting \\fIsection.name\\fR.
.TP
.B HF_ENDPOINT, HF_HOME, HF_TOKEN
As Hugging Face's own programs read them.
.SH SEE ALSO
.B roundhouse \\fICOMMAND\\fB \\-\\-help
"""


def page(*, today: dt.date) -> str:
    """Return the page in roff."""
    rows = (f".TP\n.B {_roff(name)}\n{_roff(click.unstyle(line))}\n" for name, (_, line) in COMMANDS.items())
    return _HEAD.format(date=today.isoformat(), version=__version__) + "".join(rows) + _TAIL


def _roff(text: str) -> str:
    return text.replace("\\", "\\\\").replace("-", "\\-").replace("'", "\\(aq")
