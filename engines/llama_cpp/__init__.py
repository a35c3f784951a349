"""llama.cpp through xllamacpp: its own HTTP server, prebuilt, in the application's own environment."""
