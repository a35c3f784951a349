"""What tells whether attention can be paged: as the original, whether flash-attn is installed."""

import importlib.util

has_flash_attn_with_paged = importlib.util.find_spec("flash_attn") is not None
