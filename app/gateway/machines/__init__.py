"""Paired machines: what they may ask of this one, their models in the list here, and which of them answers."""
