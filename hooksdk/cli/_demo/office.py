"""The tools of the light demo that its script has no use for: what a model has to find the right ones among."""

from __future__ import annotations

import json
from importlib.resources import files

from hooksdk import Tool


def other_tools() -> list[Tool]:
    """Tools for commits, spreadsheets, files, texts, times and numbers, as MCP lists them. None can be run."""
    listed = json.loads(files("hooksdk.cli._demo").joinpath("office.json").read_text("utf-8"))
    return [Tool.from_json(one, source="plugin", owner=owner) for owner, tools in listed.items() for one in tools]
