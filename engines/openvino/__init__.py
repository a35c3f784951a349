"""OpenVINO GenAI: Intel's kernels for processors, GPUs and NPUs, with continuous batching, behind our own server."""
