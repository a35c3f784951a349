"""GGUF files: headers read without believing them."""
