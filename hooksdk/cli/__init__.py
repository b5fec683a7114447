"""The `hooksdk` command. Needs `pip install 'hooksdk[cli]'`.

Status: stable.
"""

from __future__ import annotations

import sys

__all__ = ["main"]


def main() -> None:
    """Run the command; ends the process with 0, 1 (problems), 2 (usage), 3 (configuration), 4 (at a limit) or 130
    (interrupted)."""
    try:
        from hooksdk.cli._app import run
    except ModuleNotFoundError as error:
        sys.exit(f"The hooksdk command needs {error.name}: pip install 'hooksdk[cli]'")
    except KeyboardInterrupt:  # before there is anything to end
        print("hooksdk: stopped", file=sys.stderr)
        sys.exit(130)
    sys.exit(run(sys.argv[1:]))
