"""SGLang: shared prompts, structured output and experts at speed, on NVIDIA and AMD server GPUs under Linux."""
