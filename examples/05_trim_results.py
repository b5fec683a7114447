"""Shorten old, large tool results: the model's view shrinks, the stored transcript stays whole."""

from __future__ import annotations

import json

import anyio

from hooksdk import Host, MemoryStore, Session, Tool, hooks
from hooksdk.agent import run_agent
from hooksdk.hooks import AgentEnd
from hooksdk.testing import ScriptedModel, call, say


class TrimOldListings:
    """After each run, shorten every result of more than 1,000 characters that is older than the newest turn."""

    @hooks.agent_end
    async def trim(self, event: AgentEnd) -> None:
        for info in event.transcript.results.list():
            if info.trimmable and info.characters > 1_000 and info.turns_ago > 1:
                first_line = event.transcript.results.read(info.handle).partition("\n")[0]
                receipt = await event.transcript.trim(info.handle, f"It began with: {first_line}", reason="old listing")
                print(f"  {info.handle} ({info.tool}): {info.characters:,} -> {receipt.characters_after} characters")


def list_files(folder: str) -> str:
    """List a folder."""
    return "\n".join(f"{folder}/file_{number}.txt" for number in range(400))


async def turn(session: Session, folder: str) -> None:
    """One run: the model lists a folder and says that it has."""
    model = ScriptedModel([call("list_files", folder=folder), say(f"I have seen {folder}.")])
    await run_agent(session, model, f"List {folder}.", tools=[Tool.from_function(list_files, source="host")])
    print(f"{folder}: the model was sent {len(json.dumps(model.turns[-1].messages)):,} characters")


async def main() -> None:
    async with (
        Host(plugins=[TrimOldListings], store=MemoryStore(), config={"allow": []}) as host,
        host.session("example") as session,
    ):
        for folder in ("src", "tests", "docs"):
            await turn(session, folder)
        print(f"stored, whole: {len(json.dumps(session.messages)):,} characters")
        first = session.results.list()[0]
        print(f"{first.handle} can still be read: {len(session.results.read(first.handle)):,} characters")


if __name__ == "__main__":
    anyio.run(main)
