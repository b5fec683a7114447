"""A server with a tool, a prompt and a resource, as people write one: `library.py` serves stdio."""

from mcp.server import MCPServer

server = MCPServer("library")


@server.prompt()
def review(path: str) -> str:
    """Review a note."""
    return f"Review the note {path} with great care."


@server.resource("note://a", name="a")
def note() -> str:
    """The note called a."""
    return "The note says: buy milk."


@server.tool()
def read_note(path: str) -> str:
    """Read a note by its path."""
    return path


if __name__ == "__main__":
    server.run("stdio")
