"""A position in a GGUF header that never leaves it: nothing a file claims is believed before its size allows it."""

import struct
from collections.abc import Sequence

from app.hub.gguf.values import corrupt_error
from app.hub.sources import ByteSource

WINDOW_BYTES = 1 << 20
MAX_ARRAY_ITEMS = 16_777_216
"""Items of all arrays of text together; the largest vocabularies have below a million tokens and merges."""

_U64 = struct.Struct("<Q")
_NUMBERS = {code: struct.Struct("<" + code) for code in "IQ"}


class Cursor:
    """A position in a file that never leaves it, over a window of at most `WINDOW_BYTES`."""

    def __init__(self, source: ByteSource) -> None:
        self._source = source
        self.size = source.size
        self._window = b""
        self._start = 0
        self._at = 0
        self._items_left = MAX_ARRAY_ITEMS
        self._reach = min(source.first_bytes, WINDOW_BYTES)

    @property
    def position(self) -> int:
        """Bytes from the start of the file."""
        return self._start + self._at

    def take_bytes(self, count: int) -> bytes:
        """Return the next `count` bytes; the caller has bounded `count`."""
        if len(self._window) - self._at < count:
            self._fill_window(count)
        taken = self._window[self._at : self._at + count]
        self._at += count
        return taken

    def look_ahead(self, count: int) -> tuple[bytes, int]:
        """Return the window and where in it we are: `count` bytes follow, or all that the file has left."""
        self._fill_window(min(count, self.size - self.position))
        return self._window, self._at

    def unpack_struct(self, form: struct.Struct) -> tuple[int, ...]:
        """Return the next integers, as `form` says: a tensor table has thousands, so they are read together."""
        if len(self._window) - self._at < form.size:
            self._fill_window(form.size)
        values = form.unpack_from(self._window, self._at)
        self._at += form.size
        return values

    def read_number(self, code: str) -> int:
        """Return the next integer, "I" or "Q" of `struct`."""
        return self.unpack_struct(_NUMBERS[code])[0]

    def skip_bytes(self, count: int) -> None:
        """Step over `count` bytes without reading them."""
        if count > self.size - self.position:
            raise corrupt_error("it ends in the middle of its header")
        target = self._at + count
        if target <= len(self._window):
            self._at = target
        else:
            self._start += target
            self._window, self._at = b"", 0

    def read_text(self, limit: int) -> str:
        """Return the next length-prefixed text. Undecodable bytes are replaced, unprintable characters dropped."""
        (length,) = self.unpack_struct(_U64)
        if length > limit:
            raise corrupt_error("it contains a name of impossible length")
        return drop_unprintable(str(self.take_bytes(length), "utf-8", "replace"))

    def read_beginning(self, limit: int) -> str:
        """Return at most `limit` bytes of the next length-prefixed text, line ends and all, and step over it."""
        length = self.read_number("Q")
        end = self.position + length
        taken = self.take_bytes(min(length, limit)).decode("utf-8", errors="replace")
        self.skip_bytes(end - self.position)
        return taken

    def skip_texts(self, count: int, marks: Sequence[bytes] = ()) -> bool:
        """Step over `count` length-prefixed texts: a vocabulary has hundreds of thousands.

        Returns whether one of `marks` was seen on the way (one cut by the edge of the window is missed).
        """
        self.spend_items(count)
        left, has_mark = count, False
        while left:
            self._fill_window(8)
            window, start = self._window, self._at
            left -= self._skip_texts_in_window(left)
            end = self._at if self._window is window else len(window)
            has_mark = has_mark or any(window.find(mark, start, end) >= 0 for mark in marks)
        return has_mark

    def spend_items(self, count: int) -> None:
        """Count array items that cost a step each, so that no file can keep us busy for long."""
        self._items_left -= count
        if self._items_left < 0:
            raise corrupt_error("its lists are longer than any model needs")

    def _skip_texts_in_window(self, limit: int) -> int:
        window, at, last = self._window, self._at, len(self._window) - 8
        unpack = _U64.unpack_from
        done = 0
        while done < limit and at <= last:
            at += 8 + unpack(window, at)[0]
            done += 1
        self.skip_bytes(at - self._at)
        return done

    def _fill_window(self, count: int) -> None:
        """Have `count` bytes in the window from here on. Raises if the file has not as many."""
        if len(self._window) - self._at >= count:
            return
        if count > self.size - self.position:
            raise corrupt_error("it ends in the middle of its header")
        self._start += self._at
        self._at = 0
        self._window = self._source.read_at(self._start, max(count, self._reach))
        self._reach = min(4 * self._reach, WINDOW_BYTES)
        if len(self._window) < count:
            raise corrupt_error("it became shorter while it was read")


def drop_unprintable(text: str) -> str:
    """Return a text without what cannot be shown."""
    return text if text.isprintable() else "".join(filter(str.isprintable, text))
