"""MLC LLM: one compiled model for browsers, phones and native apps; nightly builds only."""
