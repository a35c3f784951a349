"""What a model takes, where it lies, and the most context that fits: one sum per kind of engine."""
