"""LM Studio's dialect below `/api/v0` and `/api/v1`: what it adds to OpenAI's, and its own chat. Pure; no sockets."""
