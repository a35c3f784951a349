"""Plays `vllm serve`: its socket refuses until the engine is ready."""

from played import Server

Server(
    [
        "(APIServer pid=1) INFO 11-21 10:00:00 [utils.py:253] non-default args: {'trust_remote_code': False}",
        "(APIServer pid=1) INFO 11-21 10:00:01 [model.py:1745] Using max model len 512",
        "Loading safetensors checkpoint shards:  50% Completed | 1/2 [00:01<00:01,  1.0s/it]",
        "(EngineCore_DP0 pid=2) INFO 11-21 10:00:05 [gpu_worker.py:298] Available KV cache memory: 2.00 GiB",
    ]
).play()
