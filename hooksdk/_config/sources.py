"""The sources of settings: the user's file, the project's file, the environment and code; a watch over files; and the
advice on settings that do not count."""

from __future__ import annotations

import os
import re
import shlex
import stat
import sys
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from pydantic import BaseModel

from hooksdk.errors import ConfigError, did_you_mean, unknown_key


def trust_advice(folder: Path) -> str:
    """What to type so that a folder's settings count."""
    name = str(folder)
    return f"Look at it and type: hooksdk trust {shlex.quote(name) if name.isprintable() else repr(name)}"


def printable_entry(entry: str) -> str:
    """The entry's name, which a stranger may have written."""
    return entry if entry.isprintable() else repr(entry)


class FileWatch:
    """Some files, which need not exist. A look costs one question to the file system for each."""

    def __init__(self, paths: Iterable[Path]) -> None:
        self._paths = tuple(paths)
        self._seen = self._look()

    def changed(self) -> bool:
        """True when one of them is another than at the last look. Look first and read then: what is written while you
        read is seen by the next look."""
        before, self._seen = self._seen, self._look()
        return self._seen != before

    def _look(self) -> list[tuple[int, ...] | None]:
        return [_stamp(path) for path in self._paths]


def _stamp(path: Path) -> tuple[int, ...] | None:
    try:
        found = path.stat()
    except (OSError, ValueError):
        return None
    return found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino, found.st_dev


FILE_NAME = "hooksdk.toml"
# Where a project has its settings: the first of these that has any.
PROJECT_FILES = (FILE_NAME, "pyproject.toml")
# The table of the user's file in which `trusted_digests` are.
TRUST_TABLE = "trust"
SIMPLE_VARIABLES = {"store", "on_missing_grant", "drain", "plugins_file"}
LIST_VARIABLES = {"allow", "deny", "mcp"}
# Variables that are read elsewhere.
OTHER_VARIABLES = {"HOOKSDK_HOME", "HOOKSDK_GUARD_DIR", "HOOKSDK_DISABLE_AUTOLOAD", "HOOKSDK_SESSIONS_KEY"}
# Kinds of stores that have a URL.
DATABASES = ("sqlite", "postgresql")
# Levels of tables and lists in a file. No setting needs ten; a cloned repository's file may have thousands, which would
# end as a RecursionError in whatever reads them.
MAX_DEPTH = 100

# Of a file. A guard reads what an agent has written, and the calls of other agents wait for it: one of 50 MB takes a
# minute.
MAX_BYTES = 2_000_000


def fold(plugin_id: str) -> str:
    """Plugin ids count as equal whether they are written with `-` or `_`, in upper or lower case."""
    return plugin_id.replace("-", "_").casefold()


@dataclass(frozen=True)
class Source:
    """Settings from one place.

    Attributes:
        where: The place, as a person reads it.
    """

    where: str
    data: Mapping[str, Any]


@dataclass(frozen=True)
class Sources:
    """Everything that was said, lowest first.

    Attributes:
        trusted: Digests by folder, from the user's file.
        problems: What is odd about the files, in words for a warning.
        as_trusted: Whether the project's settings count as they do in a folder that the operator trusts.
        digests: Of files that are to hold this content and no other when they are read, by resolved path.
    """

    user: Source
    project: Source
    environment: Source
    code: Source
    trusted: Mapping[str, str] = field(default_factory=dict[str, str])
    problems: Sequence[str] = ()
    as_trusted: bool = False
    digests: Mapping[Path, str] = field(default_factory=dict[Path, str])

    def __iter__(self) -> Any:
        return iter((self.user, self.project, self.environment, self.code))


def read_sources(
    folder: Path, env: Mapping[str, str], overrides: Mapping[str, Any] | None, project: Source | None = None
) -> Sources:
    """All sources of a project folder, with `project` in the place of its own file. Raises `ConfigError` for what
    cannot be read."""
    user, trusted = _read_user(env)
    return Sources(
        user=user,
        project=project or read_project(folder),
        environment=Source("environment", _from_environment(env)),
        code=Source("Host(config=...)", overrides or {}),
        trusted=trusted,
        problems=_open_to_others(user_file(env)),
        as_trusted=project is not None,
    )


def trusted_digests(env: Mapping[str, str]) -> Mapping[str, str]:
    """What the operator trusts: the digests of folders and files, by their paths, from the user's file. Raises
    `ConfigError`."""
    return _read_user(env)[1]


def _read_user(env: Mapping[str, str]) -> tuple[Source, dict[str, str]]:
    user = user_file(env)
    data = dict(_read_toml(user) or {})
    trusted = data.pop(TRUST_TABLE, {})
    if not isinstance(trusted, dict) or not all(
        isinstance(one, str) for one in cast("dict[str, Any]", trusted).values()
    ):
        problem = f"'{TRUST_TABLE}' must be a table of folders and digests; `hooksdk trust` writes it"
        raise ConfigError(str(user), (problem,))
    return Source(str(user), data), cast("dict[str, str]", trusted)


def user_file(env: Mapping[str, str]) -> Path:
    """The user's own file, which need not exist."""
    return xdg_folder("XDG_CONFIG_HOME", "~/.config", env) / "hooksdk" / "config.toml"


def xdg_folder(variable: str, default: str, env: Mapping[str, str]) -> Path:
    """The folder that a variable of the XDG base directories names. A relative one is ignored, as that specification
    has it: it would lead into whatever folder somebody is in, such as a clone of a stranger's repository."""
    folder = env.get(variable, "")
    return Path(folder if Path(folder).is_absolute() else default).expanduser()


def _open_to_others(path: Path) -> list[str]:
    """The problems of a user's file that others can write: somebody else could change it, and every trust in it."""
    if sys.platform == "win32":
        return []
    problems: list[str] = []
    for place in (path, path.parent):
        try:
            status = place.stat()
        except OSError:
            continue
        mode = status.st_mode
        if mode & stat.S_ISVTX or not (mode & stat.S_IWOTH or (mode & stat.S_IWGRP and not _own_group(status))):
            continue
        problems.append(f"other users of this machine can write {place}, which holds your own word: chmod go-w {place}")
    return problems


def _own_group(status: os.stat_result) -> bool:
    """True where a file's group is its owner's alone, as many systems make one for each user, called as the user is."""
    import grp
    import pwd

    try:
        return grp.getgrgid(status.st_gid).gr_name == pwd.getpwuid(status.st_uid).pw_name
    except KeyError:
        return False


def config_files(folder: Path, env: Mapping[str, str]) -> list[Path]:
    """The files that settings of a project folder come from, whether they are there or not."""
    return [user_file(env), folder / FILE_NAME, folder / "pyproject.toml"]


def project_folder(start: Path, is_known: Callable[[Path], bool] = lambda _folder: False) -> Path:
    """The nearest folder with settings of hooksdk, or that `is_known`, from this one up to the root of its repository,
    the one with `.git`; this one where none has any. Nobody looks into the home folder, whose own files are no
    project's, into one that other users may write, such as /tmp, or above these. Raises `ConfigError` for a file that
    cannot be read."""
    folder, home = start.resolve(), Path.home().resolve()
    while not (is_known(folder) or _has_settings(folder)):
        above = folder.parent
        is_last = (folder / ".git").exists() or folder == above or home in {folder, above}
        if is_last or above.stat().st_mode & stat.S_IWOTH:
            return start
        folder = above
    return start if folder == start.resolve() else folder


def _has_settings(folder: Path) -> bool:
    tools: Any = (_read_toml(folder / "pyproject.toml") or {}).get("tool")
    return (folder / FILE_NAME).is_file() or (isinstance(tools, dict) and "hooksdk" in tools)


def read_project(folder: Path) -> Source:
    """The project's settings: `hooksdk.toml`, or where there is none `[tool.hooksdk]` of pyproject.toml. Raises
    `ConfigError`."""
    for name in PROJECT_FILES:
        text = _text(folder / name)
        if text is not None and (source := project_settings(text, str(folder / name))) is not None:
            return source
    return Source(str(folder / FILE_NAME), {})


def project_settings(text: str, where: str) -> Source | None:
    """The settings in the text of a project's file: a whole one, or the table `[tool.hooksdk]` of a pyproject.toml;
    None where that has no such table. `where` is told in errors. Raises `ConfigError` for what is no TOML."""
    data = _parsed(text, where)
    if not where.endswith("pyproject.toml"):
        if TRUST_TABLE in data:
            raise ConfigError(where, (f"'{TRUST_TABLE}' counts in the user's file alone; take it out",))
        return Source(where, data)
    tools: Any = data.get("tool")
    table: Any = cast("dict[str, Any]", tools).get("hooksdk") if isinstance(tools, dict) else None
    return None if table is None else Source(f"{where} [tool.hooksdk]", table)


def _read_toml(path: Path) -> dict[str, Any] | None:
    """The file's tables; None where there is no such file."""
    text = _text(path)
    return None if text is None else _parsed(text, str(path))


def _text(path: Path) -> str | None:
    try:
        if not path.is_file():
            return None
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
        if len(content) > MAX_BYTES:
            raise ConfigError(str(path), (f"is too large: at most {MAX_BYTES // 1_000_000} MB",))
        return content.decode("utf-8")
    except OSError as error:
        raise ConfigError(str(path), (f"cannot be read: {error.strerror}",)) from None
    except UnicodeDecodeError as error:
        raise ConfigError(str(path), (f"is not TOML: {error}",)) from None


def _parsed(text: str, where: str) -> dict[str, Any]:
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(where, (f"is not TOML: {error}",)) from None
    except RecursionError:
        data = None
    if data is None or is_too_deep(data):
        raise ConfigError(where, (f"is nested too deep: at most {MAX_DEPTH} levels",))
    return data


def is_too_deep(data: object) -> bool:
    """True for more than `MAX_DEPTH` levels of tables and lists, which are counted without recursion."""
    level, depth = [data], 0
    while level:
        depth += 1
        level = [inner for outer in level for inner in _inside(outer)]
    return depth > MAX_DEPTH


def _inside(value: object) -> list[object]:
    if isinstance(value, dict):
        return list(cast("dict[str, object]", value).values())
    return cast("list[object]", value) if isinstance(value, list) else []


def _from_environment(env: Mapping[str, str]) -> dict[str, Any]:
    settings: dict[str, Any] = {}
    for variable, value in env.items():
        if not variable.startswith("HOOKSDK_") or variable in OTHER_VARIABLES:
            continue
        name = variable.removeprefix("HOOKSDK_").lower()
        if name in LIST_VARIABLES:
            settings[name] = [part.strip() for part in value.split(",") if part.strip()]
        elif name in SIMPLE_VARIABLES:
            words = {"true": True, "1": True, "false": False, "0": False, "": False}
            settings[name] = words.get(value.lower(), value) if name == "plugins_file" else value
        else:
            known = [f"HOOKSDK_{field.upper()}" for field in sorted(SIMPLE_VARIABLES | LIST_VARIABLES)]
            raise ConfigError("environment", (unknown_key(variable, [*known, *sorted(OTHER_VARIABLES)]),))
    return settings


def plain(value: Any) -> Any:
    """A copy of tables and models as dicts, so that nothing is shared with the source."""
    if isinstance(value, BaseModel):
        return value.model_dump(exclude_unset=True)
    return {key: plain(item) for key, item in value.items()} if isinstance(value, Mapping) else value  # pyright: ignore[reportUnknownVariableType]


def split_store(spec: str) -> tuple[str, str]:
    """Kind and place of a store's spec: a folder, an SQLite file, or the rest of PostgreSQL's URL. Raises `ValueError`
    for what is no store."""
    kind, mark, place = spec.partition("://")
    if mark and kind in DATABASES:
        place = place.removeprefix("/") if kind == "sqlite" and place.startswith("/") else place
        is_file = spec.startswith("sqlite:///") and place not in {"", ":memory:"} and "\0" not in place
        if is_file or (kind == "postgresql" and place):
            return kind, place
    kind, _, place = spec.partition(":")
    if spec == "memory" or (kind == "jsonl" and "\0" not in place):
        return kind, place
    known = "memory, jsonl, jsonl:DIRECTORY, sqlite:///FILE or postgresql://USER@HOST/DATABASE"
    hint = did_you_mean(kind, ("memory", "jsonl", *DATABASES))
    raise ValueError(f"{without_password(spec)!r} is not a store: {known}.{hint}")


def without_password(url: str) -> str:
    """A store as it may be shown to anybody: `***` for a password, before the host or among the options."""
    start, mark, rest = re.sub(r"([?&]password=)[^&]*", r"\1***", url).partition("://")
    login, at, place = rest.rpartition("@")
    user, colon, _ = login.partition(":")
    return f"{start}{mark}{user}{colon and ':***'}{at}{place}"


def state_folder() -> Path:
    """Where hooksdk keeps what outlives a process: `$HOOKSDK_HOME`, or `~/.local/state/hooksdk`. It need not exist."""
    if home := os.environ.get("HOOKSDK_HOME"):
        return Path(home).expanduser()
    return xdg_folder("XDG_STATE_HOME", "~/.local/state", os.environ) / "hooksdk"
