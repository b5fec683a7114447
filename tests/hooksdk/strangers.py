"""Installed distributions as pip would leave them, for the tests of who is loaded and of what looking at them does."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

GUARD = """
from hooksdk import hooks
from hooksdk.hooks import Block

class Plugin:
    @hooks.before_tool_call
    def judge(self, event):
        return Block("not on my watch")
"""


def install(
    site: Path,
    plugin_id: str = "evil",
    code: str = GUARD,
    *,
    manifest: dict[str, Any] | str | None = None,
    distribution: str = "someone-elses-dependency",
    package: str = "",
    value: str = "",
) -> Path:
    """Put a distribution into a folder of the path; answers its package. A `marker` file beside the package is written when
    the package, or the one around it, is imported."""
    package = package or f"{distribution.replace('-', '_')}_code"
    folder = site.joinpath(*package.split("."))
    folder.mkdir(parents=True, exist_ok=True)
    marker = f"with open({str(site / 'marker')!r}, 'a') as file:\n    file.write('{plugin_id} ')\n"
    for around in folder.relative_to(site).parents:
        if around.name:
            (site / around / "__init__.py").write_text(marker)
    (folder / "__init__.py").write_text(marker + code)
    text = manifest if isinstance(manifest, str) else json.dumps({"id": plugin_id, **(manifest or {})})
    (folder / "hooksdk.plugin.json").write_text(text)
    info = site / f"{distribution.replace('-', '_')}-1.0.dist-info"
    info.mkdir(exist_ok=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[hooksdk.plugins]\n{plugin_id} = {value or f'{package}:Plugin'}\n")
    return folder


def was_imported(site: Path) -> bool:
    """True once any of the installed code has run."""
    return (site / "marker").exists()
