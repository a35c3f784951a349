"""Plays NVIDIA Dynamo on one computer: a frontend that is well at once, and a worker that registers in a file."""
