"""Plays `lmdeploy serve api_server`."""

from played import Server

Server(
    [
        "2026-11-21 10:00:00,000 - lmdeploy - INFO - async_engine.py:300 - input backend=turbomind",
        "Loading weights from safetensors:  50%|#####     | 1/2 [00:01<00:01]",
    ],
    port="--server-port",
).play()
