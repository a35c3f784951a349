"""A driver's library that plays two cards: one with NVML's energy counter, and an older one that tells its power only.

The folder on `PYTHONPATH` gives a probe child this `pynvml` instead of NVIDIA's.
"""
