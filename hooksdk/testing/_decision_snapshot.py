"""A file of decisions that a replay is compared with."""

from __future__ import annotations

import re
from pathlib import Path
from typing import final

from hooksdk.testing._snapshots import differences, read_snapshot, snapshot_of, write_snapshot
from hooksdk.testing._verdicts import Replay


@final
class DecisionSnapshot:
    """What a test expects of a replay: `assert replay(...) == decision_snapshot`. It equals a replay that decides as its file
    says. With `update`, it writes the file where that says otherwise, or is not there.

    ```python
    from pathlib import Path

    from hooksdk.testing import DecisionSnapshot, replay

    decisions = replay([{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Good day."}], [])
    assert decisions == DecisionSnapshot(Path("nothing.decisions.json"), update=True)
    assert decisions == DecisionSnapshot(Path("nothing.decisions.json"))
    ```
    """

    def __init__(self, path: Path, *, update: bool = False, values: bool = False) -> None:
        """`values` writes arguments as they are, not their digests."""
        self.path = path
        self._update = update
        self._values = values

    @classmethod
    def of_test(cls, test: Path, name: str, *, update: bool = False) -> DecisionSnapshot:
        """That of the test with this name, in a file beside the test's own."""
        return cls(test.with_name(f"{test.stem}.{_file_word(name)}.decisions.json"), update=update)

    def __call__(self, name: str) -> DecisionSnapshot:
        """Another snapshot of the same test, with this in its file's name."""
        path = self.path.with_name(self.path.name.replace(".decisions.json", f".{_file_word(name)}.decisions.json"))
        return DecisionSnapshot(path, update=self._update, values=self._values)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Replay):
            return NotImplemented
        problems = self.explain(other)
        if problems and self._update:
            self.write(other)
            return True
        return not problems

    __hash__ = None  # pyright: ignore[reportAssignmentType] - what it equals changes with its file

    def explain(self, replay: Replay) -> list[str]:
        """What differs, one line each; none where they are equal."""
        if not self.path.exists():
            return [f"there is no {self.path.name} yet: pytest --hooksdk-update writes it"]
        problems = self.differences(replay)
        advice = f"as {self.path.name} says; where the change is meant: pytest --hooksdk-update"
        return [*problems, advice] if problems else []

    def differences(self, replay: Replay) -> list[str]:
        """What the plugins decide otherwise than the file says, one line each. Raises `ConfigError` for one that cannot be
        read."""
        return differences(read_snapshot(self.path), replay)

    def write(self, replay: Replay) -> None:
        """Write the file, whatever it says now. Raises `ConfigError`."""
        write_snapshot(self.path, snapshot_of(replay, values=self._values))

    def __repr__(self) -> str:
        return f"DecisionSnapshot({self.path.name})"


def _file_word(name: str) -> str:
    """A name as part of a file's name."""
    return re.sub(r"[^\w.-]+", "-", name).strip("-")
