"""Wires the tools people have to the endpoint: finds them, edits the one file that matters, and can take it back."""
