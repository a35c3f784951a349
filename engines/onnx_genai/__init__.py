"""ONNX Runtime GenAI: made to live inside programs, on processors, GPUs and NPUs, behind our own server."""
