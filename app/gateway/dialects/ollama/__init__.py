"""Ollama's dialect below `/api`: its requests, its NDJSON streams, and how it describes models. Pure; no sockets."""
