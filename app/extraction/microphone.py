"""Record what the microphone hears, as a program of its own: samples go to standard output until standard input ends.

Samples are 16 bits, one channel, `RATE_HZ` a second: what speech models take. The library records in a thread of its
own, which is why the window does not; and whoever started this needs nothing but to close a pipe to end it. Exit codes
say why there is nothing.
"""

import os
import sys
from collections.abc import Generator
from types import ModuleType
from typing import Protocol

from app.core.recordings import RATE_HZ, MicrophoneExit

_PIECE_MS = 100
_NULL = "--no-device"
"""Hear silence, whatever devices there are."""


def main(arguments: list[str]) -> int:
    """Record until standard input ends; return the exit code."""
    try:
        import miniaudio  # type: ignore[import-untyped]  # noqa: PLC0415 -- it has no wheel for every processor
    except ImportError:
        return MicrophoneExit.NO_LIBRARY
    try:
        device = _open_device(miniaudio, [miniaudio.Backend.NULL] if _NULL in arguments else None)
    except miniaudio.MiniaudioError as error:
        sys.stderr.write(f"{error}\n")
        return MicrophoneExit.NO_DEVICE
    try:
        while os.read(0, 1):  # nobody writes anything: it ends when whoever started this does, or closes it
            pass
    finally:
        device.close()
    return 0


def _open_device(miniaudio: ModuleType, backends: list[object] | None) -> "Device":
    device: Device = miniaudio.CaptureDevice(
        input_format=miniaudio.SampleFormat.SIGNED16,
        nchannels=1,
        sample_rate=RATE_HZ,
        buffersize_msec=_PIECE_MS,
        backends=backends,
        app_name="Roundhouse",
    )
    writer = _write_samples()
    next(writer)
    device.start(writer)
    return device


def _write_samples() -> Generator[None, bytes, None]:
    """Write what is sent. Called by the library's thread; a reader that has gone ends it."""
    while True:
        samples = yield
        try:
            os.write(1, samples)
        except OSError:
            return


class Device(Protocol):
    """A capture device, as the library has it."""

    def start(self, writer: Generator[None, bytes, None]) -> None:
        """Begin."""

    def close(self) -> None:
        """End."""


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
