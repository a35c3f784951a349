"""The benchmarks page: a model under a workload, what it came to in figures and plots, and earlier results."""
