"""Coding agents that the gateway hosts: sessions, their transcripts, and the processes that talk to the agents."""
