"""The files with the servers of an `McpServers`, which are read again when they change."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from pathlib import Path

from hooksdk.config import FileWatch
from hooksdk.errors import ConfigError
from hooksdk.mcp._config import Reading, ServerSpec, read_file
from hooksdk.mcp._fill import AskInput, ServerInput
from hooksdk.mcp._status import ServerStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class Reload:
    """The changes by a newer configuration, as names of servers.

    Attributes:
        changed: Servers that are started anew; they are stopped once their calls are over.
        removed: Servers that are stopped once their calls are over.
        problems: The problems of the configuration, one line each. Of a broken file or entry, the earlier servers stay.
    """

    added: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()


@dataclass(eq=False)
class ServerFiles:
    """Files with servers. Of a broken file, the last good reading counts.

    Attributes:
        digests: The digests that the files' content must have.
        only: The names of the servers that count; None: all.
    """

    paths: Sequence[str | os.PathLike[str]] = ()
    _: KW_ONLY
    ask: AskInput | None = None
    digests: Mapping[Path, str] | None = None
    only: Collection[str] | None = None
    # The answers to questions, by file and question, so that no question is asked twice.
    _answers: dict[tuple[str, str], str] = field(default_factory=dict[tuple[str, str], str])
    # The last good reading of each file.
    _good: dict[str, Reading] = field(default_factory=dict[str, Reading])

    def __post_init__(self) -> None:
        self._watch = FileWatch(map(Path, self.paths))

    def changed(self) -> bool:
        """True when a file has changed since the last call of this method."""
        return self._watch.changed()

    def successor(self, paths: Sequence[str | os.PathLike[str]], digests: Mapping[Path, str] | None) -> ServerFiles:
        """The files that follow on these, where other paths or other digests are given."""
        if not paths and digests is None:
            return self
        digests = self.digests if digests is None else digests
        return replace(self, paths=paths or self.paths, digests=digests, _good={**self._good})

    def read(self) -> list[Reading]:
        """The servers of each file. Raises `ConfigError` for one that cannot be read."""
        for path in self.paths:
            self._good[str(path)] = self._read(path)
        return [self._good[str(path)] for path in self.paths]

    def read_again(self) -> tuple[list[Reading], list[str]]:
        """The servers of each file, and the problems. The earlier servers stay of what is broken."""
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
        reading = read_file(path, ask=self._asking(path), digest=(self.digests or {}).get(Path(path), ""))
        if self.only is not None:
            reading.specs[:] = [spec for spec in reading.specs if spec.name in self.only]
            for name in reading.problems.keys() - self.only:
                del reading.problems[name]
        return reading

    def _asking(self, path: str | os.PathLike[str]) -> Callable[[ServerInput], str] | None:
        ask = self.ask
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
    """The servers of all files together.

    Attributes:
        refused: The servers that cannot be used, by unique names.
    """

    specs: dict[str, ServerSpec] = field(default_factory=dict[str, ServerSpec])
    refused: dict[str, ServerStatus] = field(default_factory=dict[str, ServerStatus])
    notices: tuple[str, ...] = ()

    def add(self, reading: Reading) -> None:
        """Add the servers of a file; of two servers of one name the first counts."""
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
    """The problems of one entry in one line."""
    return f"{where}: {'; '.join(problem.lstrip(':, ') for problem in problems)}"
