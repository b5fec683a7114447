"""`hooksdk audit`: the chain that the plugin `audit` writes, verified, shown and exported."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hooksdk.cli._options import Json, Project

audit_app = typer.Typer(help="Verify and show the chain of records that the plugin audit writes.", no_args_is_help=True)

Files = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[FILE|URL]...",
        help="Files of the chain, in any order, or the store that it is in; of audit.jsonl those put aside beside it come along. By "
        "default those of the configuration.",
    ),
]


@audit_app.command("verify")
def verify_chain(
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE|URL...",
            help="Files of the chain, in any order, or the store that it is in; of audit.jsonl those put aside beside it come along.",
        ),
    ],
    key: Annotated[
        str,
        typer.Option(
            "--key", metavar="PUB|FILE", help="The public key, as `hooksdk audit key` prints it, or a file with it."
        ),
    ],
    head: Annotated[
        list[str] | None,
        typer.Option(
            "--head",
            metavar="NUMBER:HASH",
            help="A head that was kept elsewhere; may be given several times. Only it shows a cut end.",
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Verify that nothing in a chain was changed, left out or added. Needs no configuration. The code is 1 where something was."""
    from hooksdk.cli._audit.showing import verify_files

    raise typer.Exit(verify_files(files, key, head or (), as_json=as_json))


@audit_app.command("key")
def print_key(as_json: Json = False, project: Project = Path()) -> None:
    """Print the public half of the key, which whoever verifies the chain needs."""
    from hooksdk.cli._audit.showing import show_key

    raise typer.Exit(show_key(project, as_json=as_json))


@audit_app.command("head")
def print_head(files: Files = None, as_json: Json = False, project: Project = Path()) -> None:
    """Print how far the chain goes, to be kept where whoever can change the chain cannot change it."""
    from hooksdk.cli._audit.showing import show_head

    raise typer.Exit(show_head(project, files or (), as_json=as_json))


@audit_app.command("show")
def show_records(
    files: Files = None,
    session: Annotated[str | None, typer.Option("--session", metavar="ID", help="Only this session's.")] = None,
    kind: Annotated[
        list[str] | None, typer.Option("--kind", metavar="KIND", help="Only these; may be given several times.")
    ] = None,
    call: Annotated[
        str | None, typer.Option("--call", metavar="ID", help="Only those about this call, by its id or effect id.")
    ] = None,
    last: Annotated[int | None, typer.Option("--last", min=1, metavar="N", help="Only the last N of them.")] = None,
    as_json: Json = False,
    project: Project = Path(),
) -> None:
    """Show the records of a chain, as they are: `verify` says whether they are genuine."""
    from hooksdk.cli._audit.showing import Wanted, show

    wanted = Wanted(session=session, kinds=tuple(kind or ()), call=call, last=last)
    raise typer.Exit(show(project, files or (), wanted, as_json=as_json))


@audit_app.command("export")
def export_records(
    files: Files = None,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="FILE", help="Where they go; by default to stdout.", dir_okay=False),
    ] = None,
    session: Annotated[str | None, typer.Option("--session", metavar="ID", help="Only this session's.")] = None,
    as_json: Json = False,
    project: Project = Path(),
) -> None:
    """Write the records as CloudEvents, one a line, each with its signed line; with --json as one batch."""
    from hooksdk.cli._audit.showing import Wanted, export

    raise typer.Exit(export(project, files or (), Wanted(session=session), output, as_json=as_json))
