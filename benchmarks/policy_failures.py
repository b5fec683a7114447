"""What becomes of a tool call when the policy that judges it fails, in hooksdk and in others, each at its pinned version.

    python benchmarks/policy_failures.py [--only NAME]... [--json] [--write] [--cache FOLDER]

Every rival gets an environment of its own in the cache folder, made with uv where it is there and with venv and pip
otherwise: some 600 MB and a few minutes the first time. One that does not install is told and left out. hooksdk is the one
of this interpreter. No network is used but for installing, no model and no key.

Prints the tables of docs/comparison.md as Markdown, or as JSON with what the host reads of each error. `--write` puts what
was measured into `_rivals/results.json`, against which the page is tested; columns that were not measured stay.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import os
import queue
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "_rivals"
sys.path.append(str(FOLDER))

from policy_scene import CASES  # noqa: E402 - in the folder of the rivals, which are programs and import it so

RESULTS = FOLDER / "results.json"
START = 180
"""Seconds to import a rival and to say its version."""
GUARD = 20
"""Seconds for one case, whose policy answers within 3 or never: longer is "hangs"."""
GROUPS = ("libraries", "frameworks")
"""One table each."""
BAD = {"ran", "ran, and warned", "ran, then an error", "not loaded, ran", "hangs"}
"""Set in bold in the table: the tool ran although its policy had not let it in time, or nobody was answered."""


@dataclass(frozen=True)
class Rival:
    name: str
    package: str
    """As pip takes it; empty for what is installed here."""
    strict: str = ""
    """The setting of a second column, as its file takes it."""
    group: str = "frameworks"

    @property
    def file(self) -> Path:
        return FOLDER / f"{self.name.replace('-', '_')}_policies.py"


RIVALS = (
    Rival("hooksdk", "", "thread=True", "both"),
    Rival("cpex", "cpex==0.1.4", "fail_on_plugin_error", "libraries"),
    Rival("agent-hooks-sdk", "agent-hooks-sdk==0.1.0b3", "declaration", "libraries"),
    Rival("agenthooks-py", "agenthooks-py==0.1.1", "fallback=False", "libraries"),
    Rival("pydantic-ai", "pydantic-ai-slim==2.68.0", "timeout"),
    Rival("pydantic-ai-harness", "pydantic-ai-harness==0.62.0"),
    Rival("langchain", "langchain==1.4.7", "step_timeout"),
    Rival("openai-agents", "openai-agents==0.24.0"),
    Rival("google-adk", "google-adk==2.13.0"),
    Rival("claude-agent-sdk", "claude-agent-sdk==0.2.187", "on_failure"),
)
Column = dict[str, Any]


class NotMeasured(Exception):
    """The rival did not install, did not start, or cannot even allow and block."""


def progress(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


# Environments


def python_of(rival: Rival, cache: Path) -> Path:
    """The interpreter of the rival's environment, which is made when it is not there."""
    if not rival.package:
        return Path(sys.executable)
    home = cache / f"{rival.package.replace('==', '-')}-py{sys.version_info.major}.{sys.version_info.minor}"
    python = home / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    complete = home / "complete"
    if not complete.exists():
        progress(f"{rival.name}: installing {rival.package}")
        home.parent.mkdir(parents=True, exist_ok=True)
        if uv := shutil.which("uv"):
            run(uv, "venv", "--clear", "--python", sys.executable, home)
            run(uv, "pip", "install", "--python", python, rival.package)
        else:
            run(sys.executable, "-m", "venv", "--clear", home)
            run(python, "-m", "pip", "install", "--disable-pip-version-check", rival.package)
        complete.touch()
    return python


def run(*command: str | Path) -> None:
    try:
        subprocess.run([str(word) for word in command], check=True, capture_output=True, text=True, timeout=900)
    except subprocess.CalledProcessError as error:
        raise NotMeasured(f"does not install: {(error.stderr.strip() or 'no reason told').splitlines()[-1]}") from None
    except subprocess.TimeoutExpired:
        raise NotMeasured("does not install within 15 minutes") from None


# Measuring


def records(command: Sequence[str | Path], folder: str, guard: float) -> Iterator[dict[str, str] | None]:
    """What the program tells, until it ends; None when it says nothing for longer than it may, and is ended."""
    # No variable of whoever runs this: a key or a setting of a rival would change what is measured.
    environment = {name: os.environ[name] for name in ("PATH", "SYSTEMROOT", "LANG") if name in os.environ}
    environment |= {"HOME": folder, "USERPROFILE": folder}
    lines: queue.Queue[str] = queue.Queue()
    with subprocess.Popen(
        [str(word) for word in command], cwd=folder, env=environment, text=True, encoding="utf-8",
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
    ) as program:  # fmt: skip
        out = program.stdout
        assert out is not None

        def read() -> None:
            for line in out:
                lines.put(line)
            lines.put("")

        threading.Thread(target=read, daemon=True).start()
        seconds: float = START
        try:
            while line := lines.get(timeout=seconds):
                if line.startswith("@"):
                    yield json.loads(line[1:])
                    seconds = guard
        except queue.Empty:
            yield None
        finally:
            program.kill()


def measure(
    name: str, python: Path, file: Path, setting: str = "", guard: float = GUARD, cases: Mapping[str, str] = CASES
) -> Column:
    """One column: the outcome of each case, and the error that came out with it. `guard`: seconds for a case."""
    column: Column = {"name": name, "setting": setting, "outcomes": {}, "errors": {}}
    left = list(cases)
    while left:
        begun, ended = "", "ends the process"
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            for record in records([python, file, setting, *left], folder, guard):
                if record is None:
                    ended = "hangs"
                    continue
                begun = record.get("begins", begun)
                column |= {key: record[key] for key in ("version", "python") if key in record}
                if "case" in record:
                    note(column, record["case"], cases, record["outcome"], record["error"])
                    left.remove(record["case"])
        if "version" not in column:
            raise NotMeasured("does not start")
        if begun in left:
            note(column, begun, cases, ended, "")
            left.remove(begun)
        elif left:
            raise NotMeasured(f"does not come to the case {left[0]!r}")
    if (column["outcomes"]["allows"], column["outcomes"]["blocks"]) != ("ran", "blocked"):
        raise NotMeasured("its policy neither allows nor blocks as it should, so the rest would say nothing")
    return column


def note(column: Column, case: str, cases: Mapping[str, str], outcome: str, error: str) -> None:
    progress(f"{title(column)}: one that {cases[case]}: {outcome}")
    column["outcomes"][case] = outcome
    if error and outcome != "-":
        column["errors"][case] = error


# Telling


def title(column: Column) -> str:
    return f"{column['name']}, `{column['setting']}`" if column["setting"] else column["name"]


def cell(case: str, outcome: str) -> str:
    return f"**{outcome}**" if outcome in BAD and case != "allows" else outcome


def shown_in(group: str, columns: Sequence[Column]) -> list[Column]:
    """The columns of one table; hooksdk as it comes stands in both, and with its setting in the first."""
    groups = {rival.name: rival.group for rival in RIVALS}
    alike = {group, "both"} if group == GROUPS[0] else {group}
    return [
        column
        for column in columns
        if groups[column["name"]] in alike or (groups[column["name"]] == "both" and not column["setting"])
    ]


def table(columns: Sequence[Column], group: str) -> str:
    shown = shown_in(group, columns)
    rows = [["a policy that", *(title(column) for column in shown)], ["---"] * (len(shown) + 1)]
    rows += [[said, *(cell(case, column["outcomes"][case]) for column in shown)] for case, said in CASES.items()]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def stored() -> list[Column]:
    return json.loads(RESULTS.read_text("utf-8")) if RESULTS.exists() else []


def write(columns: Sequence[Column]) -> None:
    """Measured columns take the place of those of the same rivals."""
    measured = {column["name"] for column in columns}
    kept = [column for column in stored() if column["name"] not in measured]
    order = [rival.name for rival in RIVALS]
    every = sorted([*kept, *columns], key=lambda column: order.index(column["name"]))
    RESULTS.write_text(json.dumps(every, indent=1) + "\n", "utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    names = [rival.name for rival in RIVALS]
    parser.add_argument(
        "--only", action="append", choices=names, metavar="NAME", help=f"of {', '.join(names)}; repeatable"
    )
    parser.add_argument("--json", action="store_true", help="JSON instead of tables")
    parser.add_argument("--write", action="store_true", help=f"store what was measured in {RESULTS.name}")
    parser.add_argument(
        "--cache", type=Path, default=Path.home() / ".cache" / "hooksdk-rivals", help="where they are installed"
    )
    options = parser.parse_args()
    columns: list[Column] = []
    for rival in RIVALS:
        if options.only and rival.name not in options.only:
            continue
        try:
            python = python_of(rival, options.cache)
            made = [measure(rival.name, python, rival.file, setting) for setting in dict.fromkeys(["", rival.strict])]
        except NotMeasured as why:
            progress(f"{rival.name} is left out: it {why}")
            continue
        today = dt.datetime.now(dt.UTC).date().isoformat()
        columns += [column | {"package": rival.package, "measured": today} for column in made]
    if options.write:
        write(columns)
    if options.json:
        print(json.dumps(columns, indent=1))
        return
    for group in GROUPS:
        print(f"\n{table(columns, group)}")


if __name__ == "__main__":
    main()
