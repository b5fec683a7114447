"""The `mcpServers` mapping, read and checked, before anything is started."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, cast

from pydantic import (
    AfterValidator,
    AliasChoices,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PrivateAttr,
    StrictBool,
    StrictFloat,
    StrictStr,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)

from hooksdk.errors import ConfigError, did_you_mean

_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")
_STREAMABLE_HTTP = ("http", "streamable-http", "streamable_http", "streamablehttp")
_EXAMPLE = '{"command": "mcp-server-git"} or {"url": "http://127.0.0.1:8000/mcp"}'
_EXPECTED = {
    "command": "text, its arguments in 'args'",
    "args": 'a list of texts such as ["--verbose"]',
    "env": 'an object such as {"NAME": "value"}',
    "cwd": "text",
    "url": "text",
    "headers": 'an object such as {"NAME": "value"}',
    "type": "'stdio', 'http' or 'streamable-http'",
    "transport": "'stdio', 'http' or 'streamable-http'",
    "disabled": "true or false",
    "timeout": "a number of seconds above 0, such as 60",
}
"""The keys of an entry, and what each one holds."""


def _fill(text: str, info: ValidationInfo) -> str:
    """The text with its `${VAR}` filled in; what was filled in counts as secret."""
    secrets = cast("set[str]", info.context)

    def value_of(match: re.Match[str]) -> str:
        name, default = match[1], match[2]
        value = os.environ.get(name)
        if value:
            secrets.add(value)
            return value
        if default is None and value is None:
            if info.data.get("disabled"):
                return match[0]
            raise ValueError(
                f"the environment variable {name} is not set. Set it, or write a default as ${{{name}:-value}}"
            )
        return default or ""

    return _VARIABLE.sub(value_of, text)


def _plain_transport(value: object) -> object:
    """The names of one transport as one word."""
    word = value.lower() if isinstance(value, str) else value
    if word == "sse":
        raise ValueError("the old SSE transport is not supported; use the server's streamable HTTP URL, type 'http'")
    return "http" if word in _STREAMABLE_HTTP else word


_Text = Annotated[StrictStr, AfterValidator(_fill)]
_NotBlank = Annotated[_Text, Field(pattern=r"\S")]


class ServerSpec(BaseModel):
    """One server's entry, checked and with its variables filled. Its `repr` shows no value that may be secret."""

    model_config = ConfigDict(frozen=True)
    name: Annotated[str, Field(pattern=r"\S")]
    disabled: StrictBool = False
    command: _NotBlank = ""
    args: tuple[_Text, ...] = Field(default=(), repr=False)
    env: dict[str, _Text] = Field(default_factory=dict[str, str], repr=False)
    cwd: _NotBlank | None = None
    url: _NotBlank = Field(default="", repr=False)
    headers: dict[str, _Text] = Field(default_factory=dict[str, str], repr=False)
    type: Annotated[Literal["stdio", "http"] | None, BeforeValidator(_plain_transport)] = Field(
        default=None, validation_alias=AliasChoices("type", "transport")
    )
    timeout: Annotated[StrictFloat, Field(gt=0, allow_inf_nan=False)] | None = None
    """Seconds that one call may take, where the entry says so."""
    _secrets: list[str] = PrivateAttr(default_factory=list[str])
    """Values that no message may hold, longest first."""

    @field_validator("url")
    @classmethod
    def _check_url(cls, url: str, info: ValidationInfo) -> str:
        if info.data.get("command"):
            raise ValueError("has a command too; keep 'command' for a local program or 'url' for a server on the web")
        if not url.startswith(("http://", "https://", "${")):
            raise ValueError("expected a URL that begins with http:// or https://")
        return url

    @model_validator(mode="after")
    def _check_place(self) -> ServerSpec:
        if not self.command and not self.url and self.type is None:
            raise ValueError(f"needs a 'command' or a 'url', such as {_EXAMPLE}.")
        needed = "url" if self.type == "http" else "command"
        if self.type and not getattr(self, needed):
            raise ValueError(f"'{needed}' is missing, and a server of this type needs one.")
        return self

    def model_post_init(self, context: Any, /) -> None:
        values = [*self.env.values(), *self.headers.values()]
        secrets = {*cast("set[str]", context), *values, *(value.rpartition(" ")[2] for value in values)}
        self._secrets = sorted((value for value in secrets if len(value) >= 4), key=len, reverse=True)

    def redact(self, text: str) -> str:
        """`text` without the values of `env`, of `headers` and of filled variables."""
        text = text.replace(self.url, self.place) if self.url else text
        for secret in self._secrets:
            text = text.replace(secret, "***")
        return text

    @property
    def place(self) -> str:
        """Where the server is, without what a URL may carry in secret."""
        return re.sub(r"//[^/@]*@", "//", self.url.partition("?")[0]) if self.url else self.command


def read_servers(servers: Mapping[str, Any], where: str = "mcpServers") -> tuple[list[ServerSpec], list[str]]:
    """The servers of the mapping, and one notice for each key that is ignored. Raises `ConfigError`.

    The mapping may stand under `mcpServers`, or under `servers` as VS Code has it.
    """
    for key in ("mcpServers", "servers"):
        inner = servers.get(key)
        if isinstance(inner, Mapping) and not {"command", "url"} & cast("Mapping[str, Any]", inner).keys():
            servers = cast("Mapping[str, Any]", inner)
            break
    problems: list[str] = []
    notices: list[str] = []
    specs: list[ServerSpec] = []
    for name, entry in servers.items():
        server = f"server '{name}'"
        if not isinstance(entry, Mapping):
            problems.append(f"{server}: expected an object such as {_EXAMPLE}, got {_kind(entry)}")
            continue
        values = {str(key): value for key, value in cast("Mapping[object, object]", entry).items() if value is not None}
        unknown = [key for key in values if key not in _EXPECTED]
        context: set[str] = set()
        try:
            spec = ServerSpec.model_validate({**values, "name": str(name)}, context=context)
        except ValidationError as error:
            hint = next(filter(None, (did_you_mean(key, ("command", "url")) for key in unknown)), "")
            problems += [f"{server}{_problem(dict(one))}{'' if one['loc'] else hint}" for one in error.errors()]
            continue
        specs.append(spec)
        notices += [
            f"{server}: the key '{key}' is unknown and ignored.{did_you_mean(key, _EXPECTED)}" for key in unknown
        ]
        if (seconds := spec.timeout or 0) >= 3600:
            notices.append(f"{server}: 'timeout' counts seconds; {seconds:g} means {seconds / 3600:.1f} hours")
    if problems:
        raise ConfigError(where, tuple(problems))
    return specs, [f"{where}: {notice}" for notice in notices]


def read_file(path: str | os.PathLike[str]) -> tuple[list[ServerSpec], list[str]]:
    """The servers of a JSON file. Raises `ConfigError`; of text that is no JSON it names the line and column."""
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(str(path), (f"cannot be read: {getattr(error, 'strerror', None) or error}",)) from None

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for name, value in pairs:
            if name in values:
                raise ConfigError(str(path), (f"'{name}' stands twice in one object; keep one of them",))
            values[name] = value
        return values

    try:
        value = json.loads(text, object_pairs_hook=unique)
    except json.JSONDecodeError as error:
        raise ConfigError(f"{path}:{error.lineno}:{error.colno}", (f"is not JSON: {error.msg}",)) from None
    except RecursionError:
        raise ConfigError(str(path), ("is nested too deeply; expected a file with mcpServers",)) from None
    if not isinstance(value, dict):
        raise ConfigError(f"{path}:1:1", ('expected an object such as {"mcpServers": {...}}',))
    return read_servers(cast("dict[str, Any]", value), str(path))


def _problem(error: Mapping[str, Any]) -> str:
    """One of pydantic's errors in an entry: the key, what is expected there, and never a value."""
    key, *inner = (str(part) for part in error["loc"]) if error["loc"] else ("",)
    expected = _EXPECTED.get(key, "a name")
    if error["type"] == "value_error":
        message = str(error["ctx"]["error"])
    elif error["type"] == "literal_error":
        message = f"expected {expected}.{did_you_mean(str(error['input']), ('stdio', 'http', 'streamable-http'))}"
    elif inner:
        message = f"expected text, got {_kind(error['input'])}. Write it in quotes"
    else:
        message = f"expected {expected}, got {_kind(error['input'])}"
    return f", '{'.'.join([key, *inner])}': {message}" if key else f": {message}"


def _kind(value: object) -> str:
    """What a value is, in JSON's words, without the value."""
    if isinstance(value, str):
        return "text" if value.strip() else "empty text"
    kinds: dict[str, Any] = {
        "true or false": bool, "a number": (int, float), "an object": Mapping, "a list": (list, tuple),
    }  # fmt: skip
    return next((words for words, kind in kinds.items() if isinstance(value, kind)), type(value).__name__)
