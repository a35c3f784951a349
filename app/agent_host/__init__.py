"""The program that talks to one coding agent for the gateway: the protocol's SDK, in a process that may be confined."""
