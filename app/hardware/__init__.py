"""Probes, each in a child process with a time-out, merged into one immutable Machine."""
