"""`hooksdk replay`: its options. The work is imported when it is typed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hooksdk.cli._options import Json, Project
from hooksdk.cli._replay.options import ReplayOptions


def replay(
    source: Annotated[str, typer.Argument(metavar="SESSION|FILE")],
    plugin: Annotated[list[str] | None, typer.Option("--plugin", metavar="FILE|MODULE:CLASS|ID")] = None,
    everything: Annotated[bool, typer.Option("--all")] = False,
    history_format: Annotated[str | None, typer.Option("--format", metavar="NAME")] = None,
    mcp: Annotated[list[Path] | None, typer.Option("--mcp", metavar="FILE")] = None,
    tools: Annotated[Path | None, typer.Option(metavar="FILE", dir_okay=False)] = None,
    workspace: Annotated[str | None, typer.Option(metavar="FOLDER")] = None,
    only_differing: Annotated[bool, typer.Option("--diff")] = False,
    write: Annotated[Path | None, typer.Option(metavar="FILE", dir_okay=False)] = None,
    check: Annotated[Path | None, typer.Option(metavar="FILE", dir_okay=False)] = None,
    values: Annotated[bool, typer.Option("--values")] = False,
    as_test: Annotated[Path | None, typer.Option(metavar="FILE.py", dir_okay=False)] = None,
    whole: Annotated[bool, typer.Option("--whole")] = False,
    session: Annotated[str | None, typer.Option("--session", metavar="ID")] = None,
    store: Annotated[str | None, typer.Option(metavar="FOLDER|URL")] = None,
    as_json: Json = False,
    project: Project = Path(),
) -> None:
    """Show what plugins would have done with the calls of a recorded session. Nothing is executed.

    The code is 1 where --check finds a difference, and where a chain and the session beside it do not tell the same.

    Options:
        source: A stored session's id, a file of any history, or a chain of the plugin audit.
        plugin: A Python file, a class, or an installed plugin's id; may be given several times.
        everything: The plugins of this project's configuration judge, too.
        history_format: Where a file comes from; guessed by default.
        mcp: Servers whose tools were called: asked for their definitions only.
        tools: Definitions of the tools, as JSON; by default any arguments fit.
        workspace: The workspace of the runs, for rules about paths.
        only_differing: Show only calls that would go otherwise than recorded.
        write: Write the decisions as a snapshot.
        check: Compare with a snapshot; the code is 1 where they differ.
        values: Snapshots hold arguments as they are, not their digests.
        as_test: Write a test for pytest, with its data beside it.
        whole: With --as-test: what was said and answered stays in the data.
        session: With a chain: which of its sessions, where it tells of several.
        store: Where the session is; by default the configuration's store.
    """
    from hooksdk.cli._replay.session import replay_session

    if not plugin and not everything:
        raise typer.BadParameter("name a plugin with --plugin FILE, or take this project's with --all")
    options = ReplayOptions(
        source=source,
        plugins=tuple(plugin or ()),
        everything=everything,
        history_format=history_format,
        mcp=tuple(mcp or ()),
        tools=tools,
        workspace=workspace,
        only_differing=only_differing,
        write=write,
        check=check,
        values=values,
        test=as_test,
        whole=whole,
        session=session,
        store=store,
        as_json=as_json,
        project=project,
    )
    raise typer.Exit(replay_session(options))
