"""Markdown for a transcript: cut into pieces while it arrives, read line by line, never the same text twice."""
