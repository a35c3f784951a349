"""Plays `trtllm-serve`."""

from played import Server

Server(
    [
        "[11/21/2026-10:00:00] [TRT-LLM] [I] Using LLM with PyTorch backend",
        "Loading safetensors weights in parallel:  50%|#####     | 1/2 [00:01<00:01]",
        "[11/21/2026-10:00:01] [TRT-LLM] [I] Allocated 2.00 GiB for max tokens in paged KV cache (4096).",
    ]
).play()
