"""LMDeploy: serves many at once with CUDA, on Windows too."""
