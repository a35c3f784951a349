"""The engines that predictions are compared for."""

from app.gateway.advising.engine_table import engine_table

ENGINES = engine_table()
LLAMA_CPP, MLX_LM, VLLM = ENGINES["llama.cpp"], ENGINES["mlx-lm"], ENGINES["vllm"]
"""Those that public figures are of."""
