"""MLX-LM: made for memory that processor and GPU share; runs on Linux as well."""
