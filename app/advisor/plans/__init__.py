"""Ranked plans: the engine, files, context and spread over GPUs to run with, and what a change would bring."""
