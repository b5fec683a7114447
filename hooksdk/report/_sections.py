"""The other parts of a page: decisions, tools, searches, trims, costs and the messages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from hooksdk.report._html import Child, Html, join, tag
from hooksdk.report._model import (
    Catalog,
    CatalogTool,
    Hit,
    HookLine,
    Message,
    PolicyLine,
    Query,
    Result,
    Run,
    Search,
    Session,
    Step,
    TrimLine,
)
from hooksdk.report._timeline import approval_words, tone_of, word_of
from hooksdk.report._words import badge, code, counted, offset, percent, quote, section, table

# Rows of a table that are not folded.
ROWS = 60
DECISIONS = 2_000
TOOLS = 3_000
WHY_CHARS = 300
# Messages of a long session that are folded together.
GROUP = 50


# Decisions


def decisions(run: Run, *, with_messages: bool) -> Html | None:
    """The section of decisions: the plugin, its verdict on a call, and the consequence."""
    rows = [
        (
            offset(line.at),
            _call_name(step),
            join(badge(word_of(line), tone_of(line))),
            join(code(line.plugin), " ", tag("span", line.handler, class_="quiet")),
            _consequence(step, line, with_messages),
        )
        for step in run.steps
        for line in step.decisions
    ]
    orphans = [
        (
            offset(approval.at),
            _call_name(step),
            badge("approval", "warn"),
            code(approval.plugin),
            approval_words(approval),
        )
        for step in run.steps
        if not step.decisions
        for approval in step.approvals
    ]
    every: list[Sequence[Child]] = [*rows, *orphans]
    if not every:
        policies = any(line.hook == "before_tool_call" for step in run.steps for line in step.hooks)
        why = "Policies judged the calls, and had no objection." if policies else "No policy judged a call."
        return section(3, "Decisions", note=why) if run.calls else None
    return section(
        3,
        "Decisions and approvals",
        _folded(("When", "About", "Said", "By", "What came of it"), every[:DECISIONS]),
        note=_left_out(len(every), DECISIONS),
    )


def _call_name(step: Step) -> Html:
    return code(step.name) if step.kind == "call" else join(step.name)


def _consequence(step: Step, line: HookLine, with_messages: bool) -> Child:
    if line.shadow:
        return "nothing: the plugin is in shadow mode"
    if line.outcome == "Ask" and step.approvals:
        return "; ".join(map(approval_words, step.approvals))
    if line.outcome == "Ask":
        return "nobody was asked: another policy blocked the call" if step.status == "blocked" else ""
    if line.outcome == "failed" and step.status == "blocked":
        return f"blocked, since a policy that fails lets nothing through ({line.problem})"
    if line.outcome == "Block" and step.result is not None:
        text = step.result.shown
        return text if len(text) <= WHY_CHARS else text[:WHY_CHARS] + "…"
    if line.outcome == "Block" and step.kind == "call":
        return "blocked" if with_messages else "blocked; the reason is in the messages, not in the trace"
    if line.outcome == "Answer":
        return "the plugin gave the result, and the tool did not run"
    return {"blocked": "blocked", "": ""}.get(step.status, step.status)


# Tools


def catalogs(run: Run) -> Html | None:
    """The section of tools that the model might use, with the tokens of each definition."""
    if not run.catalogs:
        return None
    parts = [_catalog(catalog, several=len(run.catalogs) > 1) for catalog in run.catalogs[-5:]]
    return section(3, "Tools", *parts)


def _catalog(catalog: Catalog, *, several: bool) -> Html:
    saved = catalog.tokens - catalog.tokens_offered
    words = f"{counted(catalog.granted, 'tool')} granted, {catalog.tokens:,} tokens of definitions. "
    words += f"{catalog.offered:,} offered, {catalog.tokens_offered:,} tokens"
    words += f": {percent(saved, catalog.tokens)} less in each request." if saved > 0 else "."
    parts: list[Child] = [tag("h4", f"Attempt {catalog.attempt}") if several else None, tag("p", words)]
    if catalog.tools:
        parts += [_meter(catalog), *_tool_tables(catalog.tools)]
    if catalog.withheld:
        rows = [
            (
                code(one.plugin),
                counted(len(one.names), "tool"),
                join(*([code(name), " "] for name in one.names[:200])),
                one.reason,
            )
            for one in catalog.withheld
        ]
        parts += [tag("h4", "Withheld"), table(("By", "How many", "Tools", "Why"), rows)]
    if catalog.notes:
        summary = tag("summary", f"{counted(len(catalog.notes), 'note')} on tools renamed or left out")
        parts.append(tag("details", summary, tag("ul", *(tag("li", note) for note in catalog.notes[:500]))))
    return tag("div", *parts)


def _meter(catalog: Catalog) -> Html:
    share = 100 * catalog.tokens_offered / catalog.tokens if catalog.tokens else 100
    bar = tag("span", class_="part tools", style=f"--w:{min(share, 100):.3f}%")
    return tag("div", bar, class_="stack", aria_hidden="true")


def _tool_tables(tools: Sequence[CatalogTool]) -> list[Html]:
    found: list[Html] = []
    most = max((tool.tokens for tool in tools), default=1) or 1
    for place, title in (
        ("offered", "Offered"),
        ("bridge", "Bridge tools, offered besides"),
        ("deferred", "Found by search"),
    ):
        these = [tool for tool in tools if tool.place == place]
        if not these:
            continue
        owners = Counter(tool.owner for tool in these)
        told = f"{title}: {counted(len(these), 'tool')}, {sum(tool.tokens for tool in these):,} tokens"
        by_owner = tag("p", ", ".join(f"{owner} {count:,}" for owner, count in owners.most_common(12)), class_="quiet")
        rows = [(code(tool.name), tool.owner, f"{tool.tokens:,}", _weight(tool.tokens, most)) for tool in these[:TOOLS]]
        inner = join(by_owner, table(("Tool", "From", "Tokens", ""), rows, numbers="c"))
        found.append(tag("details", tag("summary", told), inner, open=place != "deferred" and len(these) <= 12))
    return found


def _weight(tokens: int, most: int) -> Html:
    return tag("span", class_="weight", style=f"--w:{100 * tokens / most:.1f}%", aria_hidden="true")


def policy(lines: Sequence[PolicyLine]) -> Html | None:
    """The section of the project's rules on the tools, the riskiest first."""
    if not lines:
        return None
    rows = [
        (
            badge(line.verdict, _VERDICT_TONES.get(line.verdict, "warn")),
            code(line.tool),
            ", ".join(line.says),
            line.decided_by,
        )
        for line in lines[:TOOLS]
    ]
    note = "By the project's rules as they are now, for the tools that the runs above were granted; the riskiest come first. "
    note += "A ? marks what a tool does not say, and MCP takes for granted."
    return section(
        2,
        "What the rules say of these tools",
        _folded(("Verdict", "Tool", "It says", "Decided by"), rows),
        _left_out(len(lines), TOOLS),
        note=note,
    )


_VERDICT_TONES = {"allow": "good", "deny": "bad"}


# Searches


def searches(session: Session) -> Html | None:
    """The section of searches, with the hits of each query."""
    if not session.searches:
        return None
    parts = [_search(search) for search in session.searches[:100]]
    return section(3, "Searches for tools", *parts, note=_left_out(len(session.searches), 100))


def _search(search: Search) -> Html:
    count = counted(len(search.queries), "query").replace("querys", "queries")
    link = tag("a", f"message #{search.message}", href=f"#m{search.message}")
    head = tag("p", f"{count}, answered in {search.tokens:,} tokens: ", link)
    return tag("div", head, tag("ul", *map(_query, search.queries), class_="queries"), class_="search")


def _query(query: Query) -> Html:
    hits = tag("ol", *map(_hit, query.hits)) if query.hits else tag("p", "nothing found", class_="quiet")
    note = tag("p", query.note, class_="quiet") if query.note else None
    return tag("li", tag("q", query.query), hits, note)


def _hit(hit: Hit) -> Html:
    weak = badge("weak", "warn") if hit.weak else None
    about = tag("span", hit.description, class_="quiet")
    return tag("li", code(hit.name), " ", tag("span", hit.owner, class_="owner"), " ", weak, about)


# Trims


def trims(lines: Sequence[TrimLine]) -> Html | None:
    """The section of trims: the result, the plugin, and the tokens saved."""
    if not lines:
        return None
    rows = [
        (
            code(line.handle),
            code(line.tool) if line.tool else "",
            badge(line.status) if line.kind == "trim" else join("restore ", badge(line.status)),
            code(line.plugin) if line.plugin else "",
            line.reason,
            _pays(line),
            f"{line.before:,} → {line.after:,}" if line.before or line.after else "",
            "" if line.tokens_saved is None else f"{line.tokens_saved:,}",
        )
        for line in lines[:DECISIONS]
    ]
    headings = ("Result", "Of", "State", "By", "Why", "Pays back", "Characters", "Tokens saved")
    return section(3, "Trims", _folded(headings, rows, numbers="gh"), note=_left_out(len(lines), DECISIONS))


def _pays(line: TrimLine) -> str:
    if line.status != "applied" or line.kind == "restore" or not line.settled:
        return ""
    return "never" if line.pays_back_after is None else f"after {counted(line.pays_back_after, 'request')}"


# Messages


def transcript(session: Session) -> Html:
    """All messages, with what the model sees of them."""
    messages = session.messages
    whole = len(messages) <= GROUP * 2
    groups = [messages[at : at + GROUP] for at in range(0, len(messages), GROUP)]
    parts = (
        [_messages(messages)]
        if whole
        else [_message_group(group, opened=group is groups[0] or group is groups[-1]) for group in groups]
    )
    if session.summary:
        here = tag(
            "p", "The model reads the following in the place of the messages that are marked as hidden:", class_="quiet"
        )
        parts.insert(0, tag("div", here, _messages(session.summary), class_="instead"))
    note = (
        f"Whole as stored {session.tokens:,} tokens; the model sees {session.tokens_seen:,}."
        if session.tokens_seen != session.tokens
        else "The model sees all of it as it is stored: nothing is trimmed or compacted."
    )
    if session.messages_left_out:
        note += f" The first {session.messages_left_out:,} messages are left out: hooksdk sessions show has them."
    return section(3, "Messages", *parts, note=note)


def _message_group(messages: Sequence[Message], *, opened: bool) -> Html:
    told = f"#{messages[0].position} to #{messages[-1].position}"
    calls = Counter(call.name for message in messages for call in message.calls)
    if calls:
        told += " · " + ", ".join(f"{name} {count}" for name, count in calls.most_common(4))
    return tag("details", tag("summary", told), _messages(messages), class_="group", open=opened)


def _messages(messages: Sequence[Message]) -> Html:
    return tag("div", *map(_message, messages), class_="messages")


def _message(message: Message) -> Html:
    place = "" if message.position is None else f"#{message.position} "
    hidden = badge("hidden from the model", "plain") if message.hidden else None
    head = tag("header", tag("span", place, class_="quiet"), tag("b", message.role or "message"), hidden)
    parts: list[Child] = [quote(message.text) if message.text else None]
    parts += [tag("p", other, class_="quiet") for other in message.others]
    parts += [
        tag("div", tag("p", "calls ", code(call.name)), quote(call.arguments), class_="call") for call in message.calls
    ]
    parts += [_result(result) for result in message.results]
    anchor = None if message.position is None else f"m{message.position}"
    return tag(
        "article", head, *parts, class_=f"message {_role(message)}{' hidden' if message.hidden else ''}", id=anchor
    )


def _role(message: Message) -> str:
    return message.role if message.role in {"user", "assistant", "tool", "system"} else "other"


def _result(result: Result) -> Html:
    size = f"{result.characters:,} characters, {result.tokens:,} tokens"
    head = tag(
        "p",
        "result ",
        code(result.handle) if result.handle else None,
        " of " if result.tool else None,
        code(result.tool) if result.tool else None,
        " ",
        tag("span", size, class_="quiet"),
        badge("error") if result.is_error else None,
        badge("trimmed") if result.instead else None,
        badge(f"{result.queued} queued", "warn") if result.queued else None,
        *map(badge, result.labels),
    )
    if result.instead is None:
        return tag("div", head, quote(result.text), class_="result")
    before = tag("div", tag("h4", "Stored"), quote(result.text), class_="before")
    after = tag(
        "div",
        tag("h4", f"The model sees, {result.instead.characters:,} characters"),
        quote(result.instead),
        class_="after",
    )
    return tag("div", head, tag("div", before, after, class_="pair"), class_="result")


# What several parts share


def _folded(headings: Sequence[str], rows: Sequence[Sequence[Child]], *, numbers: str = "") -> Html:
    first = table(headings, rows[:ROWS], numbers=numbers)
    if len(rows) <= ROWS:
        return first
    more = table(headings, rows[ROWS:], numbers=numbers)
    return join(first, tag("details", tag("summary", f"{len(rows) - ROWS:,} more"), more))


def _left_out(count: int, shown: int) -> str | None:
    return f"{count:,} in all; the first {shown:,} are here." if count > shown else None
