"""What tells whether attention can be paged: as the original, whether flash-attn is installed."""

import importlib.util
import os

has_flash_attn_with_paged = "EXLLAMA_NO_FLASH_ATTN" not in os.environ and (
    importlib.util.find_spec("flash_attn") is not None
)
