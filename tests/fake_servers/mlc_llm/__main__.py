"""Plays `mlc_llm serve`: no health, and a port that opens when the engine is there."""

from played import Server

Server(
    [
        "[2026-11-21 10:00:00] INFO auto_device.py:79: Found device: cuda:0",
        "[2026-11-21 10:00:00] INFO jit.py:118: Compiling using commands below:",
    ]
).play()
