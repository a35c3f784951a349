"""Endpoints that somebody else runs."""
