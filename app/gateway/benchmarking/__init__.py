"""Benchmarks: requests to an engine or endpoint, timed; what else goes on meanwhile; and the job around them."""
