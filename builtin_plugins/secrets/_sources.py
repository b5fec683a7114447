"""Sources of secrets' values. A value is read when a call asks for it, and kept nowhere."""

from __future__ import annotations

import hashlib
import inspect
import json
import logging
import os
import stat
import sys
import tomllib
from abc import abstractmethod
from collections.abc import Mapping
from importlib import import_module
from io import StringIO
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, cast

import anyio.to_thread
from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, field_validator, model_validator

from hooksdk import Tool
from hooksdk.config import ProjectSettings
from hooksdk.patterns import ToolPattern

logger = logging.getLogger("hooksdk")

INSTALL = "pip install 'hooksdk[secrets]'"


class NoValue(Exception):
    """A secret has no value now. The text says why, for the operator, and quotes nothing."""


class _Source(BaseModel):
    model_config = ConfigDict(extra="forbid")
    # Patterns of the tools that may have the value; `*` is all.
    tools: list[str]
    # For each requester, by id, the entry to use instead of `variable`, `key` or `user`. Others have no value then.
    requesters: dict[str, str] | None = None
    # The option that names the entry to look up; by default that is the secret's name.
    _entry_option: ClassVar[str] = ""
    _patterns: list[ToolPattern] = PrivateAttr(default_factory=list[ToolPattern])

    @field_validator("tools", mode="before")
    @classmethod
    def _one_or_several(cls, value: object) -> object:
        return [value] if isinstance(value, str) else value

    @model_validator(mode="after")
    def _read_patterns(self) -> _Source:
        self._patterns = [ToolPattern(pattern) for pattern in self.tools]
        return self

    def is_for(self, tool: Tool) -> bool:
        """True when the tool may have the value."""
        return any(pattern.matches(tool) for pattern in self._patterns)

    async def read(self, name: str, requester: Mapping[str, Any] | None = None) -> str:
        """The value of the secret with this name for a requester. Raises `NoValue`."""
        entry = self._entry_of(name, requester)
        value = await self._look_up(entry)
        if not isinstance(value, str):
            problem = "missing" if value is None else f"no text: {type(value).__name__}"
            raise NoValue(f"{self._place(entry)} is {problem}")
        if not value.strip():
            raise NoValue(f"{self._place(entry)} is empty")
        return value

    def _entry_of(self, name: str, requester: Mapping[str, Any] | None) -> str:
        """The entry of the source to look up."""
        if self.requesters is None:
            return getattr(self, self._entry_option, None) or name
        who = (requester or {}).get("id")
        if not isinstance(who, str) or who not in self.requesters:
            raise NoValue(f"{name} has none for {'who does not say who asks' if who is None else repr(who)}")
        return self.requesters[who]

    @abstractmethod
    async def _look_up(self, entry: str) -> object: ...

    @abstractmethod
    def _place(self, entry: str) -> str: ...


class Environment(_Source):
    """A variable of the host's environment.

    Attributes:
        variable: By default the secret's name.
    """

    _entry_option: ClassVar[str] = "variable"
    origin: Literal["env"] = Field(alias="from")
    variable: str | None = None

    async def _look_up(self, entry: str) -> object:
        return os.environ.get(entry)

    def _place(self, entry: str) -> str:
        return f"the environment variable {entry}"


class File(_Source):
    """An entry of a file: JSON and TOML by their endings, any other is read as `NAME=value` lines.

    Attributes:
        path: Relative to the folder in which the host was started; `~` is the home folder.
        key: By default the secret's name. In JSON and TOML a dot leads into a table: `github.token`.
        digest: `sha256:` and the digest that the content must have. For a project's file it is the trusted digest.
    """

    _entry_option: ClassVar[str] = "key"
    origin: Literal["file"] = Field(alias="from")
    path: str
    key: str | None = None
    digest: str | None = None
    _file: Path = PrivateAttr(default_factory=Path)
    _is_reported: bool = PrivateAttr(default=False)

    @model_validator(mode="after")
    def _resolve(self) -> File:
        self._file = Path.cwd() / Path(self.path).expanduser()  # now: the process may change its folder later
        if self._file.suffix not in {".json", ".toml"}:
            need("dotenv", f"'{self.path}' is read with the package python-dotenv")
        return self

    async def _look_up(self, entry: str) -> object:
        try:
            return await anyio.to_thread.run_sync(self._read, entry)
        except OSError as error:
            raise NoValue(f"{self._file} cannot be read: {error.strerror}") from None
        except (ValueError, RecursionError) as error:  # whose text may quote the file
            raise NoValue(f"{self._file} is not valid {self._format}: {type(error).__name__}") from None

    def _place(self, entry: str) -> str:
        return f"'{entry}' in {self._file}"

    @property
    def _format(self) -> str:
        return {".json": "JSON", ".toml": "TOML"}.get(self._file.suffix, "text of NAME=value lines")

    def _read(self, key: str) -> object:
        with self._file.open("rb") as file:
            self._warn_of_readers(file.fileno())
            content = file.read()
        if self.digest not in (None, f"sha256:{hashlib.sha256(content).hexdigest()}"):
            raise NoValue(f"{self._file} has changed since it was trusted. Look at it and type: hooksdk trust")
        text = content.decode("utf-8-sig")
        if self._format not in {"JSON", "TOML"}:
            from dotenv import dotenv_values

            return dotenv_values(stream=StringIO(text), interpolate=False).get(key)
        return _entry(json.loads(text) if self._format == "JSON" else tomllib.loads(text), key)

    def _warn_of_readers(self, descriptor: int) -> None:
        mode = os.fstat(descriptor).st_mode
        if sys.platform != "win32" and mode & (stat.S_IROTH | stat.S_IWOTH) and not self._is_reported:
            self._is_reported = True
            text = "secrets: every user of this machine can read %s; type: chmod 600 %s"
            logger.warning(text, self._file, self._file)


class Keyring(_Source):
    """An entry of the system's keyring, such as `keyring set hooksdk GITHUB_TOKEN` makes.

    Attributes:
        user: By default the secret's name.
    """

    _entry_option: ClassVar[str] = "user"
    origin: Literal["keyring"] = Field(alias="from")
    service: str = "hooksdk"
    user: str | None = None

    @model_validator(mode="after")
    def _check_package(self) -> Keyring:
        need("keyring", "the system's keyring is read with the package keyring")
        return self

    async def _look_up(self, entry: str) -> object:
        import keyring

        try:
            return await anyio.to_thread.run_sync(keyring.get_password, self.service, entry)
        except Exception as error:  # every backend has errors of its own
            raise NoValue(f"the keyring cannot be read: {type(error).__name__}: {error}") from error

    def _place(self, entry: str) -> str:
        return f"the keyring's entry of service '{self.service}' and user '{entry}'"


class Function(_Source):
    """The user's function, plain or async: it is called with the secret's name, and answers its value or None.

    Attributes:
        function: `package.module:name`.
    """

    origin: Literal["function"] = Field(alias="from")
    function: str
    _call: Any = PrivateAttr(default=None)

    @model_validator(mode="after")
    def _load(self) -> Function:
        module, _, attribute = self.function.partition(":")
        try:
            call = getattr(import_module(module), attribute)
        except (ImportError, AttributeError, ValueError) as error:
            raise ValueError(f"'{self.function}' cannot be loaded as package.module:name: {error}") from error
        if not callable(call):
            raise ValueError(f"'{self.function}' is no function, but {type(call).__name__}")  # noqa: TRY004 - pydantic's kind
        self._call = call
        return self

    async def _look_up(self, entry: str) -> object:
        try:
            if inspect.iscoroutinefunction(self._call):
                return await self._call(entry)
            answer = await anyio.to_thread.run_sync(self._call, entry)
            return await answer if inspect.isawaitable(answer) else answer
        except Exception as error:  # whose text may quote the value
            raise NoValue(f"{self._place(entry)} raised {type(error).__name__}") from error

    def _place(self, entry: str) -> str:
        return f"the answer of {self.function} for '{entry}'"


Source = Annotated[Environment | File | Keyring | Function, Field(discriminator="origin")]


def pin(source: Any, project: ProjectSettings) -> Any:
    """A project's source, with its file in the project's folder, and the digest at which that is trusted."""
    match source:
        case {"from": "file", "path": str(path)}:
            place = project.path(path)
            return {**source, "path": str(place), "digest": project.digests.get(place)}
        case _:
            return source


def need(module: str, why: str) -> None:
    """Raise `ValueError` where a package is not installed."""
    try:
        import_module(module)
    except ImportError:
        raise ValueError(f"{why}, which is not installed. Type: {INSTALL}") from None


def _entry(content: object, key: str) -> object:
    """The entry with this name, or the one that its dots lead to."""
    if key in _table(content):
        return _table(content)[key]
    for part in key.split("."):
        content = _table(content).get(part)
    return content


def _table(value: object) -> dict[str, object]:
    return cast("dict[str, object]", value) if isinstance(value, dict) else {}
