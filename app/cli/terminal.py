"""What reaches the terminal: nothing in a model's name, an answer or a log may steer it.

Control sequences can write the clipboard (OSC 52), clear the screen, retitle the window or answer for the person at the
keyboard, and marks of direction can make a file's name read otherwise than it is. They are taken out of everything that
is written, also into pipes, whose end may be a terminal; the colours that `click.style` makes stay, and so does the
beginning of a line of progress.
"""

import re
import sys
from collections.abc import Iterable
from typing import Any, TextIO, cast

_PROGRESS = "\r\x1b[K"
"""How a line of progress begins: it replaces the one before."""
_OURS = re.compile(r"\x1b\[(?:0|1|2|22|3[0-7]|39|9[0-7])(?:;(?:0|1|2|22|3[0-7]|39|9[0-7])){0,3}m")
"""What `click.style` writes: colours, bold and dim."""
_STEERING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
"""Control characters but tab and line feed, those of the C1 set, and what overrides the direction of text."""
_STEERING_IN_JSON = re.compile("[\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
"""Of those, what JSON allows in a string as it is."""
_ESCAPES = {"\x1b": "\\x1b"}


def clean(text: str) -> str:
    """Return the text without what steers a terminal. An escape character is shown, so that nothing goes unnoticed."""
    if not _STEERING.search(text):
        return text
    kept_parts, end = [], 0
    for match in _OURS.finditer(text):
        kept_parts += [_strip(text[end : match.start()]), match[0]]
        end = match.end()
    return "".join([*kept_parts, _strip(text[end:])])


def _strip(text: str) -> str:
    return _STEERING.sub(lambda match: _ESCAPES.get(match[0], ""), text.replace("\r\n", "\n"))


def escape_json(text: str) -> str:
    """Return JSON that says the same and has nothing in it that would be taken out."""
    return _STEERING_IN_JSON.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


class CleanStream:
    """A text stream that cleans what is written; in all else the stream it stands for."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Write the text as it may be seen. Returns how much of it was taken: all."""
        if not isinstance(text, str):
            raise TypeError("This stream takes text.")
        begin = _PROGRESS if text.startswith(_PROGRESS) else ""
        self._stream.write(begin + clean(text[len(begin) :]))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Write every line."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 -- whatever the stream has
        return getattr(self._stream, name)


def clean_standard_streams() -> None:
    """Have everything that this process prints cleaned."""
    sys.stdout, sys.stderr = cast("TextIO", CleanStream(sys.stdout)), cast("TextIO", CleanStream(sys.stderr))
