"""The engines that predictions are compared for."""

from app.gateway.advising.engine_table import engine_table

ENGINES = engine_table()
LLAMA_CPP, MLX_LM, VLLM, EXLLAMA_V3 = (ENGINES[name] for name in ("llama.cpp", "mlx-lm", "vllm", "exllamav3"))
"""Those that public figures are of."""
