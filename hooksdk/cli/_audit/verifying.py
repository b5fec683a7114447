"""What `hooksdk audit verify` says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from hooksdk.audit import Head, Report, public_text, read_public_key, verify
from hooksdk.cli._audit.chains import typed_sources
from hooksdk.cli._console import CommandProblem, counted, one_line, print_json, stdout_console

_WORDS = {
    "changed": "changed", "left_out": "left out", "added": "added", "cut": "cut off", "anew": "made anew", "empty": "empty",
}  # fmt: skip


def verify_files(files: Sequence[str], key: str, heads: Sequence[str], *, as_json: bool) -> int:
    """Verify, and print what came of it; 1 where the chain is not whole."""
    public = read_public_key(key)
    try:
        report = verify(typed_sources(files), public, [Head.of(text) for text in heads])
    except OSError as error:
        raise CommandProblem(f"{error.filename} cannot be read: {error.strerror}") from None
    if as_json:
        damage = asdict(report.damage) if report.damage else None
        print_json({
            "schema": 1, "whole": report.damage is None, "records": report.records, "first": report.first,
            "head": str(report.head) if report.head else None, "key": public_text(public), "against_heads": list(heads),
            "damage": damage, "notes": report.notes,
        })  # fmt: skip
    else:
        _print(report, against_heads=bool(heads))
    return 0 if report.damage is None else 1


def _print(report: Report, *, against_heads: bool) -> None:
    console = stdout_console()
    if (damage := report.damage) is not None:
        where = f"record {damage.record}" if damage.record is not None else "the chain"
        console.print(f"[red]{_WORDS[damage.kind]}[/]  {where}: {one_line(damage.text)}", soft_wrap=True)
        good = (
            f"up to record {report.head.number} nothing is wrong" if report.head else "nothing before it is vouched for"
        )
        console.print(f"[dim]before[/]   {good}", soft_wrap=True)
    else:
        console.print(f"[green]whole[/]    {counted(report.records, 'record')}, each as it was signed", soft_wrap=True)
        console.print(f"head     {report.head}", soft_wrap=True)
        if not against_heads:
            note = "without --head a cut end, and a chain that the holder of the key made anew, are not seen"
            console.print(f"[dim]note[/]     {note}", soft_wrap=True)
    for note in report.notes:
        console.print(f"[dim]note[/]     {one_line(note)}", soft_wrap=True)
