"""Proofs over all calls: that none of a class gets through, or one that does; and which calls two policies judge
differently.

Needs `pip install 'hooksdk[prove]'`, which brings Z3. A proof covers every tool, every run and every call that facts
can tell apart. What a fact asks of the call itself is not modelled, so it may hold or not: no proof says *never* of
what could happen. Bridge tools are left out, since they run nothing by themselves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, final

import z3 as _untyped  # pyright: ignore[reportMissingTypeStubs]

from hooksdk.rules._cells import Budget, Unknown
from hooksdk.rules._facts import ACTIONS, Action, CallClass, CallFact, Claim, Fact, Rules, ToolNamed
from hooksdk.rules._model import Example, Model

__all__ = ["BUDGET", "Change", "Example", "RuleOf", "Search", "Unknown", "changes"]

z3: Any = _untyped
BUDGET = 200_000_000
"""Steps of the solver for one question; texts that patterns tell apart count for a hundred. Some ten seconds."""
_STEPS_OF_A_TEXT = 100
_GRAVEST_FIRST = ACTIONS[::-1]


@dataclass(frozen=True)
class RuleOf:
    """One rule of one plugin.

    Attributes:
        number: 0 for its default.
    """

    plugin: str
    number: int


@final
class _Policy:
    """The rules of one plugin, as terms of the solver.

    Attributes:
        order: The rules in the order in which they decide, each with whether it fits; the last one is the default.
    """

    def __init__(self, order: Sequence[tuple[RuleOf, Action, Any]]) -> None:
        self.order = order

    @classmethod
    def of(cls, plugin: str, rules: Rules, model: Model, *, added: bool = False) -> _Policy:
        """The policy of a plugin's rules; with `added` also whatever an untrusted project may add."""
        said: list[tuple[RuleOf, Action, Any]] = [
            (RuleOf(plugin, rule.number), rule.action, z3.And([model.term(fact) for fact in rule.facts]))
            for rule in rules.rules
        ]
        if added:
            said.extend((RuleOf("", number), action, z3.FreshBool()) for number, action in enumerate(rules.added))
        gravest_first = sorted(said, key=lambda one: _GRAVEST_FIRST.index(one[1]))
        return cls([*gravest_first, (RuleOf(plugin, 0), rules.default, z3.BoolVal(True))])

    def switched(self) -> tuple[_Policy, dict[str, RuleOf]]:
        """The policy with a switch for each rule that stops calls, and for the default: without it nothing is said of a
        call. Also the rule of each switch, by the name of its term. Rules that allow have none: no proof rests on
        them."""
        order: list[tuple[RuleOf, Action, Any]] = []
        switches: dict[str, RuleOf] = {}
        unsaid = z3.Not(z3.Or([fits for _, _, fits in self.order[:-1]]))
        for rule, action, fits in self.order:
            is_there = z3.BoolVal(True)
            if action != "allow" and rule.plugin:
                is_there = z3.FreshBool("rule")
                switches[str(is_there)] = rule
            order.append((rule, action, z3.And(is_there, fits if rule.number or not rule.plugin else unsaid)))
        order.append((RuleOf("", 0), "allow", z3.BoolVal(True)))
        return _Policy(order), switches

    def says(self, action: Action) -> Any:
        """True for calls of which the policy says this."""
        fits: dict[Action, Any] = {
            one: z3.Or([term for _, each, term in self.order[:-1] if each == one]) for one in _GRAVEST_FIRST
        }
        graver = _GRAVEST_FIRST[: _GRAVEST_FIRST.index(action)]
        first = z3.And(fits[action], *[z3.Not(fits[one]) for one in graver])
        unsaid = z3.And([z3.Not(term) for term in fits.values()])
        return z3.Or(first, unsaid) if self.order[-1][1] == action else first

    def decides(self, model: Any) -> RuleOf:
        """The rule that decides the call of a solver's answer."""
        return next(rule for rule, _, fits in self.order if z3.is_true(model.eval(fits, model_completion=True)))

    def decided_by(self, rule: RuleOf) -> Any:
        """True for calls that this rule decides."""
        at = next(at for at, one in enumerate(self.order) if one[0] == rule)
        return z3.And(self.order[at][2], *[z3.Not(fits) for _, _, fits in self.order[:at]])


def _facts(policies: Mapping[str, Rules]) -> Iterator[Fact]:
    for rules in policies.values():
        for rule in rules.rules:
            yield from rule.facts


class _Question:
    """A solver with the facts of a question in it."""

    def __init__(self, model: Model, budget: Budget) -> None:
        self.model = model
        self.budget = budget
        self.begin_anew()

    def begin_anew(self) -> None:
        """Forget all that was asked for."""
        self.solver: Any = z3.Solver()
        self._rules = 0
        """Of the model, that the solver has."""

    def ask(self, *assumptions: Any) -> Any:
        """The solver's answer, or None where there is none. Raises `Unknown`."""
        before = self._steps()
        self.solver.add(*self.model.rules[self._rules :])
        self._rules = len(self.model.rules)
        self.solver.set("rlimit", max(1, self.budget.left * _STEPS_OF_A_TEXT))
        answer = self.solver.check(*assumptions)
        self.budget.spend((self._steps() - before) // _STEPS_OF_A_TEXT)
        if answer == z3.unknown:
            raise Unknown("it takes more steps than the budget allows")
        return self.solver.model() if answer == z3.sat else None

    def _steps(self) -> int:
        statistics = self.solver.statistics()
        return int(statistics.get_key_value("rlimit count")) if "rlimit count" in statistics.keys() else 0  # noqa: SIM118

    def plain_example(self) -> Any:
        """The plainest answer; None where there is none."""
        plain = self.model.plain  # with it come rules about every call, which the first answer must keep, too
        answer: Any = self.ask()
        if answer is None:
            return None
        wanted: list[Any] = []
        for one in plain:
            if z3.is_true(answer.eval(one, model_completion=True)):
                wanted.append(one)
            elif (plainer := self.ask(*wanted, one)) is not None:
                wanted.append(one)
                answer = plainer
        return answer


@final
class Search:
    """Looks for calls of a class for which a claim does not hold.

    `policies` are the plugins that describe their rules, by id. With `untrusted_project` a project may add whatever it
    may add to them while nobody trusts it. Raises `Unknown`."""

    def __init__(
        self,
        policies: Mapping[str, Rules],
        calls: CallClass,
        claim: Claim,
        *,
        untrusted_project: bool = False,
        budget: int = BUDGET,
    ) -> None:
        self._policies = policies
        self._calls = calls
        self._claim: Claim = claim
        self._added = untrusted_project
        self._budget = Budget(budget // _STEPS_OF_A_TEXT)
        self._models: dict[bool, tuple[Model, list[_Policy]]] = {}

    def examples(self) -> Iterator[Example]:
        """Calls of which the model says that the claim does not hold, the plainest first. Where the first does not
        come, there is none at all. One that cannot be made is followed by others that meet other rules."""
        for single_name in (True, False):
            yield from self._examples(single_name=single_name)

    def _modelled(self, *, single_name: bool) -> tuple[Model, list[_Policy]]:
        """The model, in which most of the time goes, is made once for both questions."""
        if single_name not in self._models:
            named = [fact for fact in self._calls.facts if isinstance(fact, ToolNamed)] if single_name else ()
            facts = [*self._calls.facts, *_facts(self._policies)]
            model = Model(facts, self._budget, single_name=single_name, names=named)
            policies = [_Policy.of(name, one, model, added=self._added) for name, one in self._policies.items()]
            self._models[single_name] = model, policies
        return self._models[single_name]

    def _question(self, model: Model, policies: Sequence[_Policy]) -> _Question:
        """For which calls of the class the claim does not hold."""
        question = _Question(model, self._budget)
        question.solver.add(*map(model.term, self._calls.facts), self._broken(policies))
        return question

    def _broken(self, policies: Sequence[_Policy]) -> Any:
        """True for calls for which the claim does not hold."""
        denied = z3.Or([policy.says("deny") for policy in policies])
        asked = z3.Or([policy.says("ask") for policy in policies])
        return {
            "never": z3.Not(denied),
            "only_asked": z3.Not(z3.Or(denied, asked)),
            "always_asked": z3.Or(denied, z3.Not(asked)),
        }[self._claim]

    def _examples(self, *, single_name: bool) -> Iterator[Example]:
        model, policies = self._modelled(single_name=single_name)
        question = self._question(model, policies)
        free = [model.term(fact) for fact in model.call_facts if fact not in self._calls.facts]
        while (answer := question.plain_example()) is not None:
            yield model.example(answer)
            fits = [term for policy in policies for _, _, term in policy.order[:-1]]
            same = [term == answer.eval(term, model_completion=True) for term in (*fits, *free)]
            question.solver.add(z3.Not(z3.And(same)))

    def rests_on(self) -> list[RuleOf]:
        """The rules without which there would be such a call, where there is none: as few as suffice. Empty where there
        can be no such call whatever rules say."""
        model, policies = self._modelled(single_name=False)
        switched = [policy.switched() for policy in policies]
        question = self._question(model, [policy for policy, _ in switched])
        question.solver.set("core.minimize", True)
        switches = {name: rule for _, own in switched for name, rule in own.items()}
        if question.ask(*map(z3.Bool, switches)) is not None:
            return []
        return sorted(
            {switches[str(one)] for one in question.solver.unsat_core()}, key=lambda one: (one.plugin, one.number)
        )


@dataclass(frozen=True)
class Change:
    """Calls of which two policies say something else.

    Attributes:
        depends_on: What must hold of the call itself, or not, for the example to be one.
    """

    old: Action
    new: Action
    old_rule: RuleOf
    new_rule: RuleOf
    example: Example
    depends_on: Mapping[CallFact, bool] = field(default_factory=dict[CallFact, bool])

    @property
    def is_loosened(self) -> bool:
        """True where the new one is milder."""
        return (self.old, self.new) in _LOOSENED


def changes(old: Rules, new: Rules, *, plugin: str = "", budget: int = BUDGET) -> Iterator[Change]:
    """Each pair of rules that decides calls which the old and the new rules judge differently, with an example; what is
    loosened comes first. Where there is none, both say the same of every call. Raises `Unknown`."""
    steps = Budget(budget // _STEPS_OF_A_TEXT)
    known = list(_Difference(plugin, old, new, steps, single_name=True).changes(()))
    # Only a pattern that says nothing of whose a tool is takes either of two names.
    named = [fact for fact in _facts({"old": old, "new": new}) if isinstance(fact, ToolNamed)]
    if any(":" not in text for fact in named for text in fact.patterns):
        known += _Difference(plugin, old, new, steps, single_name=False).changes(known)
    yield from sorted(known, key=lambda one: (_ALL.index((one.old, one.new)), one.old_rule.number, one.new_rule.number))


_LOOSENED: list[tuple[Action, Action]] = [("deny", "allow"), ("deny", "ask"), ("ask", "allow")]
_TIGHTENED: list[tuple[Action, Action]] = [(becomes, was) for was, becomes in _LOOSENED]
_ALL = [*_LOOSENED, *_TIGHTENED]


@final
class _Difference:
    """The old and the new rules of a plugin over the same calls."""

    def __init__(self, plugin: str, old: Rules, new: Rules, steps: Budget, *, single_name: bool) -> None:
        facts = list(_facts({"old": old, "new": new}))
        self._question = _Question(Model(facts, steps, single_name=single_name), steps)
        self._before, self._after = (_Policy.of(plugin, rules, self._question.model) for rules in (old, new))

    def changes(self, known: Sequence[Change]) -> Iterator[Change]:
        """Each pair of rules that says two things, but for the rules of which that is `known` already."""
        for was, becomes in _ALL:
            alike = [one for one in known if one.is_loosened is ((was, becomes) in _LOOSENED)]
            yield from self._between(was, becomes, alike)

    def _between(self, was: Action, becomes: Action, known: Sequence[Change]) -> Iterator[Change]:
        question, before, after = self._question, self._before, self._after
        differs = z3.And(before.says(was), after.says(becomes))
        question.begin_anew()
        question.solver.add(differs)
        for change in known:
            self._leave_out(change.old_rule, change.new_rule)
        for rule in dict.fromkeys(one.old_rule for one in known if one.old_rule.number):
            question.solver.add(z3.Not(before.decided_by(rule)))
        for rule in dict.fromkeys(one.new_rule for one in known if one.new_rule.number):
            question.solver.add(z3.Not(after.decided_by(rule)))
        while (answer := question.plain_example()) is not None:
            rules = before.decides(answer), after.decides(answer)
            example = question.model.example(answer)
            yield Change(was, becomes, *rules, example, self._depends_on(answer, differs, example))
            self._leave_out(*rules)

    def _leave_out(self, old_rule: RuleOf, new_rule: RuleOf) -> None:
        both = z3.And(self._before.decided_by(old_rule), self._after.decided_by(new_rule))
        self._question.solver.add(z3.Not(both))

    def _depends_on(self, answer: Any, differs: Any, example: Example) -> dict[CallFact, bool]:
        """The facts about the call that make the difference, where all else is as it is."""
        model = self._question.model
        others = [model.term(fact) for fact in model.facts if not isinstance(fact, CallFact)]
        solver: Any = z3.Solver()
        solver.add(
            z3.Not(differs), *model.rules, *(term == answer.eval(term, model_completion=True) for term in others)
        )
        wanted = {
            fact: model.term(fact) if holds else z3.Not(model.term(fact)) for fact, holds in example.facts.items()
        }
        for fact in example.facts:
            if solver.check(*(term for one, term in wanted.items() if one != fact)) == z3.unsat:
                del wanted[fact]
        return {fact: example.facts[fact] for fact in wanted}
