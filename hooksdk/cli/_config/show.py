"""`hooksdk config show`: the configuration that counts, who set each value, and what does not count. Imports no plugin."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

from hooksdk.cli._config.trust import describe, value_as_json, value_text
from hooksdk.cli._configuration import read_config
from hooksdk.cli._console import complain, print_json, safe, stdout_console
from hooksdk.config import Merged, Remark, trust_advice
from hooksdk.gateway import GatewayConfig

DEFAULT = "default"

Place = tuple[str, ...]
"""Where a setting stands, such as `("plugins", "x", "grants")`."""


def show(project: Path, *, origin: bool, as_json: bool) -> int:
    """Print it."""
    config, merged = read_config(folder=project)
    defaults = config.model_dump(exclude={"plugins", "timeouts"})
    defaults["gateway"] = GatewayConfig.of(config).model_dump()
    settings = list(_entries({**defaults, **merged.data}))
    left_out = [(remark, False) for remark in merged.overruled] + [(one, True) for one in merged.missing_trust()]
    naming = [] if merged.trust.trusted else merged.naming
    for problem in merged.problems:
        complain(problem)
    if as_json:
        print_json({
            "schema": 1,
            "project": {"source": merged.project, "folder": str(merged.trust.folder), "trust": merged.trust.state},
            "settings": [
                {"entry": ".".join(place), "value": value_as_json(value), "origin": _origin(merged, place)} for place, value in settings
            ],
            "left_out": [
                {"entry": one.entry, "value": value_as_json(one.value), "why": one.why, "needs_trust": trust} for one, trust in left_out
            ],
            "named_by_project": [one.entry for one in naming],
            "left_to_plugins": [{"entry": one.entry, "value": value_as_json(one.value)} for one in merged.left_to_plugins],
        })  # fmt: skip
        return 0
    console = stdout_console()
    for place, value in settings:
        who = f"  [dim]{safe(_origin(merged, place))}[/]" if origin else ""
        text = "" if value == {} else f" = {value_text(value)}"
        console.print(f"{safe('.'.join(place))}{text}{who}", soft_wrap=True)
    _print_remarks("left out", merged.overruled)
    if missing := merged.missing_trust():
        _print_remarks(merged.why_untrusted, missing)
        console.print(f"  {safe(trust_advice(merged.trust.folder))}", soft_wrap=True)
    _print_remarks(
        "enabled by this project alone: of those plugins, the ones of other packages need your trust", naming
    )
    _print_remarks("decided by the plugin when it is loaded", merged.left_to_plugins)
    return 0


def _entries(data: Mapping[str, Any], above: Place = ()) -> Iterator[tuple[Place, Any]]:
    """Every setting with its place, as deep as a source is remembered for."""
    for name, value in data.items():
        place = (*above, name)
        if isinstance(value, Mapping) and value and len(place) < 4 and place[0] in {"plugins", "timeouts"}:
            yield from _entries(cast("Mapping[str, Any]", value), place)
        else:
            yield place, value


def _origin(merged: Merged, place: Place) -> str:
    return merged.origins.get(place) or merged.origins.get(place[:-1]) or DEFAULT


def _print_remarks(heading: str, remarks: list[Remark]) -> None:
    console = stdout_console()
    if remarks:
        console.print(f"\n[bold]{safe(heading)}[/]", soft_wrap=True)
    for remark in remarks:
        console.print(f"  {describe(remark)}", soft_wrap=True)
