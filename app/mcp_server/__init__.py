"""Roundhouse as a server of the Model Context Protocol, for agents that manage models. A client of the gateway."""
