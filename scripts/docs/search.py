"""Mends the built site's search: entries for the words that people type, and how-tos before the API where all else is equal.

    zensical build --strict && python scripts/docs/search.py

The search wants every word, a title counts most, and of equals the first in the index wins. So each phrase of words.toml is an
entry of its own, with the page's title and first words.
"""

from __future__ import annotations

import json
import sys
import tomllib
from pathlib import Path
from typing import Any

WORDS = Path(__file__).with_name("words.toml")
LAST = ("reference/api/", "changelog/", "benchmarks/", "comparison/")
"""Pages that name much and are seldom what was looked for."""


def main() -> None:
    """Rewrite search.json in the built site."""
    path = Path("site", "search.json")
    if not path.exists():
        sys.exit(f"no {path}: run zensical build first")
    index = json.loads(path.read_text("utf-8"))
    pages = {item["location"]: item for item in index["items"]}
    entries: list[dict[str, Any]] = []
    for page, phrases in tomllib.loads(WORDS.read_text("utf-8")).items():
        name, _, section = page.partition("#")
        location = f"{name}/#{section}" if section else f"{name}/"
        if location not in pages:
            sys.exit(f"{WORDS.name}: the site has no '{page}'. Name a page as its file in docs/, without .md")
        entries += [entry(phrase, pages[location]) for phrase in phrases]
    kept = [item for item in index["items"] if item not in entries]
    kept.sort(key=lambda item: (item["location"].startswith(LAST), not item["location"].startswith("how-to/")))
    index["items"] = [*entries, *kept]
    path.write_text(json.dumps(index, ensure_ascii=False, separators=(",", ":")), "utf-8")


def entry(phrase: str, page: dict[str, Any]) -> dict[str, Any]:
    """What the search shows for the phrase: where it leads, in the page's own words."""
    title = f"{phrase[0].upper()}{phrase[1:]}: {page['title']}"
    return {**page, "title": title, "path": [phrase, *page["path"]]}


if __name__ == "__main__":
    main()
