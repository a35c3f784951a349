"""The transcript: one widget that paints a whole conversation and lays out only what can be seen."""
