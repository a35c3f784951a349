"""A coding agent that does what its prompt says, faults included: `agent.py` is run as a program."""
