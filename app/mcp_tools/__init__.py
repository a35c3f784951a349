"""Tools that come with Roundhouse, as MCP servers: they are confined, request for and allowed like everybody else's."""
