"""TensorRT-LLM: the highest throughput on NVIDIA's own server GPUs, as `trtllm-serve`."""
