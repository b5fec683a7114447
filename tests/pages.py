"""Reads the tables of the documentation."""

from __future__ import annotations

from pathlib import Path

DOCS = Path(__file__).parents[1] / "docs"


def table(page: str, *head: str) -> list[list[str]]:
    """The rows of the one table whose head begins with these cells, as cells without marks for bold."""
    lines = (DOCS / page).read_text("utf-8").splitlines()
    found = [number for number, line in enumerate(lines) if cells(line)[: len(head)] == [*head]]
    assert len(found) == 1, f"{page} has {len(found)} tables that begin with {head}"
    rows: list[list[str]] = []
    for line in lines[found[0] + 2 :]:
        if not line.startswith("|"):
            break
        rows.append(cells(line))
    return rows


def cells(line: str) -> list[str]:
    """The cells of a line of a table; none where it is another line."""
    inner = line.strip()
    return [cell.strip().replace("**", "") for cell in inner[1:-1].split("|")] if inner.startswith("|") else []
