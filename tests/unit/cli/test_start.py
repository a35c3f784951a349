"""Window or terminal: decided before Qt could abort."""

import pytest

from app.cli import start


@pytest.mark.parametrize(
    ("environment", "platform", "library", "sentence"),
    [
        ({}, "linux", True, "no display"),
        ({"DISPLAY": ""}, "linux", True, "no display"),
        ({"DISPLAY": ":0"}, "linux", True, ""),
        ({"DISPLAY": ":0"}, "linux", False, "libxcb-cursor0"),
        ({"DISPLAY": ":0", "QT_QPA_PLATFORM": "offscreen"}, "linux", False, ""),
        ({"DISPLAY": ":0", "WAYLAND_DISPLAY": "wayland-0"}, "linux", False, ""),
        ({}, "darwin", False, ""),
        ({}, "win32", False, ""),
    ],
)
def test_why_there_is_no_window(
    monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], platform: str, *, library: bool, sentence: str
) -> None:
    monkeypatch.setattr(start, "_can_load", lambda _library: library)
    because = start.no_window_because(environment, platform=platform)
    assert (sentence in because) if sentence else because == ""
