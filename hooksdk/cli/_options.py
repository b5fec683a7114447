"""Options that several commands take."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
Project = Annotated[
    Path, typer.Option("--project", help="The folder whose configuration counts.", exists=True, file_okay=False)
]
Store = Annotated[
    str | None,
    typer.Option(
        metavar="FOLDER|URL",
        help="Keep sessions in this folder or database (sqlite:///FILE, postgresql://...); by default where the "
        "configuration says, or in the state folder.",
    ),
]
