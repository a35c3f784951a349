"""Plays `sglang.launch_server`: it listens at once, and says 503 while it loads."""

from played import Server

Server(
    [
        "[2026-11-21 10:00:00] server_args=ServerArgs(trust_remote_code=False, mem_fraction_static=0.85)",
        "[2026-11-21 10:00:01 TP0] Load weight begin. avail mem=23.10 GB",
        "[2026-11-21 10:00:02 TP0] max_total_num_tokens=9000, context_len=512",
        "Loading safetensors checkpoint shards:  50% Completed | 1/2 [00:01<00:01,  1.0s/it]",
    ],
    listens_early=True,
).play()
