"""mistral.rs: an engine in Rust that reads Hugging Face folders and GGUF files, behind our own server."""
