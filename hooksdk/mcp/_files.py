"""The files that an `McpServers` has its servers from, read again when they change."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from hooksdk.config import FileWatch
from hooksdk.errors import ConfigError
from hooksdk.mcp._config import Reading, ServerSpec, read_file
from hooksdk.mcp._fill import AskInput, ServerInput
from hooksdk.mcp._status import ServerStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class Reload:
    """What a newer configuration has changed, as names of servers."""

    added: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    """They are started anew; the calls that they had taken end before they are stopped."""
    removed: tuple[str, ...] = ()
    """They are stopped once the calls that they had taken are over."""
    problems: tuple[str, ...] = ()
    """What is wrong with it, one line each. Where a file or an entry is broken, the servers that it had before stay."""


class ServerFiles:
    """Files with servers. Of one that is broken, its last good reading counts."""

    def __init__(
        self,
        paths: Sequence[str | os.PathLike[str]] = (),
        *,
        ask: AskInput | None = None,
        digests: Mapping[Path, str] | None = None,
        only: Collection[str] | None = None,
    ) -> None:
        self.paths = tuple(paths)
        self._only = only
        self._ask = ask
        self._digests = {**(digests or {})}
        self._answers: dict[tuple[str, str], str] = {}
        """What was asked, by file and question: nobody is asked twice."""
        self._good: dict[str, Reading] = {}
        self._watch = FileWatch(map(Path, self.paths))

    def changed(self) -> bool:
        """True when a file is another than when this was last asked."""
        return self._watch.changed()

    def successor(self, paths: Sequence[str | os.PathLike[str]], digests: Mapping[Path, str] | None) -> ServerFiles:
        """The files to go on with, where others are given, or the same ones with other digests."""
        if not paths and digests is None:
            return self
        digests = self._digests if digests is None else digests
        other = ServerFiles(paths or self.paths, ask=self._ask, digests=digests, only=self._only)
        other._answers, other._good = self._answers, {**self._good}
        return other

    def read(self) -> list[Reading]:
        """The servers of each file. Raises `ConfigError` for one that cannot be read."""
        for path in self.paths:
            self._good[str(path)] = self._read(path)
        return [self._good[str(path)] for path in self.paths]

    def read_again(self) -> tuple[list[Reading], list[str]]:
        """The same, and what is wrong. What is broken is as it was before."""
        readings: list[Reading] = []
        problems: list[str] = []
        for path in self.paths:
            before = self._good.get(str(path))
            try:
                reading = self._read(path)
            except ConfigError as error:
                problems.append(str(error))
                if before is not None:
                    readings.append(before)
                continue
            known = {spec.name: spec for spec in before.specs} if before else {}
            for name in [name for name in reading.problems if name in known]:
                problems.append(f"server '{name}': {as_line(reading.where, reading.problems.pop(name))}")
                reading.specs.append(known[name])
            self._good[str(path)] = reading
            readings.append(reading)
        return readings, problems

    def _read(self, path: str | os.PathLike[str]) -> Reading:
        reading = read_file(path, ask=self._asking(path), digest=self._digests.get(Path(path), ""))
        if self._only is not None:
            reading.specs[:] = [spec for spec in reading.specs if spec.name in self._only]
            for name in reading.problems.keys() - self._only:
                del reading.problems[name]
        return reading

    def _asking(self, path: str | os.PathLike[str]) -> Callable[[ServerInput], str] | None:
        ask = self._ask
        if ask is None:
            return None

        def answer(question: ServerInput) -> str:
            key = str(path), question.id
            if key not in self._answers:
                self._answers[key] = ask(question)
            return self._answers[key]

        return answer


@dataclass
class Wanted:
    """All readings together."""

    specs: dict[str, ServerSpec] = field(default_factory=dict[str, ServerSpec])
    refused: dict[str, ServerStatus] = field(default_factory=dict[str, ServerStatus])
    """The servers that cannot be used, by a name that no other has."""
    notices: tuple[str, ...] = ()

    def add(self, reading: Reading) -> None:
        """Take in what a file says; of a name that is taken already the first server counts."""
        for name, problems in reading.problems.items():
            self._refuse(name, problems, reading.where)
        for spec in reading.specs:
            if spec.name in self.specs:
                self._refuse(spec.name, ["another file has a server of this name; rename one of them"], reading.where)
            else:
                self.specs[spec.name] = spec
        self.notices += tuple(reading.notices)

    def _refuse(self, name: str, problems: list[str], where: str) -> None:
        key = name if name not in self.specs and name not in self.refused else f"{name} of {where}"
        self.refused[key] = ServerStatus(name=key, state="failed", problem=as_line(where, problems))


def as_line(where: str, problems: Sequence[str]) -> str:
    """What is wrong with one entry."""
    return f"{where}: {'; '.join(problem.lstrip(':, ') for problem in problems)}"
