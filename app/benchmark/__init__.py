"""Benchmarks without I/O: prompts, statistics, receipts against each other, and receipts as Markdown and HTML."""
