"""An MCP server with faults, made of the official library."""
