"""Which layer lies where in llama.cpp, by its own rule: the last `gpu_layers` on the GPUs, in the order of the split.

The output counts as one layer more than the blocks (`llama_model::load_tensors`).
"""

from bisect import bisect_right
from itertools import accumulate

from app.advisor.memory.setting import HOST, RunSetting
from app.core.model_facts import ModelFacts


def layer_places(facts: ModelFacts, setting: RunSetting) -> list[int]:
    """Return the place of every block, and last that of the output."""
    count = len(facts.layers) + 1
    on_gpu = gpu_layer_count(facts, setting)
    first = count - on_gpu
    bounds = _share_bounds(setting)
    return [HOST if index < first else bisect_right(bounds, (index - first) / on_gpu) for index in range(count)]


def gpu_layer_count(facts: ModelFacts, setting: RunSetting) -> int:
    """Return how many of blocks and output are on GPUs."""
    every = len(facts.layers) + 1
    if not setting.uses_gpu:
        return 0
    return every if setting.gpu_layers is None else min(setting.gpu_layers, every)


def _share_bounds(setting: RunSetting) -> list[float]:
    """Return where one GPU's share ends and the next begins; the last share is open."""
    shares = setting.split or (1.0,) * setting.gpus
    total = sum(shares) or 1.0
    return [bound / total for bound in accumulate(shares)][:-1]
