"""`hooksdk tools list`, `search` and `call`: the tools that a model would get here, or find, their price, and one call
of one of them."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import anyio
import typer

from hooksdk import Config, Host, MemoryStore, Run, Tool, ToolCall, ToolResult, schema
from hooksdk.approvals import Approver
from hooksdk.cli._console import (
    CommandProblem,
    View,
    counted,
    first_sentence,
    one_line,
    print_json,
    print_line,
    printable,
    safe,
    stderr_console,
    warnings_shown,
)
from hooksdk.cli._options import WINDOW, ContextWindow, Json, Mcp, Plugins, Project, import_plugins, key_values
from hooksdk.cli._policy_calls import judge_call
from hooksdk.cli._project import open_host, open_servers, project_config
from hooksdk.cli._run.approver import approver_of
from hooksdk.config import PluginConfig, fold
from hooksdk.formats import get_format

SEARCH = "tool_search"
_OFF = {"off", "false", "no", "0"}
_NOT_RUN = {"invalid": ("not run", "wrong arguments for "), "unknown": ("not run", "there is no tool ")}


@dataclass(frozen=True)
class Look:
    """The project, servers and plugins whose tools are listed or searched."""

    project: Path
    mcp: Sequence[Path]
    plugins: Sequence[Any]
    context_window: int = WINDOW


def list_tools(
    mcp: Mcp = None,
    plugin: Plugins = None,
    context_window: ContextWindow = WINDOW,
    as_json: Json = False,
    project: Project = Path(),
) -> None:
    """List the tools that a model would get here, with the tokens that each costs.

    The code is 1 when a server could not be started.
    """
    look = Look(project, tuple(mcp or ()), import_plugins(plugin), context_window)
    with warnings_shown():
        listing = anyio.run(_list, look)
    _view_of_list(listing).show(as_json=as_json)
    raise typer.Exit(int(any(server["state"] in {"failed", "needs sign-in"} for server in listing["servers"])))


def search_tools(
    queries: Annotated[list[str], typer.Argument(metavar="QUERY...")],
    mcp: Mcp = None,
    plugin: Plugins = None,
    limit: Annotated[int | None, typer.Option(min=1)] = None,
    as_prompt: Annotated[bool, typer.Option("--as-prompt")] = False,
    as_json: Json = False,
    project: Project = Path(),
) -> None:
    """Show what tool search would answer a model here, or show it for a prompt, with the tokens that it costs.

    Options:
        queries: One capability each, in quotes.
        limit: Hits of one query at most.
        as_prompt: Show what the first request holds when a user writes these as a prompt.
    """
    if not all(query.strip() for query in queries):
        raise typer.BadParameter("a query is empty", param_hint="QUERY")
    look = Look(project, tuple(mcp or ()), import_plugins(plugin))
    with warnings_shown():
        if as_prompt:
            view = _view_of_prefetch(anyio.run(_prefetch, look, "\n".join(queries)))
        else:
            text = anyio.run(_search, look, queries, limit)
            view = view_of_search(json.loads(text), schema.estimate_tokens(text))
    view.show(as_json=as_json)


async def _list(look: Look) -> dict[str, Any]:
    config = project_config(look.project)
    async with AsyncExitStack() as stack:
        run, servers = await _resolve(stack, look, config)
        offered = {tool.name for tool in run.offered}
        own = config.plugin(SEARCH) or PluginConfig()
        on, tokens_on = await _what_if(run, own, look, "on")
        auto, _ = await _what_if(run, own, look, "auto")
        return {
            "context_window": look.context_window,
            "servers": servers,
            "tools": [_entry(tool, offered=tool.name in offered) for tool in run.tools],
            "withheld": dict(run.tools.withheld),
            "notes": list(run.tools.diagnostics),
            "tokens": run.tools.tokens,
            "tokens_offered": sum(tool.tokens for tool in run.offered),
            "search": {"on": _is_on(run), "auto": auto, "possible": on, "tokens": tokens_on},
        }


def _entry(tool: Tool, *, offered: bool) -> dict[str, Any]:
    entry: dict[str, Any] = {"id": tool.id, "owner": tool.owner, "name": tool.name, "tokens": tool.tokens}
    return {**entry, "offered": offered, "description": first_sentence(tool.description)}


async def _resolve(
    stack: AsyncExitStack, look: Look, config: Config, prompt: str | None = None
) -> tuple[Run, list[dict[str, Any]]]:
    """A run with the tools of the project and its servers, as the model would get them, and how the servers are."""
    host = await open_host(stack, config, look.project, look.plugins)
    groups = await open_servers(host, look.mcp, stderr_console(), project=look.project)
    run = await _open_run(stack, host, look, prompt)
    await run.resolve_tools([tool for servers in groups for tool in servers.tools()])
    statuses = [status for servers in groups for status in servers.status.values()]
    keys = ("name", "state", "problem", "tools", "seconds", "version")
    return run, [{key: getattr(status, key) for key in keys} for status in statuses]


async def _open_run(stack: AsyncExitStack, host: Host, look: Look, prompt: str | None = None) -> Run:
    session = await stack.enter_async_context(host.session())
    folder = str(look.project.resolve())
    return await stack.enter_async_context(
        session.run(prompt, workspace_dir=folder, context_window=look.context_window)
    )


async def _what_if(run: Run, own: PluginConfig, look: Look, enabled: str) -> tuple[bool, int]:
    """Whether this catalog would be searched if `enabled` were this, and the tokens that would be offered then."""
    section = {"config": {**own.config, "enabled": enabled}}
    config = Config.model_validate({"allow": [SEARCH], "plugins": {SEARCH: section}})
    async with AsyncExitStack() as stack:
        host = await stack.enter_async_context(Host(store=MemoryStore(), config=config))
        trial = await _open_run(stack, host, look)
        offered = await trial.resolve_tools(run.tools)
        return _is_on(trial), sum(tool.tokens for tool in offered)


def _is_on(run: Run) -> bool:
    return any(tool.bridge for tool in run.offered)


def _view_of_list(listing: Mapping[str, Any]) -> View:
    view = View(listing, indent=13)
    tools: list[dict[str, Any]] = listing["tools"]
    _tell_tools(view, tools)
    view.lines("withheld", [f"{name}: {reason}" for name, reason in listing["withheld"].items()])
    view.lines("note", listing["notes"])
    view.line("in all", f"{counted(len(tools), 'tool')}, {listing['tokens']:,} tokens of schemas")
    if not tools:
        view.line("", "MCP servers are read from mcp.json here, or given with --mcp FILE")
    search, whole = listing["search"], listing["tokens"]
    if search["possible"]:
        less = f"{100 * (whole - search['tokens']) // whole} % less" if search["tokens"] < whole else "no saving"
        view.line("tool search", f"offers {search['tokens']:,} tokens of schemas at first: {less}")
        auto = "comes on" if search["auto"] else "stays off"
        window = f"a context window of {listing['context_window']:,} tokens"
        view.line("", f"it is {'on' if search['on'] else 'off'} in this project; auto {auto} at {window}")
    return view


def _tell_tools(view: View, tools: Sequence[Mapping[str, Any]]) -> None:
    if tools:
        rows = [(tool["owner"], tool["name"], tool["tokens"], tool["description"]) for tool in tools]
        view.table(("owner", "name", "tokens", "what it does"), rows, numbers="tokens")
        view.markup()


async def _searchable(stack: AsyncExitStack, look: Look, prompt: str | None = None) -> Run:
    """A run with tool search on."""
    config = project_config(look.project)
    if reason := _why_off(config):
        notice = f"[yellow]tool search[/] is off in this project ({reason}); it is on for this command"
        stderr_console().print(notice, soft_wrap=True)
    run, _servers = await _resolve(stack, look, _with_search(config), prompt)
    if not _is_on(run):
        hint = "" if len(run.tools) else "; MCP servers are read from mcp.json here, or given with --mcp FILE"
        raise CommandProblem(
            f"there is nothing to search: none of {counted(len(run.tools), 'tool')} can be deferred{hint}"
        )
    return run


async def _prefetch(look: Look, prompt: str) -> dict[str, Any]:
    """The tools and texts in a first request with this prompt, with their tokens."""
    async with AsyncExitStack() as stack:
        run = await _searchable(stack, look, prompt)
        count = run.stats["prefetched"]
        shown = run.offered[len(run.offered) - count :]  # they stand after all others
        bridges = [tool for tool in run.offered if tool.bridge]
        await run.record({"role": "user", "content": prompt})
        added = [*(await run.prepare_messages()).added]
        whole, words = run.stats["tokens_offered"], schema.estimate_tokens(prompt)
        more, first = sum(map(schema.estimate_tokens, added)), sum(tool.tokens for tool in shown)
        return {
            "prefetched": [_entry(tool, offered=True) for tool in shown],
            "added": added,
            "tokens": {
                "prompt": words,
                "prefetched": first,
                "added": more,
                "bridge": sum(tool.tokens for tool in bridges),
                "request": words + whole + more,
                "without_prefetch": words + whole - first,
                "all_shown": words + run.tools.tokens,
            },
        }


def _view_of_prefetch(shown: Mapping[str, Any]) -> View:
    view = View(shown, indent=13)
    tools, tokens = shown["prefetched"], shown["tokens"]
    _tell_tools(view, tools)
    if shown["added"]:
        view.text(f"behind the prompt, in this request alone ({tokens['added']:,} tokens):")
        for line in (line for text in shown["added"] for line in text.splitlines()):
            view.text(f"  {line}")
        view.markup()
    count = f"{counted(len(tools), 'tool')}, {tokens['prefetched']:,} tokens"
    view.line("prefetched", f"{count}, beside the bridge's {tokens['bridge']:,}")
    request = f"{tokens['request']:,} tokens with the prompt's {tokens['prompt']:,}"
    view.line("request", f"{request}; {tokens['without_prefetch']:,} without")
    view.line("", f"prefetch, and {tokens['all_shown']:,} if every tool were shown")
    return view


async def _search(look: Look, queries: Sequence[str], limit: int | None) -> str:
    async with AsyncExitStack() as stack:
        run = await _searchable(stack, look)
        arguments: dict[str, Any] = {"queries": list(queries), **({} if limit is None else {"limit": limit})}
        call = ToolCall("search", SEARCH, arguments)
        await run.record(get_format("openai-chat").reply("", [call]))
        result = await run.call_tool(call)
    if result.is_error:
        raise CommandProblem(f"the search was refused: {printable(result.text)}")
    return result.text


def _why_off(config: Config) -> str:
    section = config.plugin(SEARCH)
    if any(fold(name) == SEARCH for name in config.deny):
        return "denied by the configuration"
    if section is None:
        return ""
    if not section.enabled or str(section.config.get("enabled", "auto")).strip().lower() in _OFF:
        return "switched off by the configuration"
    return ""


def _with_search(config: Config) -> Config:
    """The configuration with tool search on, in the mode that has `tool_search`."""
    section = config.plugin(SEARCH) or PluginConfig()
    settings = {**section.config, "enabled": "on"}
    settings |= {"mode": "tools"} if "mode" in settings else {}
    others = {name: one for name, one in config.plugins.items() if fold(name) != SEARCH}
    on = section.model_copy(update={"enabled": True, "config": settings})
    deny = [name for name in config.deny if fold(name) != SEARCH]
    return config.model_copy(update={"deny": deny, "plugins": {**others, SEARCH: on}})


def view_of_search(answer: Mapping[str, Any], tokens: int) -> View:
    """An answer of `tool_search`, and what it costs."""
    view = View({"tokens": tokens, "answer": answer})
    for group in answer["results"]:
        view.markup(f"[bold]{safe(group['query'])}[/]")
        for hit in group["hits"]:
            weak = "  [yellow](weak)[/]" if hit.get("weak") else ""
            view.markup(f"  [green]{safe(hit['call'])}[/]{weak}")
            view.markup(f"      {safe(hit['from'])}: {safe(hit['description'])}")
        notes = [group[key] for key in ("already_offered", "weak") if key in group]
        if not group["hits"] and "already_offered" not in group:
            notes.append("nothing found")
        for note in notes:
            view.markup(f"  [yellow]{safe(note)}[/]")
        view.markup()
    if "available_from" in answer:
        owners = (f"{owner} ({count})" for owner, count in answer["available_from"].items())
        view.text(f"There are tools from {', '.join(owners)}.")
    view.text(f"{counted(answer['total_available'], 'tool')} searched; this answer costs the model {tokens:,} tokens.")
    return view


def call_tool(
    name: Annotated[str, typer.Argument(metavar="NAME")],
    arguments: Annotated[list[str] | None, typer.Argument(metavar="[KEY=VALUE]...")] = None,
    mcp: Mcp = None,
    plugin: Plugins = None,
    approve: Annotated[bool | None, typer.Option("--yes/--ask")] = None,
    as_json: Json = False,
    project: Project = Path(),
) -> None:
    """Call one tool here as a model would: judged by the project's plugins, its arguments checked. Nothing is kept.

    The code is 1 when the result is an error, whoever's it is.

    Options:
        name: The tool, as `hooksdk tools list` names it.
        arguments: The arguments: KEY=VALUE each, or one JSON object; - reads it from stdin.
        approve: Grant every approval, or ask on stdin; by default only a terminal is asked.
    """
    call = ToolCall("call", name, _read_arguments(arguments or []))
    with warnings_shown():
        approver = approver_of(approve)
        status, tool_id, result = anyio.run(_call, call, tuple(mcp or ()), import_plugins(plugin), approver, project)
    if as_json:
        document = {"schema": 1, "tool": tool_id, "status": status, "is_error": result.is_error}
        print_json({**document, "text": result.text, "blocks": result.blocks, "structured": result.structured})
    else:
        _print(result)
        if status != "ok":
            label, what = _NOT_RUN.get(status, (one_line(status), "the call of "))
            print_line(stderr_console(), f"[yellow]{label}[/]", f"{what}{one_line(tool_id or name)}")
    raise typer.Exit(1 if result.is_error else 0)


def _read_arguments(words: list[str]) -> str | dict[str, str]:
    """The arguments as they were typed. A usage error for bad JSON or no KEY=VALUE comes before any server is
    started."""
    if words == ["-"] or (len(words) == 1 and words[0].lstrip().startswith("{")):
        text = sys.stdin.read() if words == ["-"] else words[0]
        try:
            schema.parse_arguments(text)
        except schema.BadArguments as error:
            raise typer.BadParameter(printable(str(error)), param_hint="ARGUMENTS") from None
        return text
    return key_values(words)


async def _call(
    call: ToolCall, mcp: Sequence[Path], plugins: Sequence[Any], approver: Approver, project: Path
) -> tuple[str, str, ToolResult]:
    """The call's status, the tool's id (empty for an unknown one) and the result."""
    async with AsyncExitStack() as stack:
        host = await open_host(stack, project_config(project), project, plugins, approver, records=True)
        # An id names its server, so no other one is waited for.
        source, _, owner = call.name.rpartition(":")[0].partition(":")
        only = owner if source == "mcp" else ""
        groups = await open_servers(host, mcp, stderr_console(), project=project, only=only)
        session = await stack.enter_async_context(host.session())
        run = await stack.enter_async_context(session.run(workspace_dir=str(await anyio.Path(project).resolve())))
        await run.resolve_tools([tool for servers in groups for tool in servers.tools()])
        judged = await judge_call(run, call)
        result = judged.result or await judged.execute()
        return str(judged.status), judged.tool.id if judged.tool else "", result


def _print(result: ToolResult) -> None:
    """The text for people and pipes, a line for what is none."""
    if result.text:
        print(printable(result.text) if sys.stdout.isatty() else result.text)
    elif result.structured is not None:
        print(json.dumps(result.structured, indent=2))
    for block in result.blocks:
        if block.get("type") != "text":
            size = counted(len(str(block.get("data", ""))), "character")
            kind = one_line(block.get("mimeType") or block.get("uri") or "")
            print_line(stderr_console(), one_line(block.get("type", "content")), f"{kind} {size} (--json prints it)")
