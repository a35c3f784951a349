"""LMDeploy: serves many users at once with CUDA, also on Windows."""
