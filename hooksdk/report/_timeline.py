"""A run's timeline: one line for each step, with a bar on a common axis of time."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from hooksdk.report._html import Child, Html, join, tag
from hooksdk.report._model import Approval, HookLine, Run, Shares, Step
from hooksdk.report._words import badge, code, counted, duration, offset, quote, section

# Steps of a long timeline that are folded together.
GROUP = 100
# Handlers of one step at most.
HOOKS_SHOWN = 60
_TICKS = [
    *(part * 10.0**power for power in range(-6, 2) for part in (1, 2, 5)),
    *(60 * minutes for minutes in (1, 2, 5, 10, 20, 30, 60, 120, 240, 720, 1_440)),
]
_BAR_TONES = {"blocked": " bad", "error": " bad", "invalid": " bad", "unknown": " bad"}
_PARTS = (("model", "the model"), ("tools", "tools"), ("person", "waiting for a person"), ("rest", "everything else"))


def timeline(run: Run) -> Html:
    """The section of a run's steps."""
    left_out = run.steps_left_out
    note = (
        f"{len(run.steps) + left_out:,} steps in all. The first, the last, and those that were decided about or went wrong "
        f"are here; {left_out:,} others are left out."
        if left_out
        else None
    )
    if len(run.steps) <= GROUP * 3 // 2:
        steps = [_list(run.steps)]
    else:
        steps = [_group(run.steps[at : at + GROUP], at) for at in range(0, len(run.steps), GROUP)]
    lanes = tag("div", *steps, class_="timeline")
    return section(3, "Timeline", _shares(run.shares), _filter(run.steps), lanes, note=note)


@dataclass(frozen=True)
class Axis:
    """The time that some steps have in common, in seconds since the run began.

    Attributes:
        start: A multiple of `tick`.
    """

    start: float
    span: float
    tick: float

    @staticmethod
    def of(steps: Sequence[Step]) -> Axis:
        """The axis on which all of these stand."""
        first = min((step.at for step in steps), default=0.0)
        end = max((step.at + (step.seconds or 0) for step in steps), default=0.0)
        tick = tick_of(max(end - first, 1e-6))
        start = math.floor(first / tick) * tick
        return Axis(start, max(end - start, 1e-6), tick)

    def place(self, at: float) -> str:
        """The place of a time, as a share of the width."""
        return f"{min(max(100 * (at - self.start) / self.span, 0), 100):.3f}%"

    def width(self, seconds: float) -> str:
        """The width of a duration."""
        return f"{min(100 * seconds / self.span, 100):.3f}%"


def tick_of(span: float) -> float:
    """The time between two marks of an axis that has at most 6 of them: a round one."""
    for tick in _TICKS:
        if span / tick <= 6:
            return tick
    return math.ceil(span / 6 / 86_400) * 86_400


def _axis(axis: Axis) -> Html:
    ticks = [axis.start + number * axis.tick for number in range(int(axis.span / axis.tick + 1e-9) + 1)]
    marks = [
        tag(
            "span",
            "0" if at < axis.tick / 2 else duration(at) if axis.tick >= 1 or at < 10 else offset(at)[1:],
            style=f"--x:{axis.place(at)}",
        )
        for at in ticks
        if at - axis.start <= axis.span * 0.95
    ]
    return tag("div", tag("div", *marks, class_="lane"), class_="axis", aria_hidden="true")


def _shares(shares: Shares) -> Html | None:
    whole = shares.model + shares.tools + shares.person + shares.rest
    if not whole:
        return None
    parts = [(word, label, getattr(shares, word)) for word, label in _PARTS]
    bars = [
        tag("span", class_=f"part {word}", style=f"--w:{100 * value / whole:.3f}%") for word, _, value in parts if value
    ]
    legend = [
        tag("li", tag("span", class_=f"key {word}", aria_hidden="true"), f"{label} ", tag("b", duration(value)))
        for word, label, value in parts
        if value
    ]
    return tag("div", tag("div", *bars, class_="stack", aria_hidden="true"), tag("ul", *legend, class_="legend"))


def _filter(steps: Sequence[Step]) -> Html | None:
    """A form that only a script makes work, so it is hidden until there is one."""
    outcomes = sorted({step.outcome for step in steps if step.kind == "call" and step.outcome})
    if len(steps) < 12:
        return None
    options = [tag("option", "every outcome", value=""), *(tag("option", one, value=one) for one in outcomes)]
    text = tag("label", "Show tools like ", Html('<input type="search" name="tool" class="by-tool" placeholder="any">'))
    choice = tag("label", "with ", tag("select", *options, name_="outcome", class_="by-outcome"))
    return tag("div", text, choice, tag("output", class_="found"), class_="filter", hidden=True)


def _group(steps: Sequence[Step], before: int) -> Html:
    calls = [step for step in steps if step.kind == "call"]
    told = [f"{before + 1:,} to {before + len(steps):,}", offset(steps[0].at), counted(len(calls), "call")]
    for outcome in ("blocked", "asked", "error"):
        if count := sum(step.outcome == outcome for step in calls):
            told.append(f"{count:,} {outcome}")
    return tag("details", tag("summary", " · ".join(told)), _list(steps), class_="group", open=before == 0)


def _list(steps: Sequence[Step]) -> Html:
    axis = Axis.of(steps)
    lines = tag("ol", *(_step(step, axis) for step in steps), class_="steps")
    return tag("div", _axis(axis), lines, style=f"--tick:{100 * axis.tick / axis.span:.4f}%")


def _step(step: Step, axis: Axis) -> Html:
    took = "not ended" if step.open else "" if step.seconds is None else duration(step.seconds)
    line = join(
        tag("span", offset(step.at), class_="at"),
        tag("span", _label(step), class_="what"),
        _lane(step, axis),
        tag("span", took, class_="took"),
    )
    body = _body(step)
    inner = (
        tag("details", tag("summary", line), tag("div", body, class_="body"))
        if body
        else tag("div", line, class_="flat")
    )
    return tag(
        "li",
        inner,
        class_=step.kind,
        data_tool=step.name if step.kind == "call" else None,
        data_outcome=step.outcome or None,
        style=f"--depth:{min(step.depth, 4)}" if step.depth else None,
    )


def _label(step: Step) -> Html:
    if step.kind != "call":
        tone = badge(step.status) if step.status else None
        return join(tag("span", step.name, class_="name"), tone, tag("span", step.detail, class_="quiet"))
    said = [badge(f"{line.plugin}: {word_of(line)}", tone_of(line)) for line in step.decisions[:3]]
    status = badge(step.status) if step.status not in {"", "ok"} else None
    place = step.tool.rpartition(":")[0] if step.tool else "no such tool"
    way = f"{place} · through {step.through}" if step.through else place
    way += {"code": " · called by a script", "tool": " · called by a tool"}.get(step.origin, "")
    way += " · one of several" if step.origin == "bridge" and step.depth else ""
    return join(code(step.name, class_="name"), status, said, tag("span", way, class_="quiet"))


def word_of(line: HookLine) -> str:
    """The outcome of a handler, in a word or two."""
    return f"{line.outcome}{' (shadow)' if line.shadow else ''}"


def tone_of(line: HookLine) -> str | None:
    """The colour of an outcome; one without effect has none."""
    tones = {"Block": "bad", "failed": "bad", "Ask": "warn", "Answer": "note"}
    return "plain" if line.shadow else tones.get(line.outcome)


def _lane(step: Step, axis: Axis) -> Html:
    bars: list[Html] = []
    if step.seconds is not None or step.open:
        length = axis.start + axis.span - step.at if step.seconds is None else step.seconds
        bars.append(_bar(step.at, length, axis, f"bar {step.kind}{_BAR_TONES.get(step.status, '')}"))
    else:
        bars.append(tag("span", class_="dot", style=f"--x:{axis.place(step.at)}"))
    bars += [_bar(one.at, one.waited or 0, axis, "bar person") for one in step.approvals]
    return tag("span", *bars, class_="lane", aria_hidden="true")


def _bar(at: float, length: float, axis: Axis, class_: str) -> Html:
    return tag("span", class_=class_, style=f"--x:{axis.place(at)};--w:{axis.width(length)}")


def _body(step: Step) -> Html | None:
    parts: list[Child] = []
    if step.kind == "call" and (step.arguments or step.result):
        parts += [
            _part("Arguments", quote(step.arguments)) if step.arguments else None,
            _part(f"Result{_size(step)}", quote(step.result)) if step.result else None,
        ]
    elif step.kind == "call" and step.characters:
        parts.append(_part(f"Result{_size(step)}", None))
    parts += [_part("Approval", tag("p", approval_words(one))) for one in step.approvals]
    if step.progress:
        parts.append(_part("Progress", tag("ul", *(tag("li", line) for line in step.progress))))
    if step.hooks:
        parts.append(_part("Hooks", _hooks(step.hooks)))
    if step.message is not None:
        parts.append(tag("p", tag("a", f"message #{step.message}", href=f"#m{step.message}"), class_="quiet"))
    return join(*parts) if any(parts) else None


def _size(step: Step) -> str:
    size = f", {step.characters:,} characters" if step.characters is not None else ""
    return ", ".join([size, *step.labels])


def _part(title: str, content: Child) -> Html:
    return tag("div", tag("h4", title), content, class_="part")


def _hooks(lines: Iterable[HookLine]) -> Html:
    lines = list(lines)
    items = [
        tag(
            "li",
            tag("span", line.hook, class_="hook"),
            f" {line.plugin} ",
            tag("span", line.handler, class_="quiet"),
            " ",
            badge(word_of(line), tone_of(line))
            if line.outcome != "passed"
            else tag("span", "no opinion", class_="quiet"),
            f" {line.problem}" if line.problem else "",
            tag("span", f" {duration(line.seconds)}", class_="quiet"),
        )
        for line in lines[:HOOKS_SHOWN]
    ]
    if len(lines) > HOOKS_SHOWN:
        items.append(tag("li", f"and {len(lines) - HOOKS_SHOWN:,} more", class_="quiet"))
    return tag("ul", *items, class_="hooks")


def approval_words(approval: Approval) -> str:
    """An approval in words: the plugin, the answer, the person and the time that it took."""
    asked = f"{approval.plugin} asked ({approval.severity})" if approval.plugin else "it was asked in an earlier run"
    if approval.questions > 1:
        asked += f", with {approval.questions - 1} more"
    if approval.evidence:
        asked += f": {'; '.join(approval.evidence)}"
    if approval.granted is None:
        return f"{asked}; there is no answer in the trace"
    word = "granted" if approval.granted else "refused"
    if approval.remembered:
        word += " by an answer that was remembered"
    elif approval.waited is not None:
        word += f" after {duration(approval.waited)}"
    scope = f", for {approval.scope}" if approval.scope not in {"", "once"} else ""
    return f"{asked}; {word}{scope}" + (f" ({approval.by})" if approval.by else "")
