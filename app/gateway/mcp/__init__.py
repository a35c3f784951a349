"""Servers of the Model Context Protocol, whose tools models may call."""
