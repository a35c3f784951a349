"""OpenAI's dialect, which engines speak themselves: what the gateway adds, and their refusals in its shape."""
