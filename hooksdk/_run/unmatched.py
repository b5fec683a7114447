"""Patterns and names of plugins that meet no tool: most often a slip of the pen, and then a policy is missing."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import final

from hooksdk._firing.dispatcher import Dispatcher
from hooksdk._firing.event import RunInfo
from hooksdk._firing.hook import Handler
from hooksdk._firing.signature import locate
from hooksdk._tasks.background import logger
from hooksdk.catalog import Catalog
from hooksdk.patterns import near_tools
from hooksdk.records import Unmatched
from hooksdk.tools import Tool

# What patterns begin with that are for what MCP servers offer beside their tools.
BESIDE = ("resource:", "prompt:")


def unmatched_patterns(handlers: Iterable[Handler], tools: Sequence[Tool]) -> dict[str, list[str]]:
    """The tool patterns of handlers that match none of these tools, by plugin."""
    unmatched: dict[str, list[str]] = {}
    for handler in handlers:
        for pattern in handler.tools or ():
            texts = unmatched.setdefault(handler.plugin, [])
            if pattern.text.startswith(BESIDE):  # none of them is in a catalog
                continue
            if pattern.text not in texts and not any(handler.is_meant(pattern, tool) for tool in tools):
                texts.append(pattern.text)
    return {plugin: texts for plugin, texts in unmatched.items() if texts}


@final
class UnmatchedNames:
    """Tells once in a session what its plugins' patterns and names do not meet."""

    def __init__(self, *, subagent: bool = False) -> None:
        # A sub-agent is given some of the tools on purpose; its parent's session tells.
        self._patterns_checked = subagent
        self._withheld: set[tuple[str, str]] = set()
        self._twins: set[str] = set()

    def check_twins(self, tools: Iterable[Tool]) -> None:
        """Log the tools that are left out because their owner has another one of that name, each once."""
        kept: dict[str, Tool] = {}
        for tool in tools:
            first = kept.setdefault(tool.id, tool)
            if first is not tool and tool.id not in self._twins:
                self._twins.add(tool.id)
                places = [locate(getattr(one.execute, "function", one.execute)) for one in (first, tool)]
                advice = "Give one of them another name"
                logger.warning("two tools are called '%s': %s counts, %s is left out. %s", tool.id, *places, advice)

    async def check_patterns(self, dispatcher: Dispatcher, info: RunInfo, tools: Sequence[Tool]) -> None:
        """Log and trace the `tools` patterns of handlers that match nothing, at the first catalog that has tools."""
        if self._patterns_checked or not tools:
            return
        self._patterns_checked = True
        handlers = (handler for handlers in dispatcher.plans.values() for handler in handlers)
        unmatched = unmatched_patterns(handlers, tools)
        if not unmatched:
            return
        logger.warning(
            "no tool of this session matches: %s",
            "; ".join(
                f"plugin '{plugin}': " + ", ".join(f"tools='{text}'.{near_tools(text, tools)}" for text in texts)
                for plugin, texts in unmatched.items()
            ),
        )
        for plugin, texts in unmatched.items():
            await dispatcher.trace(info, Unmatched(plugin=plugin, where="tools", names=tuple(texts)))

    async def check_withheld(
        self, dispatcher: Dispatcher, info: RunInfo, plugin: str, names: Iterable[str], catalog: Catalog
    ) -> None:
        """Log and trace the names of a `Withhold` that name no tool, each once: as a warning where a tool is called
        alike or the name is written as a pattern. A tool that is withheld only where it is there is no mistake."""
        all_names = {name for tool in catalog for name in (tool.name, tool.own_name, tool.id)} | set(catalog.withheld)
        unknown = [
            name for name in dict.fromkeys(names) if name not in all_names and (plugin, name) not in self._withheld
        ]
        if not unknown:
            return
        self._withheld.update((plugin, name) for name in unknown)
        for name in unknown:
            if re.search(r"[*?]", name):
                hint = " It takes names and ids, no patterns: withhold the names of event.tools that match"
            else:
                hint = near_tools(name, [*catalog])
            tell = logger.warning if hint else logger.info
            tell("plugin '%s': Withhold names '%s', and there is no such tool.%s", plugin, name, hint)
        await dispatcher.trace(info, Unmatched(plugin=plugin, where="Withhold", names=tuple(unknown)))
