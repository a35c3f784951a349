"""Engines installed on this machine: which versions, and whether they have been proved to work."""
