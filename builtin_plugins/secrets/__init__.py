"""Values of secrets for the tools that may have them, and results without text that looks like a secret.

The model writes `{{secret:NAME}}`. The configuration says which tools may have NAME, and where its value comes from. A
value is read each time a call asks for it, and kept nowhere. Results of tools are searched by the rules of Kingfisher.

Status: stable.
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
        """Settings.

        Attributes:
            secrets: By name: the source of the value, and the tools that may have it.
            redact: Whether secret-shaped text is taken out of results. Needs `pip install 'hooksdk[secrets]'`.
            allow: What is not redacted: regular expressions for the whole text, or `sha256:` and the hash of one.
        """

        model_config = ConfigDict(extra="forbid")
        secrets: dict[str, Source] = Field(default_factory=dict)
        redact: bool = True
        allow: AllowList = Field(default_factory=list)

        @classmethod
        def with_project(cls, own: Mapping[str, Any], project: ProjectSettings) -> tuple[dict[str, Any], list[str]]:
            """Without trust a project's settings do not count: they could hand the user's variables to any tool, run
            code (`from = "function"`), and switch redaction off. With trust they may add secrets of new names."""
            if not project.trusted:
                return dict(own), list(project.values)
            given = project.values.get("secrets", {})
            theirs: dict[str, Any] = {name: pin(source, project) for name, source in given.items()}
            return {**project.values, **own, "secrets": {**theirs, **own.get("secrets", {})}}, []

        @model_validator(mode="after")
        def _check_package(self) -> SecretValues.Config:
            if self.redact:
                need(
                    "kingfisher_sdk", "with redact = true results are searched by the package kingfisher-secret-scanner"
                )
            return self

    @classmethod
    def diagnose(cls, config: Config, tools: Sequence[Tool] | None) -> Iterator[str]:
        """What `hooksdk doctor` says: tools that a secret's patterns nearly match, and that do not get it."""
        for name, source in config.secrets.items():
            near = near_misses(map(ToolPattern, source.tools), tools or (), exact=True)
            yield from (Notice(f"secrets.{name}.tools: {line}") for line in near)

    @classmethod
    @asynccontextmanager
    async def shared(cls, config: Config) -> AsyncGenerator[Redactor | None, None]:
        """One redactor for all sessions: loading its rules takes some tenths of a second."""
        yield await anyio.to_thread.run_sync(Redactor, config.allow) if config.redact else None

    def __init__(self, config: Config, shared: Redactor | None) -> None:
        self._secrets = config.secrets
        self._redactor = shared

    @hooks.resolve_secrets(timeout=30)
    async def resolve(self, event: ResolveSecrets) -> Secrets | None:
        """Answer the values that this tool may have. Other names read for the model like unknown ones."""
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
        """Replace text that looks like a secret; the rest of the result stays as it is."""
        if self._redactor is None:
            return None
        rules: Counter[str] = Counter()
        result = await self._redactor.redact(event.result, rules)
        if not rules:
            return None
        event.count("secrets_redacted", rules.total())
        tool = event.tool.id if event.tool else event.call.name
        found = ", ".join(f"{count} {rule}" for rule, count in rules.items())
        logger.info("secrets: redacted in a result of %s: %s", tool, found)
        return Replace(result)
