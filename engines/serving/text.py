"""From tokens to text that can be sent: whole characters only, and nothing that may be the beginning of a stop."""

import codecs
from collections.abc import Callable, Sequence


class BytesDecoder:
    """`backend.Decoder` for tokens whose bytes are known: the text of several is their bytes in a row."""

    def __init__(self, bytes_of: Callable[[int], bytes]) -> None:
        self._bytes_of = bytes_of
        self._utf8 = codecs.getincrementaldecoder("utf-8")("replace")

    def feed(self, token: int) -> str:
        """Return the text that a token completes."""
        return self._utf8.decode(self._bytes_of(token))

    def flush(self) -> str:
        """Return the replacement characters for bytes that never became one."""
        return self._utf8.decode(b"", final=True)


class StopSequences:
    """Cuts a text at the first of several strings, however it is divided over tokens."""

    def __init__(self, strings: Sequence[str]) -> None:
        self._strings = tuple(strings)
        self._longest = max(map(len, self._strings), default=0)
        self._held_text = ""
        self.is_met = False

    def feed(self, text: str) -> str:
        """Return what can be sent now; nothing more once a stop was met."""
        if self.is_met:
            return ""
        if not self._strings:
            return text
        text = self._held_text + text
        met = min((at for at in map(text.find, self._strings) if at >= 0), default=-1)
        if met >= 0:
            self.is_met, self._held_text = True, ""
            return text[:met]
        keep = self._possible_stop_length(text)
        self._held_text = text[len(text) - keep :]
        return text[: len(text) - keep]

    def flush(self) -> str:
        """Return what was held back in vain."""
        held_text, self._held_text = self._held_text, ""
        return held_text

    def _possible_stop_length(self, text: str) -> int:
        """Return how many characters at the end may be the beginning of a stop."""
        longest = min(self._longest - 1, len(text))
        for length in range(longest, 0, -1):
            end = text[len(text) - length :]
            if any(stop.startswith(end) for stop in self._strings):
                return length
        return 0
