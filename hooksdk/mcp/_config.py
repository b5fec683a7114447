"""The `mcpServers` mapping, read and checked, before anything is started."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, cast

from pydantic import (
    AfterValidator,
    AliasChoices,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    InstanceOf,
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
from hooksdk.mcp._fill import AskInput, Filling, read_inputs
from hooksdk.mcp._scope import SCOPES, Scope, asks_secrets, default_scope
from hooksdk.mcp.settings import BARE_FOLDERS, ENTRY_KEYS, MOST_SECONDS, Shape, find_servers, load_file, plain_entry
from hooksdk.mcp.sign_in._store import OAuthSettings, read_oauth

_STREAMABLE_HTTP = ("http", "streamable-http", "streamable_http", "streamablehttp")
_EXAMPLE = '{"command": "mcp-server-git"} or {"url": "http://127.0.0.1:8000/mcp"}'
# The greatest `timeout` that is accepted.
_LONGEST = 1e9


def _fill(text: str, info: ValidationInfo) -> str:
    """The text with its variables filled in; those of a server that is not started stay as they are."""
    return text if info.data.get("disabled") else cast("Filling", info.context).fill(text)


def _plain_transport(value: object) -> object:
    """One word for all names of a transport."""
    word = value.lower() if isinstance(value, str) else value
    if word == "sse":
        raise ValueError("the old SSE transport is not supported; use the server's streamable HTTP URL, type 'http'")
    return "http" if word in _STREAMABLE_HTTP else word


def _oauth(value: object, info: ValidationInfo) -> object:
    if isinstance(value, OAuthSettings):
        return value
    filling = cast("Filling", info.context)
    return read_oauth(value, str if info.data.get("disabled") else filling.fill)


_Text = Annotated[StrictStr, AfterValidator(_fill)]
_NotBlank = Annotated[_Text, Field(pattern=r"\S")]
_Seconds = Annotated[StrictFloat, Field(gt=0, le=_LONGEST, allow_inf_nan=False)]


class _Aside(set[str]):
    """Values beside an entry that do not count when entries are compared."""

    __hash__ = None  # pyright: ignore[reportAssignmentType]

    def __eq__(self, _other: object) -> bool:
        return True


def _with_credentials(values: Sequence[str]) -> set[str]:
    """The values, and the credentials after `Bearer` and the like in them."""
    return {*values, *(value.rpartition(" ")[2] for value in values)}


class ServerSpec(BaseModel):
    """One server's entry, checked and with its variables filled. Its `repr` shows no value that may be secret.

    Attributes:
        oauth: Settings of the sign-in to a server on the web, where it asks for one.
        timeout: Seconds that one call may take, where the entry says so. Most clients write milliseconds.
        start_timeout: Seconds that a start may take, where the entry says so.
        idle: Seconds without a call after which a lazy server is ended, where the entry says so.
        scope: The clients that share a process of it, where the entry says so.
    """

    model_config = ConfigDict(frozen=True)
    name: Annotated[str, Field(pattern=r"\S")]
    disabled: StrictBool = False
    command: _NotBlank = ""
    args: tuple[_Text, ...] = Field(default=(), repr=False)
    env: dict[str, _Text] = Field(default_factory=dict[str, str], repr=False)
    cwd: _NotBlank | None = None
    url: _NotBlank = Field(default="", repr=False)
    headers: dict[str, _Text] = Field(default_factory=dict[str, str], repr=False)
    oauth: Annotated[InstanceOf[OAuthSettings], BeforeValidator(_oauth)] = OAuthSettings()
    type: Annotated[Literal["stdio", "http"] | None, BeforeValidator(_plain_transport)] = Field(
        default=None, validation_alias=AliasChoices("type", "transport")
    )
    timeout: _Seconds | None = None
    start_timeout: _Seconds | None = None
    idle: _Seconds | None = None
    scope: Scope | None = None
    # Values that no message may have.
    _secrets: list[str] = PrivateAttr(default_factory=list[str])
    # Further such values: secrets that were filled in since.
    _filled: _Aside = PrivateAttr(default_factory=_Aside)

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
        if asks_secrets((self.command, *self.args, self.url, self.oauth.client_id, self.oauth.client_secret)):
            raise ValueError(
                "secrets are filled in in 'env' and 'headers' alone: others can read commands and addresses"
            )
        return self

    def model_post_init(self, context: Any, /) -> None:
        values = [value for value in (*self._values, self.oauth.client_secret) if not asks_secrets([value])]
        self._secrets = [*cast("Filling", context).secrets, *_with_credentials(values)]

    @property
    def _values(self) -> list[str]:
        return [*self.env.values(), *self.headers.values()]

    @property
    def own_scope(self) -> Scope:
        """The clients that share a process of it, by the entry's `scope` or by its other settings."""
        return self.scope or default_scope(self.url, self.command, self.args, self.env)

    @property
    def asks_secrets(self) -> bool:
        """True where its environment or headers are filled with secrets of the client that calls it."""
        return asks_secrets(self._values)

    @property
    def is_personal(self) -> bool:
        """True where the offer may depend on the client that calls it, by a secret or by a sign-in."""
        return self.own_scope != "gateway" and (self.asks_secrets or self.may_sign_in)

    def with_secrets(self, env: Mapping[str, str], headers: Mapping[str, str]) -> ServerSpec:
        """The same entry with these values, in which secrets are filled in. From now on no message has these values,
        of this entry and of all that come from it."""
        self._filled |= _with_credentials([*env.values(), *headers.values()])
        return self.model_copy(update={"env": dict(env), "headers": dict(headers)})

    @property
    def may_sign_in(self) -> bool:
        """True for a server on the web whose entry has no credentials of its own."""
        return bool(self.url) and not any(name.lower() == "authorization" for name in self.headers)

    def redact(self, text: str) -> str:
        """`text` without the values of `env`, of `headers` and of filled variables."""
        text = text.replace(self.url, self.place) if self.url else text
        known = {secret for secret in (*self._secrets, *self._filled) if len(secret) >= 4}
        for secret in sorted(known, key=len, reverse=True):
            text = text.replace(secret, "***")
        return text

    @property
    def place(self) -> str:
        """The place of the server, without secrets that a URL may have."""
        return re.sub(r"//[^/@]*@", "//", self.url.partition("?")[0]) if self.url else self.command


@dataclass
class Reading:
    """The servers of a mapping, and its problems.

    Attributes:
        problems: The problems of servers that cannot be used, by name; each begins with its place, such as `, 'url':
            ...`.
        notices: Notices of keys that are ignored, and of guesses.
    """

    where: str
    specs: list[ServerSpec] = field(default_factory=list[ServerSpec])
    problems: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    notices: list[str] = field(default_factory=list[str])

    def need_all(self) -> Reading:
        """The same reading. Raises `ConfigError` with all of its problems."""
        if self.problems:
            problems = (f"server '{name}'{one}" for name, problems in self.problems.items() for one in problems)
            raise ConfigError(self.where, tuple(problems))
        return self


def read_servers(servers: Mapping[str, Any], where: str = "mcpServers") -> Reading:
    """The servers of a mapping that code gives. Raises `ConfigError` where it has no place for servers."""
    shape = find_servers(servers, where, folder=Path.cwd(), from_file=False)
    return _read(shape, where, Filling(folder=Path.cwd(), inputs=read_inputs(shape.inputs)))


def _read(shape: Shape, where: str, filling: Filling) -> Reading:
    reading = Reading(where, notices=[f"{where}: {notice}" for notice in shape.notices])
    for name, entry in shape.entries.items():
        server = f"server '{name}'"
        if not isinstance(entry, Mapping):
            reading.problems[name] = [f": expected an object such as {_EXAMPLE}, got {_kind(entry)}"]
            continue
        values = plain_entry(cast("Mapping[str, Any]", entry))
        unknown = [key for key in values if key not in ENTRY_KEYS]
        filling.secrets = set()
        notices = [f"the key '{key}' is unknown and ignored.{did_you_mean(key, ENTRY_KEYS)}" for key in unknown]
        for key in ("timeout", "start_timeout"):
            if isinstance(seconds := values.get(key), (int, float)) and MOST_SECONDS < seconds <= _LONGEST:
                values[key] = seconds / 1000
                notices.append(
                    f"'{key}' is taken for milliseconds: {seconds:g} seconds would be {seconds / 3600:.1f} hours"
                )
        try:
            spec = ServerSpec.model_validate({**values, "name": str(name)}, context=filling)
        except ValidationError as error:
            hint = next(filter(None, (did_you_mean(key, ("command", "url")) for key in unknown)), "")
            reading.problems[name] = [f"{_problem(dict(one))}{'' if one['loc'] else hint}" for one in error.errors()]
            continue
        reading.specs.append(spec)
        reading.notices += [f"{where}: {server}: {notice}" for notice in notices]
    return reading


def check_entry(name: str, entry: Mapping[str, Any]) -> str:
    """The reason why an entry with our keys can never be used; empty where it can, once its variables have values."""
    try:
        # The variables of one that is disabled are not filled in.
        ServerSpec.model_validate({**entry, "name": name, "disabled": True}, context=Filling(folder=Path()))
    except ValidationError as error:
        return _problem(dict(error.errors()[0])).lstrip(",: ")
    return ""


def read_file(
    path: str | os.PathLike[str], *, folder: Path | None = None, ask: AskInput | None = None, digest: str = ""
) -> Reading:
    """The servers of a client's file. Raises `ConfigError` for a file that cannot be read, or has another digest than
    the given one; of text that is no JSON it names the line and column."""
    place, folder = Path(path), folder or Path.cwd()
    shape = find_servers(load_file(place, digest=digest), str(path), folder=folder, from_file=True)
    filling = Filling(
        folder=folder,
        inputs=read_inputs(shape.inputs),
        ask=ask,
        bare_names=place.absolute().parent.name in BARE_FOLDERS,
    )
    return _read(shape, str(path), filling)


def _problem(error: Mapping[str, Any]) -> str:
    """The text for one of pydantic's errors: the key, the expected value, and never the value itself."""
    key, *inner = (str(part) for part in error["loc"]) if error["loc"] else ("",)
    expected = ENTRY_KEYS.get(key, "a name")
    if error["type"] == "value_error":
        message = str(error["ctx"]["error"])
    elif error["type"] == "literal_error":
        words = SCOPES if key == "scope" else ("stdio", "http", "streamable-http")
        message = f"expected {expected}.{did_you_mean(str(error['input']), words)}"
    elif inner:
        message = f"expected text, got {_kind(error['input'])}. Write it in quotes"
    else:
        message = f"expected {expected}, got {_kind(error['input'])}"
    return f", '{'.'.join([key, *inner])}': {message}" if key else f": {message}"


def _kind(value: object) -> str:
    """The type of a value in JSON's words."""
    if isinstance(value, str):
        return "text" if value.strip() else "empty text"
    kinds: dict[str, Any] = {
        "true or false": bool,
        "a number": (int, float),
        "an object": Mapping,
        "a list": (list, tuple),
    }
    return next((words for words, kind in kinds.items() if isinstance(value, kind)), type(value).__name__)
