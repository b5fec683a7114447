"""What the benchmarks measure with: retrieval sets, agent transcripts and the scenarios of 20 tools, all public, in one archive.

    python benchmarks/_data.py FOLDER    packs a folder anew into data/sets.tar.xz

`data/README.md` says where each comes from, under which licence, and what was changed.
"""

from __future__ import annotations

import hashlib
import shutil
import sys
import tarfile
import tempfile
from functools import cache
from pathlib import Path

ARCHIVE = Path(__file__).resolve().parent / "data" / "sets.tar.xz"
SUFFIXES = {".json", ".jsonl"}


@cache
def data_folder() -> Path:
    """The folder with `retrieval/`, `transcripts/` and `scenarios_20_tools.json`, unpacked beside the archive when it is first
    asked for."""
    digest = hashlib.sha256(ARCHIVE.read_bytes()).hexdigest()[:12]
    folder = ARCHIVE.parent / f"unpacked-{digest}"
    if not folder.is_dir():
        work = Path(tempfile.mkdtemp(prefix="unpacking-", dir=ARCHIVE.parent))
        with tarfile.open(ARCHIVE) as archive:
            archive.extractall(work, filter="data")
        try:
            work.rename(folder)
        except OSError:  # another process was first
            shutil.rmtree(work)
    return folder


def pack(folder: Path) -> None:
    """Write the archive: the same bytes for the same files."""
    with tarfile.open(ARCHIVE, "w:xz", preset=9) as archive:
        for path in sorted(folder.rglob("*")):
            if path.suffix in SUFFIXES:
                archive.add(path, path.relative_to(folder), filter=_without_owner)


def _without_owner(member: tarfile.TarInfo) -> tarfile.TarInfo:
    return member.replace(mtime=0, mode=0o644, uid=0, gid=0, uname="", gname="", deep=False)


if __name__ == "__main__":
    if len(sys.argv) != 2 or not Path(sys.argv[1]).is_dir():
        sys.exit(f"{__doc__}\nGive the folder to pack.")
    pack(Path(sys.argv[1]))
