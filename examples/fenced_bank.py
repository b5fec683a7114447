"""A worker that was taken for dead wakes in a payment: a bank that keeps the highest fence refuses it. Not on Windows.

Worker A is stopped in its tool, before the effect. Worker B takes the session over, and a person says no. Then A wakes.
"""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

import anyio

from hooksdk import Approval, ApprovalRequest, Host, Tool, ToolContext, ToolError, hooks
from hooksdk.agent import run_agent
from hooksdk.errors import SessionBusy
from hooksdk.stores import SqlStore
from hooksdk.testing import ScriptedModel, call


class Bank:
    """Payments and the highest fences, in one SQLite file."""

    def __init__(self, file: Path) -> None:
        self.rows = sqlite3.connect(file, timeout=60, isolation_level=None)
        self.rows.execute("CREATE TABLE IF NOT EXISTS fences (session TEXT PRIMARY KEY, highest INTEGER NOT NULL)")
        self.rows.execute("CREATE TABLE IF NOT EXISTS payments (effect TEXT PRIMARY KEY, payee TEXT NOT NULL)")

    def accept(self, fences: Mapping[str, int], *payments: tuple[str, str]) -> None:
        """Keep the fences and make the payments, in one transaction, so that nothing comes between. Refuses all where
        one fence is older than the one that is kept."""
        with self.rows:
            self.rows.execute("BEGIN IMMEDIATE")
            for session, fence in fences.items():
                kept = self.rows.execute("SELECT highest FROM fences WHERE session = ?", (session,)).fetchone()
                if kept and kept[0] > fence:
                    raise ToolError(f"refused: fence {fence}, and another worker came with {kept[0]}")
                self.rows.execute("INSERT OR REPLACE INTO fences VALUES (?, ?)", (session, fence))
            self.rows.executemany("INSERT OR IGNORE INTO payments VALUES (?, ?)", payments)


def announcing(bank: Bank) -> type:
    """A plugin by which the bank knows the new worker before a person is asked what the old one has done."""

    class Announcing:
        @hooks.agent_start
        async def announce(self, event: hooks.AgentStart) -> None:
            bank.accept(event.info.fences)

    return Announcing


async def work(folder: Path, prompt: str | None = None) -> None:
    """Begin a run, or go on with what the session has open."""
    bank, store = Bank(folder / "bank.db"), SqlStore(f"sqlite:///{folder / 'sessions.db'}", lease=3)

    async def pay(payee: str, context: ToolContext) -> str:
        """Pay somebody."""
        os.kill(os.getpid(), signal.SIGSTOP)  # as when its machine sleeps
        print("A wakes. Does it hold the session?", await context.still_held(), flush=True)
        try:
            bank.accept(context.fences, (context.effect_id, payee))
        except ToolError as refusal:
            print("The bank:", refusal, flush=True)
            raise
        return "paid"

    async def person(request: ApprovalRequest) -> Approval:
        print(f"B asks: {request.title}. No", flush=True)
        return Approval(False)

    model = ScriptedModel([call("pay", payee="ann"), "Done."] if prompt else ["Nothing is paid."])
    async with Host([announcing(bank)], store=store, approver=person) as host, host.session("s") as session:
        await run_agent(session, model, prompt, tools=[Tool.from_function(pay, source="host")])
    await store.aclose()


def main(folder: Path) -> None:
    """Both workers."""
    with subprocess.Popen([sys.executable, __file__, folder], stderr=subprocess.STDOUT) as a:
        os.waitpid(a.pid, os.WUNTRACED)
        anyio.run(work, folder)
        a.send_signal(signal.SIGCONT)
    print("Payments:", Bank(folder / "bank.db").rows.execute("SELECT * FROM payments").fetchall())


if __name__ == "__main__":
    if len(sys.argv) > 1:
        try:
            anyio.run(work, Path(sys.argv[1]), "Pay Ann.")
        except SessionBusy:
            print("A ends: its session is another's")
    else:
        with tempfile.TemporaryDirectory() as temporary:
            main(Path(temporary))
