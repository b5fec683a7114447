"""Where the rules with limits are held: what was used is counted in the store, in one step among all agents and
processes."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

from builtin_plugins.tool_policy._answers import denial
from builtin_plugins.tool_policy._compiled import CompiledRule
from builtin_plugins.tool_policy._counts import Used, count, is_over, with_amount
from builtin_plugins.tool_policy._facts import Undecidable
from builtin_plugins.tool_policy._limits import SCOPES, Limit, Unit
from builtin_plugins.tool_policy._misspelt import Misspelt
from builtin_plugins.tool_policy._rule import text_of
from hooksdk import FamilyState, Storage, Tool
from hooksdk.costs import PriceList, Usage, model_name, usage_of
from hooksdk.hooks import (
    AfterModelCall,
    AfterToolCall,
    Ask,
    BeforeModelCall,
    BeforeToolCall,
    Block,
    Event,
    ToolCallStart,
)
from hooksdk.schema import estimate_tokens

Count = Mapping[str, Any]
# How many other counts are looked at, as one begins, whether their window is over.
LOOKED_AT = 8


@dataclass(frozen=True)
class Reached:
    """A rule whose limit leaves nothing."""

    rule: CompiledRule
    used: Used
    limit: Limit

    @property
    def words(self) -> str:
        """What was used, and when there is more."""
        return self.used.words(self.limit)


@dataclass(frozen=True)
class _Place:
    """Where a count is kept."""

    key: str
    in_family: bool


# Where a call was counted.
_Taken = tuple[_Place, Limit]


@dataclass(frozen=True)
class _Amount:
    """What a request has used of one limit.

    Attributes:
        problem: Why the amount is not known.
    """

    place: _Place
    limit: Limit
    unit: Unit
    amount: float | None
    problem: str = ""


@final
class Spending:
    """The rules with limits of one session, and what was used of them."""

    def __init__(
        self,
        rules: Sequence[CompiledRule],
        misspelt: Misspelt | None,
        family: FamilyState | None,
        storage: Storage | None,
    ) -> None:
        self._rules = rules
        self._misspelt = misspelt
        self._family = family
        self._storage = storage
        # Where calls were counted that have not ended, by their ids.
        self._begun: dict[str, list[list[_Taken]]] = {}
        # What was used and is not counted yet.
        self._uncounted: list[_Amount] = []
        # An estimate of the last request's tokens, until its provider says how many they were.
        self._prompt = 0
        # Of a reply whose provider has counted nothing so far.
        self._estimate: tuple[AfterModelCall, Usage] | None = None

    async def judge(self, event: BeforeToolCall) -> Block | Ask | None:
        """What a rule says of the call whose limit leaves nothing. A call that began already was counted then."""
        if event.begun:
            return None
        await self.settle()
        try:
            for rule in self._fitting(event):
                if reached := await self._reached(rule, event, event.tool):
                    return _answer_at_limit(reached, event.tool)
        except Undecidable as problem:
            return Block(f"the limits of the tool policy cannot be checked: {problem}")
        return None

    def _fitting(self, event: BeforeToolCall | ToolCallStart) -> Iterator[CompiledRule]:
        """The rules that are about this call. Raises `Undecidable`."""
        for rule in self._rules:
            if not (rule.fits_tool(event.tool) and rule.fits_run(event)):
                continue
            doubted = rule.looks_at_arguments and rule.why_not(event)
            if not doubted or (self._misspelt and self._misspelt.doubt(rule, event)):
                yield rule

    async def _reached(self, rule: CompiledRule, event: Event, tool: Tool | None) -> Reached | None:
        """What was used of a rule's limit, where nothing is left."""
        limit = _limit_of(rule)
        for unit in limit.amounts:
            if unit == "calls" and tool is None:
                continue
            stored = await self._read(self._place(rule, unit, event, tool))
            used = count(stored, limit, unit, await self._now())[1]
            if used.is_full:
                return Reached(rule, used, limit)
        return None

    async def begin(self, event: ToolCallStart) -> Block | None:
        """Count a call that begins, or refuse it where a limit leaves nothing: then it is counted nowhere. Past a limit
        that asks goes a call about which a person said yes. Of calls at once each was judged before any was counted."""
        taken: list[_Taken] = []
        for rule in list(self._fitting(event)):
            limit, place = _limit_of(rule), self._place(rule, "calls", event, event.tool)
            if limit.calls is None:
                continue
            used = await self._take(place, limit, past=_was_granted(rule, event))
            if used is not None:
                await self._give_back(taken)
                again = "; other calls were faster, so call again to have a person asked" * (rule.rule.action == "ask")
                return Block(f"{_limit_reason(Reached(rule, used, limit))}{again}")
            taken.append((place, limit))
        if taken:
            self._begun.setdefault(event.call.id, []).append(taken)
        return None

    async def end(self, event: AfterToolCall) -> None:
        """Give back what a call was counted that was handed out, and never ran."""
        if not (begun := self._begun.get(event.call.id)):
            return
        taken = begun.pop()
        if not begun:
            del self._begun[event.call.id]
        if event.status in {"blocked", "not_run"}:
            await self._give_back(taken)

    async def _give_back(self, taken: Sequence[_Taken]) -> None:
        for place, limit in reversed(taken):
            await self._add(place, limit, "calls", -1)

    async def _take(self, place: _Place, limit: Limit, *, past: bool) -> Used | None:
        full: Used | None = None
        now = await self._now()

        def take(stored: object) -> Count:
            nonlocal full
            current, used = count(stored, limit, "calls", now)
            full = used if used.is_full and not past else None
            return current if full else with_amount(current, 1)

        await self._change(place, take)
        return full

    # Tokens and money

    async def before_request(self, event: BeforeModelCall) -> Block | None:
        """Refuse a request for which a limit leaves nothing, or of which nobody knows the price; else note its
        tokens."""
        try:
            await self.settle()
            for rule in self._rules:
                if not rule.fits_run(event):
                    continue
                if problem := _why_no_price(rule, event):
                    return Block(problem)
                is_for_run = rule.rule.action == "deny" and rule.about_all_tools
                if is_for_run and (reached := await self._reached(rule, event, None)):
                    return Block(_limit_reason(reached))
        except Exception as error:  # a failing handler would be skipped, and the request made
            return Block(f"the limits of the tool policy cannot be checked: {error}")
        self._prompt = event.tokens
        return None

    async def replied(self, event: AfterModelCall) -> None:
        """Count what a request used. Where nobody counts it, its tokens are estimated before the next step."""
        usage = usage_of(event.usage)
        if usage is None:
            _, before = self._estimate or (event, Usage(fresh=self._prompt))
            self._prompt = 0
            self._estimate = (event, before + Usage(output=estimate_tokens(event.message)))
            return
        self._estimate = None
        self._note(event, usage)
        await self.settle(estimated=False)

    def _note(self, event: AfterModelCall, usage: Usage) -> None:
        model = model_name(event.provider, event.model)
        for rule in self._rules:
            limit = _limit_of(rule)
            if not rule.fits_run(event):
                continue
            if limit.tokens is not None:
                place = self._place(rule, "tokens", event, None)
                self._uncounted.append(_Amount(place, limit, "tokens", usage.prompt + usage.output))
            if limit.dollars is not None:
                place, dollars = self._place(rule, "dollars", event, None), event.prices.cost(model, usage)
                problem = "" if dollars is not None else no_price(event.prices, model)
                self._uncounted.append(_Amount(place, limit, "dollars", dollars, problem))

    async def settle(self, *, estimated: bool = True) -> None:
        """Count what could not be counted so far. Raises what the store raises, and `ValueError` for a model without a
        price."""
        if estimated and self._estimate is not None:
            (event, usage), self._estimate = self._estimate, None
            self._note(event, usage)
        while self._uncounted:
            one = self._uncounted[0]
            if one.amount is None:
                raise ValueError(f"{one.limit.words(one.unit)} cannot be held: {one.problem}")
            await self._add(one.place, one.limit, one.unit, one.amount)
            del self._uncounted[0]

    # What is stored

    def _place(self, rule: CompiledRule, unit: Unit, event: Event, tool: Tool | None) -> _Place:
        """A count is the rule's own: another rule of the same words shares it, and one that was changed begins anew. A
        run that goes on after a pause is the one that was paused."""
        per = _limit_of(rule).per
        digest = hashlib.sha256(text_of(rule.rule).encode()).hexdigest()[:16]
        ids = {
            "run": self._family.run if self._family is not None and "run" in per else "",
            "session": event.session_id,
            "family": "",
            "requester": str((event.requester or {}).get("id", "")),
            "tool": tool.id if tool is not None else "",
        }
        key = "/".join([f"{digest}.{unit}", *(f"{scope}:{ids[scope]}" for scope in SCOPES if scope in per)])
        return _Place(key, in_family="family" in per or "run" in per)

    async def _add(self, place: _Place, limit: Limit, unit: Unit, amount: float) -> None:
        if amount:
            now = await self._now()
            await self._change(place, lambda stored: with_amount(count(stored, limit, unit, now)[0], amount))

    async def _now(self) -> float:
        assert self._storage is not None
        return await self._storage.now()

    async def _read(self, place: _Place) -> object:
        if place.in_family:
            assert self._family is not None
            return await self._family.get(place.key)
        assert self._storage is not None
        return await self._storage.get(place.key)

    async def _change(self, place: _Place, change: Callable[[object], Count]) -> None:
        if place.in_family:
            assert self._family is not None

            def step(state: dict[str, Any]) -> None:
                state[place.key] = change(state.get(place.key))

            await self._family.update(step)
        else:
            assert self._storage is not None
            is_first = False

            def anew(stored: object) -> Count:
                nonlocal is_first
                is_first = stored is None
                return change(stored)

            await self._storage.update(place.key, anew)
            if is_first:
                await self._sweep(self._storage)

    async def _sweep(self, storage: Storage) -> None:
        """Remove some of the counts whose window is over."""
        keys = [key for key in await storage.keys() if "/" in key]
        now = await storage.now()
        for key in random.sample(keys, min(LOOKED_AT, len(keys))):
            await storage.update(key, lambda stored: None if is_over(stored, now) else stored)


def no_price(prices: PriceList, model: str) -> str:
    """Why a model has no price, and what to write."""
    advice = "which model it is"
    if model:
        example = model if ":" in model else f"PROVIDER:{model}"
        advice = f'its price into [prices], "{example}" = {{ input = 2.5, output = 10.0 }}, or {advice}'
    return f"{prices.source(model).rstrip('.')}. Write {advice}: session.run(model='openai:gpt-4o'), or HookSDK(host, model='openai:gpt-4o') in a framework"


def _was_granted(rule: CompiledRule, event: ToolCallStart) -> bool:
    """True where a person was asked by this rule, and said yes."""
    asked = text_of(rule.rule)
    return rule.rule.action == "ask" and any((one.plugin, one.rule) == ("tool_policy", asked) for one in event.granted)


def _limit_of(rule: CompiledRule) -> Limit:
    assert rule.rule.limit is not None
    return rule.rule.limit


def _limit_reason(reached: Reached) -> str:
    return f"{denial(reached.rule)}: {reached.words}"


def _answer_at_limit(reached: Reached, tool: Tool) -> Block | Ask:
    """A question says nothing that changes with what was used: a yes is for this wording."""
    compiled, rule = reached.rule, reached.rule.rule
    if rule.action == "deny":
        return Block(_limit_reason(reached))
    limit = f"The limit of {reached.limit.words(reached.used.unit)} is reached."
    description = (
        f"{rule.reason} {limit}" if rule.reason else f"{compiled.name} of the tool policy asks for a person. {limit}"
    )
    return Ask(
        rule.title or f"Run {tool.label or tool.name} past its limit?", description, rule.severity, rule=text_of(rule)
    )


def _why_no_price(compiled: CompiledRule, event: BeforeModelCall) -> str:
    """Why a limit in dollars cannot be held; empty where it can."""
    limit, model = compiled.rule.limit, model_name(event.provider, event.model)
    if limit is None or limit.dollars is None or event.prices.price(model) is not None:
        return ""
    return f"{compiled.name} of the tool policy lets through {limit.words('dollars')}, and there is {no_price(event.prices, model)}"
