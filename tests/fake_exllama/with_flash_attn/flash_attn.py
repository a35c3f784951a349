"""Stands in for flash-attn, which only has to be there."""
