"""llama-cpp-python as a runtime of llama.cpp: built for this very processor, served by our own server.

Its adapter is llama.cpp's (`engines.llama_cpp`), which tells by the environment which of its runtimes is in there.
"""
