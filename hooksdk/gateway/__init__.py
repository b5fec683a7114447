"""One MCP server in front of all others, with hooks, policies and tool search between."""
