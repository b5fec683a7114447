"""A server with 40 tools: one for each chore in each room."""

from typing import Any

from lines import serve, text

ROOMS = ("kitchen", "cellar", "attic", "garden", "garage", "library", "nursery", "stable")
CHORES = {
    "sweep": "Sweep the floor of the",
    "paint": "Paint the walls of the",
    "heat": "Heat the",
    "light": "Switch on the lamps of the",
    "lock": "Lock the doors of the",
}
PARAMETERS: dict[str, Any] = {
    "type": "object",
    "properties": {
        "minutes": {"type": "integer", "description": "How long it may take."},
        "quietly": {"type": "boolean", "description": "Whether somebody sleeps nearby."},
    },
    "required": ["minutes"],
}
TOOLS: list[dict[str, Any]] = [
    {
        "name": f"{chore}_{room}",
        "description": f"{says} {room}. Answers when done.",
        "inputSchema": PARAMETERS,
    }
    for chore, says in CHORES.items()
    for room in ROOMS
]

if __name__ == "__main__":
    serve("many", TOOLS, lambda name, _: text(f"{name} is done"))
