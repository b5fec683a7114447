"""Writes llms.txt into the built site: every page with its address and first sentence, for whoever reads with a model.

    zensical build --strict && python scripts/docs/llms.py

The form is that of https://llmstxt.org: the addresses are those of Markdown, which is put beside each page. Pages that are
made of something else, such as docstrings, have none and are listed as HTML.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any

from zensical.config import parse_config


def main() -> None:
    """Write llms.txt, and the Markdown that it names."""
    config = parse_config(str(Path("mkdocs.yml").resolve()))
    docs, site = Path(config["docs_dir"]), Path(config["site_dir"])
    if not (site / "index.html").exists():
        sys.exit(f"no site in {site}: run zensical build first")
    lines = [f"# {config['site_name']}", "", f"> {config['site_description']}"]
    for section in config["nav"]:
        entries = [entry(page, docs, site, config["site_url"]) for page in pages_of(section)]
        lines += ["", f"## {section['title']}", "", *entries]
    (site / "llms.txt").write_text("\n".join(lines) + "\n", "utf-8")


def pages_of(item: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The pages of a part of the navigation, and of those in it."""
    if item["url"]:
        yield item
    for child in item["children"]:
        yield from pages_of(child)


def entry(page: dict[str, Any], docs: Path, site: Path, address: str) -> str:
    """The line of a page; its Markdown is written where the line says."""
    text = (docs / page["url"]).read_text("utf-8")
    path = PurePosixPath(page["url"])
    place = "" if path.name == "index.md" else f"{path.with_suffix('')}/"
    if not re.search(r"^(::: |--8<-- )", text, re.MULTILINE):
        (site / place / "index.md").write_text(text, "utf-8")
        place += "index.md"
    sentence = first_sentence(text)
    return f"- [{page['title']}]({address}{place})" + (f": {sentence}" if sentence else "")


def first_sentence(text: str) -> str:
    """The first sentence that is no heading, without links."""
    paragraph = re.search(r"^[A-Z`\[*][^\n]+", text, re.MULTILINE)
    plain = re.sub(r"\[([^\]]+)\][(\[][^)\]]*[)\]]", r"\1", paragraph[0] if paragraph else "")
    return re.split(r"(?<=[.?])\s", plain)[0].rstrip(":").replace("**", "")


if __name__ == "__main__":
    main()
