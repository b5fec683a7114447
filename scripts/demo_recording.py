"""Record `hooksdk demo`: docs/demo.svg.

    python scripts/demo_recording.py           writes it
    python scripts/demo_recording.py --check   says whether it is not as it would be written, with exit code 1

It is what a person at a terminal sees, where the approval is granted without a question. Nothing in it depends on the machine
or the clock.
"""

from __future__ import annotations

import argparse
import io
import os
import re
import sys
import tempfile
from pathlib import Path

import anyio
from rich.console import Console
from rich.terminal_theme import TerminalTheme

from hooksdk.cli._demo import headline
from hooksdk.cli._demo.play import DemoOptions, play

ROOT = Path(__file__).resolve().parents[1]
SVG = ROOT / "docs" / "demo.svg"
WIDTH = 80
THEME = TerminalTheme(
    (24, 26, 31), (220, 223, 228),
    [(40, 44, 52), (224, 108, 117), (152, 195, 121), (229, 192, 123), (97, 175, 239), (198, 120, 221), (86, 182, 194), (220, 223, 228)],
    [(92, 99, 112), (224, 108, 117), (152, 195, 121), (229, 192, 123), (97, 175, 239), (198, 120, 221), (86, 182, 194), (255, 255, 255)],
)  # fmt: skip


def record() -> tuple[str, str]:
    """Play the demo; answers what it printed as text and as an SVG."""
    console = Console(
        file=io.StringIO(), record=True, width=WIDTH, force_terminal=True, color_system="truecolor", highlight=False,
        emoji=False, legacy_windows=False, _environ={},
    )  # fmt: skip
    console.print("[bold]$ hooksdk demo[/]")
    console.print(headline(real=False))
    here = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            anyio.run(play, Path("station"), console, DemoOptions(story=True))
        finally:
            os.chdir(here)
    text = "\n".join(line.rstrip() for line in console.export_text(clear=False).splitlines()) + "\n"
    svg = console.export_svg(title="hooksdk demo", theme=THEME, unique_id="demo")
    # An image may load no fonts from elsewhere; the terminal's own will do.
    svg = re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL)
    return text, "\n".join(line.rstrip() for line in svg.splitlines()) + "\n"


def main() -> None:
    """Write it, or check it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
    _, svg = record()
    stale = not SVG.exists() or SVG.read_text("utf-8") != svg
    if not check:
        SVG.write_text(svg, "utf-8")
    if stale:
        print(f"{SVG.relative_to(ROOT)}: {'is not as it would be recorded now' if check else 'written'}")
    sys.exit(1 if check and stale else 0)


if __name__ == "__main__":
    main()
