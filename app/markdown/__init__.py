"""Markdown as models write it, with formulas: found, drawn, and read by one parser. Needs no Qt."""
