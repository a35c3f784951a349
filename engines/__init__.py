"""One folder per inference engine: what it is, how it is started, what its log lines and exits mean.

Nothing here imports `app`; a `worker.py` runs inside the engine's own environment on the standard library alone.
`registry.py` has the one line an engine needs to be known.
"""
