"""Writes llms.txt beside the site: every page with its address and first sentence, for whoever reads with a model.

A hook of MkDocs, named in mkdocs.yml. The form is that of https://llmstxt.org: the addresses are those of Markdown, which is
put beside each page. Pages that are made of something else, such as docstrings, have none and are listed as HTML.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.nav import Navigation, Section
from mkdocs.structure.pages import Page

_built: dict[str, Navigation] = {}
"""The navigation of the build that is going on, by its site's folder."""


def on_nav(nav: Navigation, config: MkDocsConfig, **_kwargs: Any) -> None:
    """Keep the navigation: its pages have their Markdown once they are read."""
    _built[config.site_dir] = nav


def on_post_build(config: MkDocsConfig, **_kwargs: Any) -> None:
    """Write llms.txt, and the Markdown that it names."""
    site, nav = Path(config.site_dir), _built.pop(config.site_dir)
    lines = [f"# {config.site_name}", "", f"> {config.site_description}"]
    for section in nav.items:
        if isinstance(section, Section):
            lines += ["", f"## {section.title}", "", *[entry(page, site) for page in pages_of(section)]]
    (site / "llms.txt").write_text("\n".join(lines) + "\n", "utf-8")


def pages_of(section: Section) -> list[Page]:
    """The pages of a section, and of those in it."""
    nested = [
        [item] if isinstance(item, Page) else pages_of(item)
        for item in section.children
        if isinstance(item, Page | Section)
    ]
    return [page for pages in nested for page in pages]


def entry(page: Page, site: Path) -> str:
    """The line of a page; its Markdown is written where the line says."""
    text = page.markdown or ""
    address = page.canonical_url or page.url
    if not re.search(r"^(::: |--8<-- )", text, re.MULTILINE):
        (site / page.url / "index.md").write_text(text, "utf-8")
        address += "index.md"
    sentence = first_sentence(text)
    return f"- [{page.title}]({address})" + (f": {sentence}" if sentence else "")


def first_sentence(text: str) -> str:
    """The first sentence that is no heading, without links."""
    paragraph = re.search(r"^[A-Z`\[*][^\n]+", text, re.MULTILINE)
    plain = re.sub(r"\[([^\]]+)\][(\[][^)\]]*[)\]]", r"\1", paragraph[0] if paragraph else "")
    return re.split(r"(?<=[.?])\s", plain)[0].rstrip(":").replace("**", "")
