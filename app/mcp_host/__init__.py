"""The program that talks to one MCP server for the gateway: the official client, in a process that may be confined."""
