"""The endpoint, what runs behind it, and what the engines say."""
