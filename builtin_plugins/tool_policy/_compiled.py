"""A rule made ready for many questions: whether it fits a tool, a run and a call, and why."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, final

from builtin_plugins.tool_policy._conditions import folder_in
from builtin_plugins.tool_policy._facts import DoesKinds, FitsReading, Watched, WrittenFact, facts_of
from builtin_plugins.tool_policy._origins import Reading
from builtin_plugins.tool_policy._paths import absolute
from builtin_plugins.tool_policy._rule import Rule
from builtin_plugins.tool_policy._vocabulary import WORDS, Vocabulary
from hooksdk import Tool
from hooksdk.hooks import BeforeToolCall, Event, ToolCallStart
from hooksdk.patterns import ToolPattern
from hooksdk.rules import Fact, RunFact, ToolFact, ToolNamed, current_folder

PATH_KEYS = ("path_inside", "path_outside", "path_name")
_ANY_NAME = ToolNamed(("*",), exact=True)


@final
class CompiledRule:
    """One rule, made ready for many questions.

    Attributes:
        number: From 1; 0 is the default.
        exact: Names count as they are written; else by their words, and owners in any case.
    """

    def __init__(self, rule: Rule, number: int, vocabulary: Vocabulary = WORDS) -> None:
        self.rule = rule
        self.number = number
        self.name = f"rule {number}" if number else "the default"
        self.exact = rule.action == "allow"
        self.facts = facts_of(rule, vocabulary)
        self._vocabulary = vocabulary
        self._run_facts = [fact for fact in self.facts if isinstance(fact, RunFact)]
        self._named = [fact for fact in self.facts if isinstance(fact, ToolNamed)] or [_ANY_NAME]
        self._tool_facts = [fact for fact in self.facts if isinstance(fact, ToolFact) and fact not in self._named]
        self._written = [fact for fact in self.facts if isinstance(fact, WrittenFact)]
        self._rooted_at: dict[str | None, Sequence[WrittenFact]] = {}
        self._watched = next((fact for fact in self._written if isinstance(fact, Watched)), None)
        self._does = next((fact.does for fact in self._written if isinstance(fact, DoesKinds)), None)
        readings = (fact.reading for fact in self.facts if isinstance(fact, FitsReading))
        self.reading = next(readings, Reading(None, None, None))

    @property
    def conditional(self) -> bool:
        """True when the call itself decides, so that nothing can be said of the tool alone."""
        return self.looks_at_arguments or self.rule.limit is not None

    @property
    def looks_at_arguments(self) -> bool:
        """True when what the call says decides."""
        return bool(self._written or self.reading)

    @property
    def about_all_tools(self) -> bool:
        """True when it says nothing of tools and calls, so that it is about the whole run."""
        rule = self.rule
        said = (rule.annotations, rule.sources, rule.owners)
        return not self.looks_at_arguments and rule.tools == ["*"] and all(one is None for one in said)

    @property
    def always(self) -> bool:
        """True when it fits every call, in every run, of the tools that it is about."""
        return not (self.conditional or self._run_facts)

    def fits_run(self, event: Event) -> bool:
        """True for runs that the rule is about."""
        return all(fact.holds(event) for fact in self._run_facts)

    def fits_tool(self, tool: Tool) -> bool:
        """True for tools that the rule is about. Of a bridge tool a pattern must say part of the name."""
        return all(fact.holds(tool) for fact in self._named) and self._fits_otherwise(tool)

    @property
    def patterns(self) -> list[ToolPattern]:
        """What its `tools` say."""
        return self._named[0].compiled

    def near_miss(self, tool: Tool) -> ToolPattern | None:
        """The pattern that somebody may believe to mean this tool, where none of the rule does."""
        if tool.bridge or self.fits_tool(tool) or not self._fits_otherwise(tool):
            return None
        nearly_means = ToolPattern.may_mean if self.exact else ToolPattern.nearly_means
        return next((pattern for pattern in self.patterns if nearly_means(pattern, tool)), None)

    def _fits_otherwise(self, tool: Tool) -> bool:
        """True where nothing but the name and the call may stand against it."""
        return all(fact.holds(tool) for fact in self._tool_facts)

    def unsaid(self, tool: Tool) -> str:
        """What the rule takes the tool for though it does not say so itself, in words; empty where it does."""
        if self._does and not self.exact and not self._does.knows(tool):
            return f"nobody says what {tool.name} does, so it counts as everything"
        wanted = {} if self.exact or self.rule.annotations is None else self.rule.annotations
        words = [
            f"{'' if value else 'not '}{name.replace('_', '-')}"
            for name, value in wanted.items()
            if getattr(tool.annotations, name) is None
        ]
        return f"{tool.name} says nothing of it, so it counts as {' and '.join(words)}" if words else ""

    def why_not(self, event: BeforeToolCall | ToolCallStart, met: Collection[Fact] = ()) -> str:
        """Why the rule does not fit the call; empty when it does. An allow fits only what is sure, a deny and an ask
        whatever may be meant. `met` are conditions that count as met. Raises `Undecidable`, and `LookupError` where it
        is not known where values come from."""
        # Each access makes a copy of the arguments, and most rules look at none.
        arguments: Mapping[str, Any] = event.arguments if self._written else {}
        problem = ""
        for folder, written in self.from_each_folder(event.workspace_dir, arguments, met):
            problem = next((why for fact in written if (why := fact.why_not(arguments, event.tool, folder))), "")
            if bool(problem) is self.exact:  # an allow must hold from each folder, a deny and an ask from one
                break
        if problem or not self.reading or not isinstance(event, BeforeToolCall):
            return problem
        if any(isinstance(fact, FitsReading) for fact in met):
            return ""
        return self.reading.why_not(event)

    def from_each_folder(
        self, workspace: str | None, arguments: Mapping[str, Any], met: Collection[Fact]
    ) -> Iterator[tuple[str | None, Sequence[WrittenFact]]]:
        """The folders that relative words of a call may start from, each with the conditions that are not met yet: the
        workspace, where the call runs, and from there the folder that it names itself. Relative folders of the rule
        mean the workspace."""
        open_ones = [at for at, fact in enumerate(self._written) if fact not in met]
        yield workspace, [self._written[at] for at in open_ones]
        if not any(getattr(self.rule, key) for key in PATH_KEYS):
            return
        starts = [workspace, current_folder.get()]
        starts += [absolute(named, start) for start in starts] if (named := folder_in(arguments)) else []
        for folder in dict.fromkeys(starts):
            if folder and folder != workspace:
                rooted = self._rooted(workspace)
                yield folder, [rooted[at] for at in open_ones]

    def _rooted(self, workspace: str | None) -> Sequence[WrittenFact]:
        """The conditions with the rule's relative folders as paths from the root."""
        if workspace not in self._rooted_at:
            rooted = self.rule.model_copy(
                update={
                    key: {
                        name: [absolute(text, workspace) or text for text in texts] for name, texts in targets.items()
                    }
                    for key in ("path_inside", "path_outside")
                    if (targets := getattr(self.rule, key))
                }
            )
            facts = facts_of(rooted, self._vocabulary)
            self._rooted_at[workspace] = [fact for fact in facts if isinstance(fact, WrittenFact)]
        return self._rooted_at[workspace]

    def unwatched_names(self, tool: Tool) -> list[tuple[str, str]]:
        """The arguments of a tool that no condition of an allow looks at, each with the condition that would."""
        return self._watched.unwatched_names(tool) if self._watched else []
