"""vllm-router: vLLM's own router, which shares requests out over replicas of one model."""
