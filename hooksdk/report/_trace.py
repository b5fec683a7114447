"""Reading the runs of a trace: the records of each run become its steps, the oldest first."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from hooksdk.calls import shown_labels
from hooksdk.costs import PriceList
from hooksdk.formats.usage import Request, model_name, usage_of
from hooksdk.report import _model as model
from hooksdk.report._model import Approval, Catalog, CatalogTool, HookLine, Run, Shares, Step, TrimLine
from hooksdk.report._paid import read_paid
from hooksdk.report._texts import as_count, as_number, as_text, as_texts, counts_in, texts_in
from hooksdk.report._words import counted
from hooksdk.values import as_list, as_object, is_list

# One line of a trace: `time`, `kind`, `session_id` and so on, and the kind's own fields.
Record = Mapping[str, Any]

# Kinds of records that get a section of their own outside of all runs.
OUTSIDE = {"hook", "decision", "trim_queued", "restore_queued", "trim_drained", "approval_asked", "approval_answered"}


def read_runs(records: Iterable[Record], prices: PriceList) -> list[Run]:
    """The runs of these records, in the order in which they began."""
    by_run: dict[tuple[str, str], list[Record]] = defaultdict(list)
    parents: dict[str, str] = {}
    for record in records:
        session_id, run_id = as_text(record.get("session_id")), as_text(record.get("run_id"))
        kind = as_text(record.get("kind"))
        if kind == "session_started":
            parents[session_id] = as_text(record.get("parent")) or parents.get(session_id, "")
        if run_id or kind in OUTSIDE:
            by_run[session_id, run_id].append(record)
    runs = [
        _RunReader(session_id, run_id, parents.get(session_id, "")).read(lines, prices)
        for (session_id, run_id), lines in by_run.items()
    ]
    runs.sort(key=lambda run: run.started)
    return [replace(run, number=number) for number, run in enumerate(runs, 1)]


class _RunReader:
    """Makes a run of its records."""

    def __init__(self, session_id: str, run_id: str, parent: str) -> None:
        self._ids = session_id, run_id, parent
        self._start = 0.0
        self._steps: list[Step] = []
        # Hooks that were fired before the step to which they belong.
        self._loose: list[HookLine] = []
        # The same for calls that have not begun, by call id.
        self._waiting: dict[str, list[HookLine]] = defaultdict(list)
        self._bridges: dict[str, str] = {}
        # The newest call of each id.
        self._calls: dict[str, Step] = {}
        # Calls that have not ended, by id, which may repeat.
        self._open: dict[str, list[Step]] = {}
        # The newest step of each kind.
        self._last: dict[str, Step] = {}
        # Queued trims, by handle.
        self._queued: dict[str, list[TrimLine]] = defaultdict(list)
        self._model: Step | None = None
        self._withheld: list[model.WithheldTools] = []
        self._catalogs: list[Catalog] = []
        self._trims: list[TrimLine] = []
        self._usage: dict[str, float] = defaultdict(float)
        self._requests: list[Request] = []
        self._facts: dict[str, Any] = {}

    def read(self, records: list[Record], prices: PriceList) -> Run:
        """The run of these records, given in order."""
        self._start = as_number(records[0].get("time"))
        end = self._start
        for record in records:
            at = as_number(record.get("time"))
            end = max(end, at)
            if take := getattr(self, f"_take_{record.get('kind')}", None):
                take(record, max(0.0, at - self._start))
        for line in [*self._loose, *(line for lines in self._waiting.values() for line in lines)]:
            self._nearest(line)
        for step in [*(step for steps in self._open.values() for step in steps), *filter(None, [self._model])]:
            step.open = True
        seconds = end - self._start
        session_id, run_id, parent = self._ids
        calls = [step for step in self._steps if step.kind == "call"]
        approvals = [approval for step in self._steps for approval in step.approvals]
        beside = {tool.tool for catalog in self._catalogs for tool in catalog.tools or () if tool.place == "bridge"}
        facts = self._facts
        return Run(
            number=0,
            session_id=session_id,
            run_id=run_id,
            agent_id=as_text(records[0].get("agent_id")),
            parent=parent,
            model=facts.get("model", ""),
            trigger=facts.get("trigger", ""),
            started=self._start,
            seconds=seconds,
            reason=facts.get("reason", ""),
            attempts=facts.get("attempts", 1),
            requests=sum(step.kind == "model" for step in self._steps),
            usage=dict(self._usage),
            paid=read_paid(self._requests, prices),
            calls=len(calls),
            by_status=dict(Counter(step.status or "open" for step in calls)),
            asked=len(approvals),
            granted=sum(bool(approval.granted) for approval in approvals),
            searches=sum(step.tool in beside and step.status == "ok" for step in calls),
            shares=_shares(self._steps, seconds),
            catalogs=self._catalogs,
            trims=self._trims,
            steps=self._steps,
            steps_left_out=0,
        )

    def _add(self, kind: model.Kind, at: float, name: str, **values: Any) -> Step:
        step = Step(kind=kind, at=at, name=name, **values)
        self._steps.append(step)
        self._last[kind] = step
        return step

    def _with_hooks(self, step: Step) -> Step:
        """Give the step the hooks that were fired before it."""
        for line in self._loose:
            _attach(step, line)
        self._loose = []
        return step

    # The run

    def _take_run_started(self, record: Record, at: float) -> None:
        self._facts |= {name: as_text(record.get(name)) for name in ("model", "provider", "trigger")}
        self._with_hooks(self._add("start", at, "the run begins"))

    def _take_attempt_started(self, record: Record, at: float) -> None:
        self._facts["attempts"] = as_count(record.get("attempt"))
        self._add("note", at, f"attempt {as_count(record.get('attempt'))} begins")

    def _take_run_ended(self, record: Record, at: float) -> None:
        self._facts["reason"] = as_text(record.get("reason"))
        self._with_hooks(self._add("end", at, "the run ends", status=self._facts["reason"]))

    # Tools

    def _take_withheld(self, record: Record, _at: float) -> None:
        names, reason = as_texts(record.get("names")), as_text(record.get("reason"))
        self._withheld.append(model.WithheldTools(plugin=as_text(record.get("plugin")), names=names, reason=reason))

    def _take_tools_resolved(self, record: Record, at: float) -> None:
        catalog = _catalog_of(record)
        catalog.withheld, self._withheld = self._withheld, []
        self._catalogs.append(catalog)
        detail = f"{catalog.granted:,} granted, {catalog.offered:,} offered"
        self._with_hooks(self._add("tools", at, "the tools are settled", detail=detail))

    def _take_unmatched(self, record: Record, at: float) -> None:
        detail = f"{as_text(record.get('plugin'))} speaks of tools that there are not: {_names(record)}"
        self._add("note", at, "no such tools", detail=detail)

    def _take_call_in_text(self, record: Record, at: float) -> None:
        self._add("note", at, "a call written as text", detail=f"it does nothing: {_names(record)}")

    # The model

    def _take_model_called(self, record: Record, at: float) -> None:
        if self._model is not None:
            self._model.open = True
        detail = f"{as_count(record.get('messages')):,} messages, {as_count(record.get('characters')):,} characters"
        self._model = self._with_hooks(self._add("model", at, "the model", detail=detail))

    def _take_model_replied(self, record: Record, at: float) -> None:
        step = self._model or self._add("model", at, "the model")
        self._model = None
        step.seconds = at - step.at
        if used := usage_of(as_object(record.get("usage"))):
            asked = model_name(self._facts.get("provider"), self._facts.get("model"))
            self._requests.append(Request(model=asked, usage=used, time=self._start + at))
        usage = {
            str(name): as_number(value)
            for name, value in as_object(record.get("usage")).items()
            if isinstance(value, (int, float)) and not isinstance(value, bool)
        }
        for name, value in usage.items():
            self._usage[name] += value
        told = ", ".join(f"{value:,.0f} {_short_name(name)}" for name, value in list(usage.items())[:4])
        step.detail = "; ".join(filter(None, [told, as_text(record.get("stop_reason"))])) or step.detail

    def _take_answer_judged(self, record: Record, at: float) -> None:
        status = {"continued": "sent on", "passed": ""}.get(outcome := as_text(record.get("outcome")), outcome)
        said = ", ".join(as_texts(record.get("plugins")))
        if over := ", ".join(as_texts(record.get("overruled"))):
            status, said = status or "let through", f"{over} would have sent the model on, and the limit was used up"
        elif outcome == "continued":
            said += f"; {counted(as_count(record.get('continued')), 'time')} so far"
        self._with_hooks(self._add("note", at, "the answer is judged", status=status, detail=said))

    # Calls

    def _take_unwrapped(self, record: Record, _at: float) -> None:
        self._bridges[as_text(record.get("call_id"))] = as_text(record.get("bridge"))

    def _take_call_started(self, record: Record, at: float) -> None:
        call_id, parent = as_text(record.get("call_id")), self._calls.get(as_text(record.get("parent_id")))
        depth, through = parent.depth + 1 if parent is not None else 0, self._bridges.pop(call_id, "")
        about = texts_in(record, "call_id", "tool", "origin")
        step = self._add("call", at, as_text(record.get("name")), **about, through=through, depth=depth)
        self._calls[call_id] = step
        self._open.setdefault(call_id, []).append(step)
        # Older traces do not name the call of a hook.
        unwraps = [line for line in self._loose if line.hook == "unwrap_tool_call"]
        self._loose = [line for line in self._loose if line.hook != "unwrap_tool_call"]
        for line in [*self._waiting.pop(call_id, []), *unwraps]:
            _attach(step, line)

    def _take_call_finished(self, record: Record, at: float) -> None:
        call_id = as_text(record.get("call_id"))
        if call_id not in self._open:
            self._take_call_started(record, max(0.0, at - as_number(record.get("seconds"))))
        step = self._open[call_id].pop()
        if not self._open[call_id]:
            del self._open[call_id]
        step.status = as_text(record.get("status"))
        step.seconds = as_number(record.get("seconds"))
        step.characters = as_count(record.get("characters"))
        step.labels = shown_labels(map(as_text, as_list(record.get("labels"))))

    def _take_progress(self, record: Record, _at: float) -> None:
        if (step := self._calls.get(as_text(record.get("call_id")))) and len(step.progress) < 50:
            share = record.get("share")
            told = f"{as_number(share):.0%} " if share is not None else ""
            step.progress.append(f"{told}{as_text(record.get('text'))}"[:300])

    def _take_approval_asked(self, record: Record, at: float) -> None:
        call_id = as_text(record.get("call_id"))
        step = self._calls.get(call_id) or self._add("note", at, "an approval", call_id=call_id)
        self._calls[call_id] = step
        said, questions = texts_in(record, "plugin", "severity"), as_count(record.get("questions"))
        evidence = [as_text(one) for one in as_list(record.get("evidence"))]
        step.approvals.append(Approval(at=at, **said, questions=questions, evidence=evidence))

    def _take_approval_answered(self, record: Record, at: float) -> None:
        call_id = as_text(record.get("call_id"))
        step = self._calls.get(call_id) or self._add("note", at, "an approval", call_id=call_id)
        self._calls[call_id] = step
        approval = next((one for one in step.approvals if one.granted is None), None)
        if approval is None:  # asked in another run
            approval = Approval(at=at, plugin="", severity="", questions=1)
            step.approvals.append(approval)
        else:
            approval.waited = at - approval.at
        approval.granted, approval.remembered = bool(record.get("granted")), bool(record.get("remembered"))
        unanswered = as_text(record.get("unanswered")).replace("_", " ")
        approval.by = as_text(record.get("by")) or (f"nobody: {unanswered}" if unanswered else "")
        approval.scope = as_text(record.get("scope"))

    # Hooks

    def _take_hook(self, record: Record, at: float) -> None:
        said = texts_in(record, "hook", "plugin", "handler", "outcome", "problem")
        seconds, shadow = as_number(record.get("seconds")), bool(record.get("shadow"))
        line = HookLine(at=at, seconds=seconds, shadow=shadow, **said)
        if call_id := as_text(record.get("call_id")):
            if line.hook == "unwrap_tool_call" or call_id not in self._calls:
                self._waiting[call_id].append(line)
            else:
                _attach(self._calls[call_id], line)
        elif line.hook.startswith("after_") or line.hook.endswith("_tool_call") or "result" in line.hook:
            self._nearest(line)
        else:
            self._loose.append(line)

    def _nearest(self, line: HookLine) -> None:
        """Give a hook without a call id to the newest step of its kind; for a call, to the only open one."""
        kind: model.Kind = "model" if "model" in line.hook else "tools" if "tools" in line.hook else "call"
        if line.hook == "unwrap_tool_call":
            self._loose.append(line)
            return
        step = self._last.get(kind)
        if kind == "call" and self._open:  # not to one of several
            step = next(iter(self._open.values()))[-1] if len(self._open) == 1 else None
        _attach(step or self._last.get("start") or self._add("start", line.at, "outside of a call"), line)

    # Trims

    def _take_trim_queued(self, record: Record, at: float) -> None:
        kind = "restore" if record.get("kind") == "restore_queued" else "trim"
        before, after = as_count(record.get("characters_before")), as_count(record.get("characters_after"))
        handle, plugin = as_text(record.get("handle")), as_text(record.get("plugin"))
        trim = TrimLine(
            at=at, handle=handle, tool="", kind=kind, status="queued", plugin=plugin, before=before, after=after
        )
        self._trims.append(trim)
        self._queued[trim.handle].append(trim)
        detail = f"{before:,} to {after:,} characters, by {trim.plugin}"
        self._add("trim", at, f"{kind} of {trim.handle} queued", detail=detail)

    _take_restore_queued = _take_trim_queued

    def _take_trim_drained(self, record: Record, at: float) -> None:
        handle = as_text(record.get("handle"))
        if waiting := self._queued[handle]:
            trim = waiting.pop(0)
        else:
            trim = TrimLine(at=at, handle=handle, tool="", kind="trim", status="", plugin=as_text(record.get("plugin")))
            self._trims.append(trim)
        trim.status, trim.tool = as_text(record.get("status")), as_text(record.get("tool"))
        trim.settled = True
        trim.tokens_saved = as_count(record.get("tokens_saved"))
        pays = record.get("pays_back_after")
        trim.pays_back_after = as_count(pays) if isinstance(pays, (int, float)) else None
        detail = f"{trim.tool}: {trim.tokens_saved:,} tokens less in each later request"
        self._add("trim", at, f"{trim.kind} of {handle} {trim.status}", detail=detail)


def _attach(step: Step, line: HookLine) -> None:
    step.hooks.append(line)
    tells = line.hook in {"before_tool_call", "agent_start", "before_answer"} or line.shadow or line.outcome == "failed"
    if tells and line.outcome != "passed":
        step.decisions.append(line)


def _short_name(usage: str) -> str:
    """A short word for a count, such as `tokens in` for `input_tokens`."""
    known: dict[str, str] = dict.fromkeys(("input_tokens", "prompt_tokens"), "tokens in")
    known |= dict.fromkeys(("output_tokens", "completion_tokens"), "out")
    return known.get(usage, usage.replace("_", " "))


def _names(record: Record) -> str:
    return ", ".join(as_texts(record.get("names")))


def _catalog_of(record: Record) -> Catalog:
    tools: list[CatalogTool] | None = None
    if is_list(listed := record.get("catalog")):
        tools = [_tool_of(as_object(one)) for one in listed]
        tools.sort(key=lambda tool: (-tool.tokens, tool.name))
    counts = counts_in(record, "attempt", "offered", "tokens", "tokens_offered")
    granted, notes = as_count(record.get("tools")), as_texts(record.get("notes"))
    return Catalog(**counts, granted=granted, notes=notes, tools=tools)


def _tool_of(entry: Mapping[str, Any]) -> CatalogTool:
    tool = as_text(entry.get("tool"))
    source, _, rest = tool.partition(":")
    owner = f"{source}:{rest.partition(':')[0]}" if rest else ""
    hints = {name: hint for name, hint in as_object(entry.get("annotations")).items() if isinstance(hint, bool)}
    about = texts_in(entry, "name", "tool", "place")
    return CatalogTool(**about, owner=owner, tokens=as_count(entry.get("tokens")), annotations=hints)


def _shares(steps: list[Step], seconds: float) -> Shares:
    """The shares of a run's time. Times that overlap count once: first as a person's, then as a tool's, then as the
    model's."""
    persons = [(one.at, one.at + (one.waited or 0)) for step in steps for one in step.approvals]
    tools = [(step.at, step.at + (step.seconds or 0)) for step in steps if step.kind == "call"]
    models = [(step.at, step.at + (step.seconds or 0)) for step in steps if step.kind == "model"]
    person = _covered(persons)
    person_or_tool = _covered([*persons, *tools])
    every = _covered([*persons, *tools, *models])
    return Shares(
        model=every - person_or_tool, tools=person_or_tool - person, person=person, rest=max(0.0, seconds - every)
    )


def _covered(spans: list[tuple[float, float]]) -> float:
    total = reached = 0.0
    for start, end in sorted(spans):
        total += max(0.0, end - max(start, reached))
        reached = max(reached, end)
    return total
