"""The page of tools: MCP servers, what they may reach, and which of their tools models may call."""
