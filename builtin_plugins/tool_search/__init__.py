"""Progressive disclosure: a searchable catalog instead of every schema, once the schemas would fill the context window.

The model is offered the core tools and three bridge tools. `tool_search` answers with call signatures; `tool_call` is
turned into the real call before any policy sees it. In code mode one bridge tool runs a script that searches and calls.

Status: stable.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

import anyio.to_thread

from builtin_plugins.tool_search import _sentences as sentences
from builtin_plugins.tool_search._answers.answers import describe, number_of, references, search, texts_of
from builtin_plugins.tool_search._answers.listing import listing_budget, owners_in
from builtin_plugins.tool_search._answers.scope import Refusal, Scope
from builtin_plugins.tool_search._answers.signatures import ResultForms, form_of
from builtin_plugins.tool_search._answers.streak import Streak
from builtin_plugins.tool_search._bridge.tools import Batch, bridge_tools, client_tools, fill
from builtin_plugins.tool_search._bridge.written_call import Unwrapping
from builtin_plugins.tool_search._config import Config
from builtin_plugins.tool_search._ranking.indexes import Documents, Indexes
from builtin_plugins.tool_search._ranking.keeping import Keeping, keeping
from builtin_plugins.tool_search._ranking.learned import Learning, Memory
from builtin_plugins.tool_search._reach import Reach
from builtin_plugins.tool_search._script.sandbox import Sandbox, why_not
from builtin_plugins.tool_search._script.tool import code_tool
from builtin_plugins.tool_search._script.variables import SessionVariables
from builtin_plugins.tool_search._sentences import Names, Way
from builtin_plugins.tool_search.rankers import Ranker, load_ranker
from hooksdk import Catalog, PluginState, Storage, Tool, ToolCall, ToolContext, ToolError, ToolResult, hooks, schema
from hooksdk.config import Notice
from hooksdk.patterns import ToolPattern, near_misses
from hooksdk.values import compact

__all__ = ["ToolSearch"]

UNKNOWN_WINDOW_TOKENS = 20_000
"""The threshold where the host does not know the model's context window."""
GATEWAY_TOKENS = 2_000
"""The threshold of a gateway whose clients' window is not known: some ten tools. A client pays for its list in every
request, and no client says how large its window is."""


logger = logging.getLogger("hooksdk")
T = TypeVar("T")


MAX_PROMPT = 1_000
"""Characters of what the user asked that tell which tool a made-up name means."""
INDEX_SECONDS = 300.0
"""How long a run waits for the index of its catalog: 100,000 tools take some 20 s. It is made once for all sessions."""


@dataclass(slots=True)
class _Shared:
    """What all sessions of a host have in common: equal catalogs are indexed once, worker processes stay warm.
    `sandbox_problem`: why the sandbox does not start; empty where it does, None before it was tried."""

    indexes: Indexes
    vectors: Keeping | None = None
    memory: Memory = field(default_factory=Memory)
    sandbox: Sandbox = field(default_factory=Sandbox)
    warned_of_core: bool = False
    sandbox_problem: str | None = None


class ToolSearch:
    """Offer a searchable catalog instead of every schema."""

    Config = Config

    @classmethod
    def diagnose(cls, config: Config, tools: Sequence[Tool] | None) -> Iterator[str]:
        """What `hooksdk doctor` says: tools that a pattern of `pinned` is near to."""
        patterns = map(ToolPattern, config.pinned)
        yield from (Notice(f"pinned: {line}") for line in near_misses(patterns, tools or (), exact=True))
        if config.mode == "code" and (problem := why_not()):
            yield f"mode = 'code': the sandbox does not start ({problem}), so the bridge tools are offered instead"

    @classmethod
    @asynccontextmanager
    async def shared(cls, config: Config) -> AsyncGenerator[_Shared, None]:
        """The indexes and the workers of code mode are shared by all sessions."""
        factory = load_ranker(config.ranker, config.vocabulary)
        async with keeping(factory) as kept:
            shared = _Shared(Indexes(factory), kept)
            try:
                yield shared
            finally:
                await shared.sandbox.close()

    def __init__(self, config: Config, shared: _Shared, storage: Storage, state: PluginState) -> None:
        self._config = config
        self._default_limit = min(config.search_default_limit, config.max_search_limit)
        self._shared = shared
        self._storage = storage
        self._indexes = Learning(shared.indexes, shared.memory, learns=config.learn)
        self._pinned = [ToolPattern(pattern) for pattern in config.pinned]
        self._deferred: frozenset[str] = frozenset()
        self._names = Names(config.names)
        self._way: Way = "tools"
        self._unwrapping = Unwrapping(config.nested, {})
        self._streak = Streak()
        self._reach = Reach(config, state)
        self._result_forms = ResultForms(state)
        self._variables = SessionVariables(state)
        self._prompt = ""

    @hooks.assemble_tools.last(timeout=INDEX_SECONDS)
    async def offer_bridge(self, event: hooks.AssembleTools) -> hooks.Search | None:
        """Defer the deferrable tools when they are worth it."""
        self._streak.begin(event.run_id, event.attempt)
        self._reach.begin(event.run_id, event.attempt)
        self._prompt = event.prompts[0][:MAX_PROMPT] if event.prompts else ""
        tools = [tool for tool in event.deferrable if not any(pattern.matches(tool) for pattern in self._pinned)]
        self._warn_of_core(event)
        if not self._is_worth_it(tools, event):
            self._deferred, self._way = frozenset(), "tools"
            self._reach.none()
            return None
        self._deferred = frozenset(tool.name for tool in tools)
        if self._config.learn:
            await self._shared.memory.load(self._storage)  # what other processes have learned by now, too
        if self._shared.vectors is not None:
            await self._shared.vectors.want(Documents([*event.catalog]), self._storage)

        def ranker() -> Ranker:
            return self._indexes.of([*event.catalog])

        self._way = self._reach.way = await self._way_of(event)
        prefetched: list[str] = []
        if self._way != "native":
            prefetched = await self._reach.prefetch(tools, event.prompts, ranker)
        else:
            self._reach.none()
            if event.deferral == "additions":
                await self._reach.add(tools, event.prompts, ranker)
        return hooks.Search(
            tools=self._bridge(tools, event),
            defer=sorted(self._deferred),
            call_hint=self._names.fill(sentences.HOW_TO_CALL[self._way]),
            prefetched=prefetched,
            declare=self._way == "native",
        )

    async def _way_of(self, event: hooks.AssembleTools) -> Way:
        """How hidden tools are called: in code mode in scripts, where the sandbox starts. Else the model would have one
        tool that always fails."""
        config, shared = self._config, self._shared
        if config.mode == "code":
            if shared.sandbox_problem is None:
                shared.sandbox_problem = await anyio.to_thread.run_sync(why_not)
                if shared.sandbox_problem:
                    problem = "tool_search: the sandbox of code mode does not start (%s): the bridge tools are offered instead"
                    logger.warning(problem, shared.sandbox_problem)
            return "tools" if shared.sandbox_problem else "script"
        if config.native == "off" or event.expose is not None:
            return "tools"
        declares = event.deferral in ("search", "additions") or (config.native == "on" and event.deferral is None)
        return "native" if declares else "tools"

    def _bridge(self, tools: Sequence[Tool], event: hooks.AssembleTools) -> list[Tool]:
        """The tools that are shown in the place of these."""
        answers = {"tool_search": self._find, "tool_describe": self._show}
        executors = {"tool_search": self._search, "tool_describe": self._describe, "tool_call": self._call_batch}
        slowest = max((tool.timeout for tool in tools), default=0.0)
        if self._way == "native":
            answers.pop("tool_describe")
            description = self._config.descriptions.get("tool_search") or self._names.fill(sentences.NATIVE_SEARCH)
            descriptions = {"tool_search": fill(description, tools)}
        else:
            descriptions = self._describe_bridge(tools, event.context_window)
        self._unwrapping = Unwrapping(self._config.nested, {} if self._way == "script" else answers)
        if self._way == "script":
            return [self._code_tool(descriptions["tool_search_code"], slowest)]
        if event.expose is not None:
            return client_tools(owners_in(tools, event.catalog.missing), executors, self._names, slowest)
        return bridge_tools(descriptions, self._default_limit, executors, self._names, slowest)

    @hooks.before_model_call
    def reveal(self, event: hooks.BeforeModelCall) -> hooks.Reveal | None:  # noqa: ARG002 - a handler takes its event
        """Show what a search found well, or a call used, from now on."""
        names = self._reach.revealed()
        return hooks.Reveal(names) if names else None

    @hooks.before_model_call
    def show_signatures(self, event: hooks.BeforeModelCall) -> hooks.AddContext | None:  # noqa: ARG002 - a handler takes its event
        """Behind the prompt, at the end of what a provider's cache holds."""
        rows = self._reach.signatures()
        heading = self._names.fill(sentences.MORE_TOOLS_IN_SCRIPT if self._way == "script" else sentences.MORE_TOOLS)
        return hooks.AddContext("\n".join([heading, *rows.values()])) if rows else None

    @hooks.transform_tool_result.last
    async def note_use(self, event: hooks.TransformToolResult) -> None:
        """A call of a hidden tool, also one that was refused for its arguments: its schema is worth showing. What it
        returned is noted as the other plugins have left it, before the model can ask for it."""
        if self._reach.answered(event.tool.name if event.tool is not None else event.call.name):
            event.count("signatures_used", 1)
        if event.tool is None:
            return
        self._reach.used(event.tool.name)
        told = self._deferred and not event.result.is_error and not event.tool.bridge
        if told and self._result_forms.wants(event.tool):
            self._result_forms.note(event.tool, await form_of(event.result))

    @hooks.unwrap_tool_call
    async def unwrap(self, event: hooks.UnwrapToolCall) -> ToolCall | None:
        """Turn `tool_call` into the call that it stands for, and answer a name that no tool has with those that may
        fit."""
        if self._way == "native" and event.tool is None and event.call.name == "tool_search":
            # A provider's own search has no name.
            return ToolCall(event.call.id, self._names.search, event.call.arguments)
        try:
            call = await self._in_scope(event.catalog, partial(self._unwrapping.call, event))
        except Refusal as refused:
            key = event.call.name, repr(event.call.arguments)
            raise self._streak.refuse(key, refused, self._scope(event.catalog)) from None
        if call is not None and not self._names.bridge(call.name):
            self._streak.end()
        return call

    async def _call_batch(self, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        """What `tool_call` of several calls answers; one of a single call was unwrapped."""
        # A bridge within a batch is refused, with what it would have answered.
        unwrapping = Unwrapping("refuse", self._unwrapping.answers)
        entries = unwrapping.batch(arguments, self._scope(context.catalog))
        if entries is None:
            raise ToolError(sentences.not_offered(context.call.name))

        async def meant(entry: object) -> tuple[str, dict[str, Any]]:
            call = await self._in_scope(context.catalog, partial(unwrapping.meant, entry))
            self._streak.end()
            return call

        return await Batch(context, meant).run(entries)

    async def _in_scope(self, catalog: Catalog, read: Callable[[Scope], T]) -> T:
        """What is read there. Where that is refused, it is read once more, and the refusal names the tools that a
        search finds: in a thread, since a large catalog's first search makes its index."""
        try:
            return read(self._scope(catalog))
        except Refusal:
            return await anyio.to_thread.run_sync(read, self._scope(catalog, finds=True))

    def _scope(self, catalog: Catalog, *, finds: bool = False) -> Scope:
        return Scope(
            catalog,
            self._deferred,
            self._names,
            ranker=(lambda: self._indexes.of([*catalog])) if finds else None,
            way=self._way,
            prompt=self._prompt,
            returns=self._result_forms.of,
        )

    @hooks.after_tool_call
    async def end_streak(self, event: hooks.AfterToolCall) -> None:
        """A call of any real tool, hidden or shown, ends the streak of searches; a name that the model made up does
        not."""
        if event.tool is not None and not event.tool.bridge:
            self._streak.end()
            if event.status == "ok" and event.tool.name in self._deferred:
                await self._indexes.called(event.tool, self._storage)

    def _is_worth_it(self, tools: Sequence[Tool], event: hooks.AssembleTools) -> bool:
        if event.expose in ("bridge", "hybrid"):
            return True
        if self._config.enabled == "off" or not tools:
            return False
        if self._config.enabled == "on":
            return True
        return sum(tool.tokens for tool in tools) >= self._threshold(event)

    def _threshold(self, event: hooks.AssembleTools) -> int:
        window = event.context_window or 0
        if window > 0:
            return int(window * self._config.threshold_pct / 100)
        return GATEWAY_TOKENS if "gateway" in (event.info.metadata or {}) else UNKNOWN_WINDOW_TOKENS

    def _warn_of_core(self, event: hooks.AssembleTools) -> None:
        """Say once that what is never hidden alone takes what search is to save: most often a host's own tools, of
        which nobody has said yet which ones have to be shown."""
        if self._config.enabled == "off" or self._shared.warned_of_core:
            return
        core = [tool for tool in event.catalog if tool.core]
        tokens = sum(tool.tokens for tool in core)
        if tokens < max(self._threshold(event), 1):
            return
        self._shared.warned_of_core = True
        logger.warning(
            "%s core tools are shown in every request (%s tokens): a host's own tools are core. Name those that have to be "
            "shown, and the others can be hidden: run.resolve_tools(tools, core=[...]), or Tool(core=False)",
            f"{len(core):,}",
            f"{tokens:,}",
        )

    def _describe_bridge(self, tools: Sequence[Tool], context_window: int | None) -> dict[str, str]:
        """The offered bridge tools' descriptions for these deferred tools; the first one has the listing."""
        code = ("tool_search_code",)
        names = code if self._way == "script" else [name for name in sentences.DESCRIPTIONS if name not in code]
        texts = {
            **{name: self._names.fill(text) for name, text in sentences.DESCRIPTIONS.items()},
            **self._config.descriptions,
        }
        budget = listing_budget(self._config.listing, context_window)
        return {name: fill(texts[name], tools, budget if name == names[0] else 0) for name in names}

    def _code_tool(self, description: str, slowest: float) -> Tool:
        def every_tool(catalog: Catalog) -> Scope:
            """A script may call those that are shown, too."""
            granted = frozenset(tool.name for tool in catalog)
            return Scope(catalog, granted, self._names, way="script", returns=self._result_forms.of)

        tool = code_tool(
            description,
            find=self._found,
            scope=every_tool,
            sandbox=self._shared.sandbox,
            seconds=self._config.code_timeout,
            slowest=slowest,
            variables=self._variables,
        )
        return tool.copy(name=self._names.code)

    def _search(self, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        answer = self._find(arguments, context.catalog)
        context.count("searches", len(answer["results"]))
        context.count("hits", sum(map(_hits_in, answer["results"])))
        if self._way != "native":
            return ToolResult(compact(answer))
        names = references(answer["results"])
        context.count("references", len(names))
        return ToolResult(compact(answer), references=names)

    def _find(self, arguments: dict[str, Any], catalog: Catalog) -> dict[str, Any]:
        arguments = self._without_wrapper(arguments)
        queries = texts_of(arguments.get("queries", arguments.get("query")))
        if not queries:
            raise ToolError(f'{self._names.search} needs queries, such as {{"queries": ["create a github issue"]}}')
        scope, limit = self._scope(catalog), arguments.get("limit")
        answer = self._found(queries, limit, scope)
        self._reach.found(answer["results"])
        repeated = self._streak.again((self._limit(limit), *(query.casefold() for query in queries)))
        return self._streak.guide(answer, scope=scope, repeated=repeated)

    def _found(self, queries: Sequence[str], limit: object, scope: Scope) -> dict[str, Any]:
        return search(queries, self._limit(limit), scope=scope, ranker=self._indexes.of([*scope.catalog]))

    def _limit(self, given: object) -> int:
        most = self._config.max_search_limit
        return max(1, min(number_of(given, self._default_limit), most))

    def _describe(self, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        answer = self._show(arguments, context.catalog)
        context.count("describes", len(answer["tools"]) + len(answer.get("problems", ())))
        return ToolResult(compact(answer), is_error=all("problem" in tool for tool in answer["tools"].values()))

    def _show(self, arguments: dict[str, Any], catalog: Catalog) -> dict[str, Any]:
        arguments = self._without_wrapper(arguments)
        names = texts_of(arguments.get("names", arguments.get("name")))
        if not names:
            raise ToolError(f'{self._names.describe} needs names, such as {{"names": ["create_issue"]}}')
        return describe(names, arguments.get("part"), scope=self._scope(catalog, finds=True))

    def _without_wrapper(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """Weak models wrap the arguments once more, some with the tool's own name beside them."""
        inner = arguments.get("arguments", arguments.get("args"))
        beside = [value for key, value in arguments.items() if key not in ("arguments", "args")]
        if (
            inner is None
            or len(beside) > 1
            or not all(isinstance(one, str) and self._names.bridge(one) for one in beside)
        ):
            return arguments
        try:
            return schema.parse_arguments(inner)
        except schema.BadArguments:
            return arguments


def _hits_in(group: dict[str, Any]) -> int:
    return len(group["hits"])
