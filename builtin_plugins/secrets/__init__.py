"""Values of secrets for the tools that may have them, and results without text that looks like a secret.

The model writes `{{secret:NAME}}`. Which tools may have NAME, and where its value comes from, says the configuration. A
value is read each time a call asks for it and kept nowhere. What the tools answer is searched by the rules of Kingfisher.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import anyio.to_thread
from pydantic import BaseModel, ConfigDict, Field, model_validator

from builtin_plugins.secrets._redactor import AllowList, Redactor
from builtin_plugins.secrets._sources import NoValue, Source, need, pin
from hooksdk import Tool, hooks
from hooksdk.config import Notice, ProjectSettings
from hooksdk.hooks import Replace, ResolveSecrets, Secrets, TransformToolResult
from hooksdk.patterns import ToolPattern, near_misses

__all__ = ["SecretValues"]

logger = logging.getLogger("hooksdk")


class SecretValues:
    """Give values for placeholders, and redact secret-shaped text."""

    class Config(BaseModel):
        """Settings."""

        model_config = ConfigDict(extra="forbid")
        secrets: dict[str, Source] = Field(default_factory=dict)
        """By name: where the value comes from, and the tools that may have it."""
        redact: bool = True
        """Take secret-shaped text out of results. Needs `pip install 'hooksdk[secrets]'`."""
        allow: AllowList = Field(default_factory=list)
        """What is not redacted: regular expressions for the whole text, or `sha256:` and the hash of one."""

        @classmethod
        def with_project(cls, own: Mapping[str, Any], project: ProjectSettings) -> tuple[dict[str, Any], list[str]]:
            """Of a project's file nothing counts without trust: it could hand the user's variables to any tool, run code
            (`from = "function"`), and switch off what is redacted. With trust it may add secrets of new names."""
            if not project.trusted:
                return dict(own), list(project.values)
            theirs: dict[str, Any] = {
                name: pin(source, project) for name, source in project.values.get("secrets", {}).items()
            }
            return {**project.values, **own, "secrets": {**theirs, **own.get("secrets", {})}}, []

        @model_validator(mode="after")
        def _check_package(self) -> SecretValues.Config:
            if self.redact:
                why = "with redact = true results are searched by the package kingfisher-secret-scanner"
                need("kingfisher_sdk", why)
            return self

    @classmethod
    def diagnose(cls, config: Config, tools: Sequence[Tool] | None) -> Iterator[str]:
        """What `hooksdk doctor` says: tools that a secret's patterns are near to, and that do not get it."""
        for name, source in config.secrets.items():
            near = near_misses(map(ToolPattern, source.tools), tools or (), exact=True)
            yield from (Notice(f"secrets.{name}.tools: {line}") for line in near)

    @classmethod
    @asynccontextmanager
    async def shared(cls, config: Config) -> AsyncGenerator[Redactor | None, None]:
        """One redactor for all sessions: its rules take some tenths of a second to load."""
        yield await anyio.to_thread.run_sync(Redactor, config.allow) if config.redact else None

    def __init__(self, config: Config, shared: Redactor | None) -> None:
        self._secrets = config.secrets
        self._redactor = shared

    @hooks.resolve_secrets(timeout=30)
    async def resolve(self, event: ResolveSecrets) -> Secrets | None:
        """Answer the values that this tool may have. Of the others the model reads the same as of names that nobody knows."""
        values: dict[str, str] = {}
        for name in event.names:
            source = self._secrets.get(name)
            if source is None:
                continue
            if not source.is_for(event.tool):
                logger.warning("secrets: %s is not for %s, whose call asked for it", name, event.tool.id)
                continue
            try:
                values[name] = await source.read(name, event.requester)
            except NoValue as problem:
                logger.warning("secrets: there is no value for %s: %s", name, problem)
        return Secrets(values) if values else None

    @hooks.transform_tool_result(required=True)
    async def redact(self, event: TransformToolResult) -> Replace | None:
        """Replace what looks like a secret; the rest of the result stays as it is."""
        if self._redactor is None:
            return None
        rules: Counter[str] = Counter()
        result = await self._redactor.redact(event.result, rules)
        if not rules:
            return None
        event.count("secrets_redacted", rules.total())
        tool = event.tool.id if event.tool else event.call.name
        logger.info(
            "secrets: redacted in a result of %s: %s", tool, ", ".join(f"{n} {rule}" for rule, n in rules.items())
        )
        return Replace(result)
