"""Anthropic's dialect, which llama.cpp speaks itself but for the details that are mended here.

What the pinned build gets wrong, each found by asking it: requests (`request.py`, `turns.py`), answers (`reply.py`,
`stream.py`) and errors (`errors.py`).
"""
