"""`hooksdk config show`: the configuration that counts, who set each value, and what does not count. Imports no plugin."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from hooksdk.cli._config.trust import describe, value_as_json, value_text
from hooksdk.cli._configuration import read_config
from hooksdk.cli._console import complain, safe
from hooksdk.cli._options import Json, Project
from hooksdk.cli._view import View
from hooksdk.config import Merged, Remark, trust_advice
from hooksdk.gateway import GatewayConfig
from hooksdk.values import is_mapping

DEFAULT = "default"
config_app = typer.Typer(help="Look at the configuration.", no_args_is_help=True)

Place = tuple[str, ...]
"""The place of a setting, such as `("plugins", "x", "grants")`."""


@config_app.command()
def show(
    origin: Annotated[bool, typer.Option("--origin", help="Say who set each value.")] = False,
    as_json: Json = False,
    project: Project = Path(),
) -> None:
    """Show the configuration that counts here, and what does not count and why. No plugin is imported."""
    config, merged = read_config(folder=project)
    defaults = config.model_dump(exclude={"plugins", "timeouts"})
    defaults["gateway"] = GatewayConfig.of(config).model_dump()
    settings = list(_entries({**defaults, **merged.data}))
    left_out = [(remark, False) for remark in merged.overruled] + [(one, True) for one in merged.missing_trust()]
    naming = [] if merged.trust.trusted else merged.naming
    for problem in merged.problems:
        complain(problem)
    view = View(
        {
            "project": {"source": merged.project, "folder": str(merged.trust.folder), "trust": merged.trust.state},
            "settings": [
                {"entry": ".".join(place), "value": value_as_json(value), "origin": _origin(merged, place)}
                for place, value in settings
            ],
            "left_out": [{**_entry(one), "why": one.why, "needs_trust": trust} for one, trust in left_out],
            "named_by_project": [one.entry for one in naming],
            "left_to_plugins": [_entry(one) for one in merged.left_to_plugins],
        }
    )
    for place, value in settings:
        who = f"  [dim]{safe(_origin(merged, place))}[/]" if origin else ""
        text = "" if value == {} else f" = {value_text(value)}"
        view.markup(f"{safe('.'.join(place))}{text}{who}")
    _add_remarks(view, "left out", merged.overruled)
    if missing := merged.missing_trust():
        _add_remarks(view, merged.why_untrusted, missing)
        view.markup(f"  {safe(trust_advice(merged.trust.folder))}")
    _add_remarks(
        view, "enabled by this project alone: of those plugins, the ones of other packages need your trust", naming
    )
    _add_remarks(view, "decided by the plugin when it is loaded", merged.left_to_plugins)
    view.show(as_json=as_json)


def _entry(remark: Remark) -> dict[str, Any]:
    return {"entry": remark.entry, "value": value_as_json(remark.value)}


def _entries(data: Mapping[str, Any], above: Place = ()) -> Iterator[tuple[Place, Any]]:
    """Every setting with its place, as deep as a source is remembered for."""
    for name, value in data.items():
        place = (*above, name)
        if is_mapping(value) and value and len(place) < 4 and place[0] in {"plugins", "timeouts"}:
            yield from _entries(value, place)
        else:
            yield place, value


def _origin(merged: Merged, place: Place) -> str:
    return merged.origins.get(place) or merged.origins.get(place[:-1]) or DEFAULT


def _add_remarks(view: View, heading: str, remarks: list[Remark]) -> None:
    if remarks:
        view.markup(f"\n[bold]{safe(heading)}[/]")
    for remark in remarks:
        view.markup(f"  {describe(remark)}")
