"""MLX-VLM: images, audio, embeddings and JSON schemas on Apple silicon; its own server behind our key."""
