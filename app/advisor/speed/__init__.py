"""Tokens per second, from what is read and computed; and what this machine has shown of itself."""
