"""Engines on a card, with what this computer has: nothing is downloaded. `python -m tests.gpu` (`make test-gpu`).

Only `engines` and the standard library are imported, and `engines` wants msgspec, so that it runs on a machine that
somebody lends for minutes. Wheels that were carried there lie in `shared/gpu-wheels` (or `ROUNDHOUSE_GPU_WHEELS`), and
interpreters with an engine are named in `ROUNDHOUSE_GPU_PYTHON`.
"""
