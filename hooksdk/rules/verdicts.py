"""The verdict of rules on a tool before anybody calls it, or the facts on which it depends."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain

from hooksdk.rules._facts import ACTIONS, Action, CallFact, DescribedRule, Fact, Rules, RunFact, ToolFact
from hooksdk.tools import Annotations, Tool

__all__ = ["Case", "Known", "ToolVerdict", "case_words", "hint_words", "riskiest_first", "verdict_of"]

Known = Callable[[Fact], bool | None]
"""Whether a fact about the run holds, as far as somebody knows it; None: it may or may not."""


@dataclass(frozen=True, kw_only=True)
class Case:
    """The verdict of one rule on the tool's calls for which no case before it holds.

    Attributes:
        rule: None where no rule fits: the default.
        facts: What it asks of the run and of the call; empty: it holds for all that are left.
    """

    plugin: str
    rule: DescribedRule | None
    action: Action
    facts: Sequence[RunFact | CallFact]

    @property
    def number(self) -> int:
        """The rule's, 0 of the default."""
        return self.rule.number if self.rule else 0

    @property
    def whom(self) -> list[str]:
        """The conditions on the run, in words."""
        return [fact.in_words() for fact in self.facts if isinstance(fact, RunFact)]

    @property
    def conditions(self) -> list[str]:
        """The conditions on the call, in words."""
        return [fact.in_words() for fact in self.facts if isinstance(fact, CallFact)]


@dataclass(frozen=True, kw_only=True)
class ToolVerdict:
    """The verdict of several plugins' rules on a tool. The gravest word of all counts.

    Attributes:
        cases: By plugin, in the order in which they decide.
    """

    tool: Tool
    cases: Mapping[str, Sequence[Case]]

    @cached_property
    def actions(self) -> Sequence[Action]:
        """The possible verdicts on a call, the mildest first; one where neither the run nor the call matters."""
        said = [[ACTIONS.index(case.action) for case in cases] for cases in self.cases.values()]
        mildest = max(map(min, said), default=0)
        return [ACTIONS[at] for at in sorted({mildest, *chain.from_iterable(said)}) if at >= mildest]

    @property
    def mildest(self) -> Action:
        """The mildest verdict that a call may get."""
        return self.actions[0]

    @property
    def words(self) -> str:
        """`allow`, `ask` or `deny`, or those that are possible: `allow, ask or deny`."""
        return " or ".join(self.actions).replace(" or ", ", ", len(self.actions) - 2)

    @property
    def depends(self) -> bool:
        """True where the run or the call decides."""
        return len(self.actions) > 1

    @property
    def risk(self) -> tuple[int, int, int, int, bool, str]:
        """To sort by, the riskiest first: what runs unasked, then what a person is asked about, then what is denied. Of
        equals what destroys before what may, what changes something before what only reads, what reaches out before
        what may; what is let through always before what depends; then by id."""
        hints = self.tool.annotations
        destroys = 0 if hints.destructive else 1 if hints.destructive is None and not hints.read_only else 2
        reaches = 0 if hints.open_world else 1 if hints.open_world is None else 2
        changes = int(hints.read_only is True)
        return ACTIONS.index(self.mildest), destroys, changes, reaches, self.depends, self.tool.id


def verdict_of(tool: Tool, policies: Mapping[str, Rules], known: Known = lambda _: None) -> ToolVerdict:
    """The verdict of these plugins' rules on a tool's calls. `policies` are the plugins that describe their rules, by id;
    `known` says which facts about the run are settled already. What no call can meet any more, after the cases before
    it, is left out."""
    return ToolVerdict(
        tool=tool, cases={plugin: list(_cases(plugin, tool, rules, known)) for plugin, rules in policies.items()}
    )


def hint_words(annotations: Annotations) -> list[str]:
    """The hints of a tool that make it risky or harmless, in MCP's terms; a `?` where it says nothing, and
    MCP's default is so."""
    words = ["read_only"] if annotations.read_only else []
    if annotations.destructive or (annotations.destructive is None and not annotations.read_only):
        words.append("destructive" if annotations.destructive else "destructive?")
    elif not annotations.read_only:
        words.append("not destructive")
    if annotations.open_world is not False:
        words.append("open_world" if annotations.open_world else "open_world?")
    return words


def case_words(verdict: ToolVerdict) -> str:
    """The rules that decide about a tool, in one line: `rule 2 denies if path_inside = ["/etc"]; else the default allows`."""
    several = len(verdict.cases) > 1
    parts = [_words(f"{plugin} " if several else "", cases) for plugin, cases in verdict.cases.items()]
    return "; ".join(parts) or "no rule"


_VERBS: dict[Action, str] = {"allow": "allows", "ask": "asks", "deny": "denies"}


def _words(plugin: str, cases: Sequence[Case]) -> str:
    words: list[str] = []
    for at, case in enumerate(cases):
        name = f"rule {case.number}" if case.number else "default" if len(cases) == 1 else "the default"
        whom = f" for {' and '.join(case.whom)}" if case.whom else ""
        condition = f" if {' and '.join(case.conditions)}" if case.conditions else ""
        last = "else " if at and not case.facts else ""
        words.append(f"{last}{plugin}{name}{f' {_VERBS[case.action]}' if len(cases) > 1 else ''}{whom}{condition}")
    return "; ".join(words)


def _cases(plugin: str, tool: Tool, rules: Rules, known: Known) -> Iterator[Case]:
    before: list[Case] = []
    for rule in (*sorted(rules.rules, key=lambda one: -ACTIONS.index(one.action)), None):
        if rule is not None and not all(fact.holds(tool) for fact in rule.facts if isinstance(fact, ToolFact)):
            continue
        action = rules.default if rule is None else rule.action
        asked = [fact for fact in (rule.facts if rule else ()) if isinstance(fact, (RunFact, CallFact))]
        settled = [known(fact) if isinstance(fact, RunFact) else fact.settled_by(tool) for fact in asked]
        facts = [fact for fact, holds in zip(asked, settled, strict=True) if holds is None]
        case = Case(plugin=plugin, rule=rule, action=action, facts=facts)
        if False in settled or any(_covers(one, case) for one in before):
            continue
        before.append(case)
        yield case
        if not case.facts:
            return


def _covers(before: Case, case: Case) -> bool:
    """True where the case before surely holds whenever this one does."""
    return all(any(_implies(fact, wanted) for fact in case.facts) for wanted in before.facts)


def _implies(fact: Fact, wanted: Fact) -> bool:
    return fact == wanted or (isinstance(fact, CallFact) and isinstance(wanted, CallFact) and fact.implies(wanted))


def riskiest_first(verdicts: Iterable[ToolVerdict]) -> list[ToolVerdict]:
    """Sorted by `ToolVerdict.risk`."""
    return sorted(verdicts, key=lambda verdict: verdict.risk)
