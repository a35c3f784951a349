"""NVIDIA Dynamo: directs vLLM, SGLang or TensorRT-LLM over many computers."""
