"""`hooksdk mcp`, and the MCP servers of every other command."""
