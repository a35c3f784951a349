"""Prompts that engines have read, kept so that nobody waits for them to be read again: sealed, by key and by model."""
