"""vLLM: made to serve many on NVIDIA and AMD GPUs under Linux."""
