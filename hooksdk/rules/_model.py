"""Facts in the words of a solver: texts as the cell that they are in, sets and choices as they are, and what is not
known as free."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, final

import z3 as _untyped  # pyright: ignore[reportMissingTypeStubs]

from hooksdk.patterns import SOURCES, ToolPattern
from hooksdk.rules._cells import Budget, Cells, folder_cells, name_cells, owner_cells, text_cells
from hooksdk.rules._facts import (
    UNSAID,
    ByAgent,
    CallFact,
    Fact,
    FromSource,
    InWorkspace,
    OwnedBy,
    Requested,
    Says,
    ToolNamed,
    Triggered,
)
from hooksdk.tools import Annotations

z3: Any = _untyped
TRIGGERS = ("user", "schedule", "subagent", "other")


@dataclass(frozen=True)
class Example:
    """One call as a proof sees it: a tool, a run, and what holds of the call itself.

    Attributes:
        agents: Of the run and of those around it, the outermost first.
    """

    name: str
    own_name: str
    source: str
    owner: str
    annotations: Mapping[str, bool]
    agents: Sequence[str]
    triggers: Sequence[str]
    workspace_dir: str | None
    requester: Mapping[str, Any] | None
    facts: Mapping[CallFact, bool] = field(default_factory=dict[CallFact, bool])


@dataclass(frozen=True)
class _Text:
    """A text of which only the cell matters."""

    cell: Any
    cells: Sequence[tuple[int, str]]

    def is_in(self, language: int) -> Any:
        """True for a text of this language."""
        return z3.Or([self.cell == at for at, (key, _) in enumerate(self.cells) if key >> language & 1])

    def text(self, model: Any) -> str:
        """The text that stands for the cell."""
        at: int = model.eval(self.cell, model_completion=True).as_long()
        return self.cells[at][1]


@final
class Model:
    """The facts of some rules and classes of calls. With `single_name` every tool has one name, as most do. With
    `names` only tools are looked at whose own names may be meant by one of these facts. Raises `Unknown`.

    Attributes:
        rules: What holds of every call.
    """

    def __init__(
        self, facts: Iterable[Fact], budget: Budget, *, single_name: bool, names: Sequence[ToolNamed] = ()
    ) -> None:
        self.facts = list(dict.fromkeys(facts))
        self._budget = budget
        self.rules: list[Any] = []
        self._terms: dict[Fact, Any] = {}
        self._single_name = single_name
        self._wanted = names

    def term(self, fact: Fact) -> Any:
        """True for calls of which the fact holds. A fact of a kind that is not modelled is free."""
        if fact not in self._terms:
            self._terms[fact] = self._made(fact)
        return self._terms[fact]

    def _made(self, fact: Fact) -> Any:
        match fact:
            case ToolNamed():
                return z3.Or([self._named(pattern, fact) for pattern in self._joined(fact)])
            case Says(annotations, exact):
                return z3.And([self._says(name, value, exact=exact) for name, value in annotations])
            case FromSource():
                return self._source_in(fact.sources)
            case OwnedBy(_, exact):
                return self._owner.is_in(self._owner_languages[self._key(fact.compiled, exact)])
            case ByAgent():
                return self._some(self._agents, self._agent_languages[_texts(fact.compiled)])
            case Triggered():
                return z3.Or([self._trigger[name] for name in fact.triggers])
            case InWorkspace():
                place = self._workspace.is_in(self._folder_languages[_texts(fact.compiled)])
                return z3.And(self._has_workspace, place)
            case Requested():
                return self._requested(fact)
            case _:
                return self._free(fact)

    # Names

    @staticmethod
    def _joined(fact: ToolNamed) -> list[tuple[str, list[ToolPattern]]]:
        """The patterns of a fact, in groups with the same source and owner."""
        groups: dict[str, list[ToolPattern]] = {}
        for pattern in fact.compiled:
            groups.setdefault(pattern.text.rpartition(":")[0], []).append(pattern)
        return list(groups.items())

    @cached_property
    def _naming(self) -> list[ToolNamed]:
        return [fact for fact in self.facts if isinstance(fact, ToolNamed)]

    @cached_property
    def _name_languages(self) -> tuple[dict[tuple[str, ...], int], dict[tuple[str, ...], int]]:
        written: dict[tuple[str, ...], int] = {}
        words: dict[tuple[str, ...], int] = {}
        for fact in self._naming:
            for _, patterns in self._joined(fact):
                written.setdefault(_texts(one.parts[-1] for one in patterns), len(written))
                if not fact.exact:
                    words.setdefault(_texts(one.words for one in patterns), len(words))
        return written, words

    @cached_property
    def _name_cells(self) -> Sequence[tuple[int, str]]:
        written, words = self._name_languages
        wanted = [
            [language for _, patterns in self._joined(fact) for language in self._languages_of(patterns, fact.exact)]
            for fact in self._wanted
        ]

        def may_be(is_open: Callable[[int], bool]) -> bool:
            return all(any(map(is_open, one)) for one in wanted)

        cells = name_cells(list(map(_compiled, written)), list(map(_compiled, words)), self._budget, may_be)
        return sorted(cells.items(), key=lambda one: (len(one[1]), one[1]))

    def _languages_of(self, patterns: Sequence[ToolPattern], exact: bool) -> list[int]:
        written, words = self._name_languages
        own = [written[_texts(one.parts[-1] for one in patterns)]]
        return own if exact else [*own, len(written) + words[_texts(one.words for one in patterns)]]

    @cached_property
    def _own_name(self) -> _Text:
        return self._text("own_name", self._name_cells)

    @cached_property
    def _name(self) -> _Text:
        return self._own_name if self._single_name else self._text("name", self._name_cells)

    def _named(self, group: tuple[str, list[ToolPattern]], fact: ToolNamed) -> Any:
        owner_text, patterns = group
        languages = self._languages_of(patterns, fact.exact)
        if not owner_text:
            names = (self._own_name,) if self._single_name else (self._own_name, self._name)
            terms = [name.is_in(language) for name in names for language in languages]
            # As clients write it, mcp__SERVER__NAME, a pattern is for two names in one, which are no single text.
            free = [
                z3.FreshBool() for _ in patterns[:1] if not fact.exact and any("__" in one.text for one in patterns)
            ]
            return z3.Or([*terms, *free])
        source, owner, _ = patterns[0].parts
        owned = self._owner.is_in(self._owner_languages[self._key([owner], True)])
        written = z3.And(self._source_fits(source), owned, self._own_name.is_in(languages[0]))
        if fact.exact:
            return written
        source, owner = patterns[0].owners
        owned = self._owner.is_in(self._owner_languages[self._key([owner], False)])
        return z3.Or(written, z3.And(self._source_fits(source), owned, self._own_name.is_in(languages[1])))

    # Sources, owners and annotations

    @cached_property
    def _source(self) -> Any:
        return self._choice("source", len(SOURCES))

    def _source_in(self, sources: Iterable[str]) -> Any:
        return z3.Or([self._source == at for at, one in enumerate(SOURCES) if one in sources])

    def _source_fits(self, pattern: re.Pattern[str]) -> Any:
        return self._source_in([one for one in SOURCES if pattern.fullmatch(one)])

    @staticmethod
    def _key(patterns: Iterable[re.Pattern[str]], exact: bool) -> tuple[bool, tuple[str, ...]]:
        return not exact, _texts(patterns)

    @cached_property
    def _owner_languages(self) -> dict[tuple[bool, tuple[str, ...]], int]:
        keys: set[tuple[bool, tuple[str, ...]]] = set()
        for fact in self.facts:
            if isinstance(fact, OwnedBy):
                keys.add(self._key(fact.compiled, fact.exact))
        for fact in self._naming:
            for patterns in [patterns for owner, patterns in self._joined(fact) if owner]:
                keys.add(self._key([patterns[0].parts[1]], True))
                if not fact.exact:
                    keys.add(self._key([patterns[0].owners[1]], False))
        return {key: at for at, key in enumerate(sorted(keys))}  # those written first

    @cached_property
    def _owner(self) -> _Text:
        written = [_compiled(texts) for folded, texts in self._owner_languages if not folded]
        small = [_compiled(texts) for folded, texts in self._owner_languages if folded]
        return self._text("owner", _sorted(owner_cells(written, small, self._budget)))

    def _says(self, name: str, value: bool, *, exact: bool) -> Any:
        said, true = self._annotations[name]
        if exact:
            return z3.And(said, true == value)
        reads = z3.And(*self._annotations["read_only"])
        default = z3.Not(reads) if name == "destructive" else z3.BoolVal(UNSAID[name])
        return z3.If(said, true, default) == value

    @cached_property
    def _annotations(self) -> dict[str, tuple[Any, Any]]:
        return {name: (z3.Bool(f"says {name}"), z3.Bool(name)) for name in Annotations.names()}

    # Runs

    def _languages(self, kind: type[ByAgent | InWorkspace]) -> dict[tuple[str, ...], int]:
        """The patterns of all facts of this kind, each with its number."""
        keys = {_texts(fact.compiled) for fact in self.facts if isinstance(fact, kind)}
        return {key: at for at, key in enumerate(sorted(keys))}

    @cached_property
    def _agent_languages(self) -> dict[tuple[str, ...], int]:
        return self._languages(ByAgent)

    @cached_property
    def _agents(self) -> list[tuple[Any, int, str]]:
        """For each cell whether one of the agents is in it."""
        languages = list(map(_compiled, self._agent_languages))
        main = sum(any(one.fullmatch("main") for one in patterns) << at for at, patterns in enumerate(languages))
        others = [one for one in _sorted(text_cells(languages, self._budget)) if one[0] != main]
        cells = [(main, "main"), *others]
        agents = [(z3.Bool(f"agent {at}"), key, text) for at, (key, text) in enumerate(cells)]
        self.rules.append(z3.Or([agent for agent, _, _ in agents]))
        return agents

    @staticmethod
    def _some(agents: Sequence[tuple[Any, int, str]], language: int) -> Any:
        return z3.Or([agent for agent, key, _ in agents if key >> language & 1])

    @cached_property
    def _trigger(self) -> dict[str, Any]:
        triggers = {name: z3.Bool(f"trigger {name}") for name in TRIGGERS}
        self.rules.append(z3.Or(list(triggers.values())))
        return triggers

    @cached_property
    def _folder_languages(self) -> dict[tuple[str, ...], int]:
        return self._languages(InWorkspace)

    @cached_property
    def _workspace(self) -> _Text:
        cells = folder_cells(list(map(_compiled, self._folder_languages)), self._budget)
        return self._text("workspace", _sorted(cells))

    @cached_property
    def _has_workspace(self) -> Any:
        return z3.Bool("has a workspace")

    @cached_property
    def _ids(self) -> list[str]:
        return sorted({one for fact in self.facts if isinstance(fact, Requested) for one in fact.ids or ()})

    @cached_property
    def _id(self) -> Any:
        """The requester's id: one of those that facts name, or another one."""
        return self._choice("requester id", len(self._ids) + 1)

    @cached_property
    def _role(self) -> dict[str, Any]:
        roles = sorted({one for fact in self.facts if isinstance(fact, Requested) for one in fact.roles or ()})
        return {name: z3.Bool(f"role {name}") for name in roles}

    def _requested(self, fact: Requested) -> Any:
        terms: list[Any] = [] if fact.is_owner is None else [z3.Bool("is the owner") == fact.is_owner]
        if fact.ids is not None:
            terms.append(z3.Or([self._id == at for at, one in enumerate(self._ids) if one in fact.ids]))
        if fact.roles is not None:
            terms.append(z3.Or([self._role[name] for name in fact.roles]))
        return z3.And(terms)

    # Calls

    @cached_property
    def call_facts(self) -> list[CallFact]:
        """The facts about calls, which are not modelled: only implications between them are."""
        return [fact for fact in self.facts if isinstance(fact, CallFact)]

    @cached_property
    def _frees(self) -> dict[Fact, Any]:
        frees: dict[Fact, Any] = {fact: z3.FreshBool() for fact in self.call_facts}
        for one in self.call_facts:
            for other in self.call_facts:
                if one != other and one.implies(other):
                    self.rules.append(z3.Implies(frees[one], frees[other]))
        return frees

    def _free(self, fact: Fact) -> Any:
        return self._frees[fact] if fact in self._frees else z3.FreshBool()

    def _choice(self, name: str, number: int) -> Any:
        choice = z3.BitVec(name, max(1, (number - 1).bit_length()))
        self.rules.append(z3.ULE(choice, number - 1))
        return choice

    def _text(self, name: str, cells: Sequence[tuple[int, str]]) -> _Text:
        if not cells:  # no name is wanted that there could be
            self.rules.append(z3.BoolVal(False))
        return _Text(self._choice(name, max(1, len(cells))), cells or [(0, "x")])

    # Answers

    @property
    def plain(self) -> list[Any]:
        """The terms that make a call plainer for people, the most important first."""
        chains = [*self._agents[1:], *[(trigger, 0, name) for name, trigger in self._trigger.items() if name != "user"]]
        texts = (self._own_name, self._name, self._owner)
        return [
            *[z3.Not(self._frees[fact]) for fact in self.call_facts],
            z3.Or([self._owner.cell == at for at, (key, _) in enumerate(self._owner.cells) if not key]),
            *[_cells_of(text, lambda one: one.isascii() and one == one.lower()) for text in texts],
            *[z3.Not(said) for said, _ in self._annotations.values()],
            *[z3.Not(one) for one, _, _ in chains],
            z3.Not(self._has_workspace),
            _cells_of(self._workspace, lambda one: one[:1] == "/"),
            z3.Not(z3.Bool("is the owner")),
            self._id == len(self._ids),
            *[z3.Not(role) for role in self._role.values()],
            *[self._source == SOURCES.index(source) for source in ("host", "mcp")],
            *[_cells_of(text, lambda one: one[-1:].isalnum()) for text in texts],
        ]

    def example(self, model: Any) -> Example:
        """The call that a solver's answer means."""

        def holds(term: Any) -> bool:
            return z3.is_true(model.eval(term, model_completion=True))

        annotations = {name: holds(value) for name, (said, value) in self._annotations.items() if holds(said)}
        agents = [text for agent, _, text in self._agents if holds(agent)]
        triggers = [name for name, trigger in self._trigger.items() if holds(trigger)] or ["user"]
        at = model.eval(self._id, model_completion=True).as_long()
        source: int = model.eval(self._source, model_completion=True).as_long()
        roles = [name for name, role in self._role.items() if holds(role)]
        requester: dict[str, Any] = {"is_owner": True} if holds(z3.Bool("is the owner")) else {}
        requester |= {"id": self._ids[at]} if at < len(self._ids) else {}
        requester |= {"roles": roles} if roles else {}
        return Example(
            name=self._name.text(model),
            own_name=self._own_name.text(model),
            source=SOURCES[source],
            owner=self._owner.text(model),
            annotations=annotations,
            agents=agents,
            triggers=triggers,
            workspace_dir=self._workspace.text(model) if holds(self._has_workspace) else None,
            requester=requester or None,
            facts={fact: holds(self._frees[fact]) for fact in self.call_facts},
        )


def _cells_of(text: _Text, fits: Callable[[str], bool]) -> Any:
    return z3.Or([text.cell == at for at, (_, one) in enumerate(text.cells) if fits(one)])


def _texts(patterns: Iterable[re.Pattern[str]]) -> tuple[str, ...]:
    return tuple(sorted({one.pattern for one in patterns}))


def _compiled(texts: Iterable[str]) -> list[re.Pattern[str]]:
    return [re.compile(text, re.DOTALL) for text in texts]


def _sorted(cells: Cells) -> list[tuple[int, str]]:
    return sorted(cells.items(), key=lambda one: (len(one[1]), one[1]))
