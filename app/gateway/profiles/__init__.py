"""Profiles: what a switch does, doing it, and the hours at which it is done by itself."""
