"""NVIDIA Dynamo: coordinates vLLM, SGLang or TensorRT-LLM across many computers."""
