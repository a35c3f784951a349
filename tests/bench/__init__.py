"""Measurements with targets: `python -m tests.bench` runs them all and says which hold."""
