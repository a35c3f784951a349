"""Anthropic's dialect, which llama.cpp speaks itself but for the details that are mended here.

What the pinned build gets wrong, each found by asking it: requests (`requests.py`, `turns.py`), answers (`answers.py`)
and errors (`record.py`).
"""
