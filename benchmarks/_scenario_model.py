"""The model of the scenarios: a few rules instead of weights, and nothing to go by but what it is sent.

It knows what the user wants, as steps with the user's facts, and what it would type into a search. It knows no tool: which
one to call, and which parameter takes which fact, it reads from the definitions that are offered, or from what a search
answers. A tool fits when its name and description share words with the step, every required parameter can be filled by a
fact of its type, and no fact is left over. Where nothing fits it says so, and it never calls a name that it was not shown.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, cast

from hooksdk.testing import Call, Reply, SeenResult, Turn, call

__all__ = ["Fact", "Step", "plan_of", "scripted_agent"]

Results = Mapping[str, Any]
"""What the steps so far have come to, by step."""
Thinking = Generator[Reply, Turn, str]
Move = tuple[Call, Callable[[SeenResult], None]]
"""A call, and what to make of its result."""
SEARCH, DESCRIBE, CALL, CODE = "tool_search", "tool_describe", "tool_call", "tool_search_code"
TYPES = {str: {"string"}, int: {"integer", "number"}}
SMALL_WORDS = {
    "a", "and", "by", "for", "from", "in", "into", "is", "my", "of", "on", "or", "that", "the", "this", "to", "with",
}  # fmt: skip
ENOUGH = 2
"""Words that a tool and a step must share."""
LEADING = 160
"""Characters of a description that the model weighs: a search shows no more of it."""


@dataclass(frozen=True)
class Fact:
    """Something that the call must say."""

    called: str
    """Words by which a parameter for it may go."""
    value: str | int | Callable[[Results], str]
    """The value, or how it is made of the results of earlier steps."""
    script: str = ""
    """The latter as Python, where a variable named for each step holds its result."""


@dataclass(frozen=True)
class Step:
    """One thing to do, for which one tool is needed."""

    name: str
    goal: str
    facts: Sequence[Fact]
    queries: Sequence[str] = ()
    """What the model would type to find the tool, one after the other."""
    after: str | None = None
    """The step whose result it needs."""

    @property
    def words(self) -> list[str]:
        return words_of(" ".join([self.goal, *self.queries]))


def plan_of(scenario: Mapping[str, Any]) -> list[Step]:
    """What the user of a scenario wants. No name of a tool or a parameter stands here."""
    queries: list[str] = scenario["scripted_search_queries"]
    post = "post a message to a Slack channel"
    text = "text message content body"
    match scenario["id"][0]:
        case "A":
            facts = [
                Fact("repository", "acme/widget"),
                Fact("title subject name", "Crash on startup"),
                Fact("body text description content", "App crashes immediately after launch when offline."),
            ]
            return [Step("file", "file a GitHub issue", facts, queries)]
        case "B":
            facts = [
                Fact("title subject name summary", "Design review"),
                Fact("start begin time date when", "2026-05-25T10:00:00"),
                Fact("duration length minutes", 30),
            ]
            return [Step("meet", "put a meeting in my schedule", facts, queries)]
        case "C":
            goal = "list the open pull requests of a repository"
            look = Step("look", goal, [Fact("repository", "acme/widget")], queries[:1])
            summary = Fact(text, lambda results: summarise_pulls(results["look"]), PULLS_SUMMARY)
            return [look, Step("post", post, [Fact("channel", "#engineering"), summary], queries[1:], after="look")]
        case "D":
            step = Step("read", "read a file of the test folder", [Fact("path file", "notes.txt")])
            summary = Fact(text, lambda results: str(results["read"]).strip())
            return [step, Step("post", post, [Fact("channel", "#random"), summary], queries, after="read")]
        case _:
            return []


PULLS_SUMMARY = (
    """f"acme/widget has {len([each for each in look.values() if isinstance(each, list)][0])} open pull requests\""""
)


def summarise_pulls(result: object) -> str:
    """A summary of a result that holds a list, whatever the list is called."""
    lists = [cast("list[Any]", each) for each in as_object(result).values() if isinstance(each, list)]
    return f"acme/widget has {len(lists[0])} open pull requests"


@dataclass(frozen=True)
class Parameter:
    name: str
    types: frozenset[str]
    required: bool
    description: str = ""


@dataclass(frozen=True)
class Candidate:
    """A tool as the model was shown it; `parameters` is None where it was not told them."""

    name: str
    description: str
    parameters: Sequence[Parameter] | None
    direct: bool = False

    def shared_words(self, step: Step) -> int:
        own = words_of(f"{self.name} {self.description[:LEADING]}")
        return sum(any(alike(word, each) for each in own) for word in step.words)


def words_of(text: str) -> list[str]:
    parts = re.findall(r"[A-Z]?[a-z]+|[A-Z]+|\d+", text)
    return [word for word in dict.fromkeys(part.lower() for part in parts) if word not in SMALL_WORDS]


def alike(one: str, other: str) -> bool:
    """Whether two words are the same but for their endings."""
    short, long = sorted((one, other), key=len)
    common = next((at for at, letter in enumerate(short) if long[at] != letter), len(short))
    return one == other or common >= max(4, 0.7 * len(long))


def names(parameter: Parameter, fact: Fact) -> int:
    """How well a parameter's name, written out or short, and its description say that it takes the fact."""
    fact_words = words_of(fact.called)
    own = words_of(parameter.name)
    by_name = sum(
        any(word.startswith(part) or alike(word, part) for part in own if len(part) > 2) for word in fact_words
    )
    return 3 * by_name + sum(any(alike(word, part) for part in words_of(parameter.description)) for word in fact_words)


def assign(step: Step, parameters: Sequence[Parameter]) -> dict[str, Fact] | None:
    """Which parameter takes which fact, or None where something required is not known, or a fact has no place."""
    pairs = [
        (score, parameter, fact)
        for fact in step.facts
        for parameter in parameters
        if (score := names(parameter, fact)) and takes(parameter, fact)
    ]
    assignment: dict[str, Fact] = {}
    for _, parameter, fact in sorted(pairs, key=lambda pair: -pair[0]):
        if parameter.name not in assignment and fact not in assignment.values():
            assignment[parameter.name] = fact
    lacking = any(parameter.required and parameter.name not in assignment for parameter in parameters)
    return None if lacking or len(assignment) < len(step.facts) else assignment


def takes(parameter: Parameter, fact: Fact) -> bool:
    kind = type(fact.value) if isinstance(fact.value, int) else str
    return bool(parameter.types & TYPES[kind]) or not parameter.types


def choose(step: Step, candidates: Iterable[Candidate]) -> Candidate | None:
    """The tool that shares the most words with the step among those that fit; the first shown of equals."""
    fitting = [
        one
        for one in candidates
        if one.parameters is not None and one.shared_words(step) >= ENOUGH and assign(step, one.parameters) is not None
    ]
    return max(fitting, key=lambda one: one.shared_words(step), default=None)


def read_schema(schema: Mapping[str, Any] | None) -> list[Parameter]:
    fields = schema or {}
    properties: dict[str, Any] = fields.get("properties") or {}
    required: Sequence[str] = fields.get("required") or ()
    parameters: list[Parameter] = []
    for name, part in properties.items():
        about = as_object(part)
        kinds: object = about.get("type") or ()
        types = frozenset([kinds] if isinstance(kinds, str) else cast("Sequence[str]", kinds))
        parameters.append(Parameter(name, types, name in required, str(about.get("description", ""))))
    return parameters


def read_signature(signature: str) -> list[Parameter]:
    """The parameters of `tool(title: string, labels?: string[])`; commas inside brackets and quotes part nothing."""
    inner = signature.partition("(")[2].rstrip().removesuffix(")")
    parts = re.findall(r"""(?:"[^"]*"|\{[^{}]*\}|\([^()]*\)|[^,])+""", inner)
    parameters: list[Parameter] = []
    for part in parts:
        name, colon, kind = part.strip().partition(": ")
        if colon:
            types = frozenset(one.strip() for one in kind.split("|"))
            parameters.append(Parameter(name.removesuffix("?"), types, not name.endswith("?")))
    return parameters


def read_hits(value: object) -> Iterator[Candidate]:
    """The hits in the answer of a search, wherever they stand; the best one may come with its schema."""
    hit = as_object(value)
    if "name" not in hit:
        for each in cast("list[object]", value) if isinstance(value, list) else hit.values():
            yield from read_hits(each)
    elif as_object(hit.get("parameters")):
        yield Candidate(hit["name"], hit.get("description", ""), read_schema(hit["parameters"]))
    else:
        parameters = read_signature(hit["call"]) if hit.get("call") else None
        yield Candidate(hit["name"], hit.get("description", ""), parameters)


def read_descriptions(answer: object, names: Sequence[str]) -> Iterator[Candidate]:
    """The tools that `tool_describe` shows by name, or a script in the order in which it asked."""
    by_name = [as_object(answer).get("tools", {}).get(name) for name in names]
    for name, one in zip(names, cast("list[object]", answer) if isinstance(answer, list) else by_name, strict=False):
        schema = as_object(one)
        yield Candidate(name, schema.get("description", ""), read_schema(schema.get("parameters")))


def scripted_agent(prompt: str, plan: Sequence[Step]) -> Callable[[Turn], Reply | str]:
    """A script for a `ScriptedServer` or a `ScriptedModel`."""
    started: list[Thinking] = []

    def script(turn: Turn) -> Reply | str:
        try:
            if started:
                return started[0].send(turn)
            started.append(Agent(prompt, plan, turn).work())
            return next(started[0])
        except StopIteration as ended:
            return ended.value

    return script


class Stuck(Exception):
    """What the model says where it cannot go on."""


@dataclass
class Agent:
    prompt: str
    plan: Sequence[Step]
    turn: Turn
    chosen: dict[str, Candidate] = field(default_factory=dict[str, Candidate])
    candidates: dict[str, Candidate] = field(default_factory=dict[str, Candidate])
    results: dict[str, Any] = field(default_factory=dict[str, Any])
    tried: Counter[str] = field(default_factory=Counter[str])
    """How many of its queries were tried for a step."""
    described: set[str] = field(default_factory=set[str])
    offered: set[str] = field(default_factory=set[str])
    """The names of all tools that it was shown so far."""

    def work(self) -> Thinking:
        if not self.plan:
            return calculate(self.prompt)
        self.learn_definitions()
        try:
            while self.open_steps():
                moves = [*self.calls(), *self.looks()]
                if not moves:
                    lost = " or to ".join(step.goal for step in self.open_steps())
                    return f"I found no tool to {lost}."
                self.turn = yield Reply(calls=[call for call, _ in moves])
                for (_, take), result in zip(moves, self.turn.results, strict=True):
                    take(result)
                self.learn_definitions()
        except Stuck as stuck:
            return str(stuck)
        return "I am done."

    def learn_definitions(self) -> None:
        """Learn what is offered since the last turn."""
        new = {name: one for name, one in self.turn.definitions.items() if name not in self.offered}
        self.offered |= new.keys()
        self.learn(
            Candidate(name, definition["description"], read_schema(definition["parameters"]), direct=True)
            for name, definition in new.items()
        )

    def open_steps(self) -> list[Step]:
        return [step for step in self.plan if step.name not in self.results]

    # What it can do now.

    def calls(self) -> Iterator[Move]:
        """A call for each step whose tool is known and whose facts are; in code mode one script, also for what follows."""
        script: list[Step] = []
        for step in self.open_steps():
            tool = self.chosen.get(step.name)
            ready = not step.after or step.after in self.results
            if tool is None:
                continue
            if CODE in self.turn.offered and not tool.direct:
                if ready or step.after in [one.name for one in script]:
                    script.append(step)
            elif ready:
                arguments = self.arguments(step)
                move = Call(tool.name, arguments) if tool.direct else call(CALL, name=tool.name, arguments=arguments)
                yield move, partial(self.finish, step)
        if script:
            yield call(CODE, code=self.script(script)), partial(self.finish_script, script)

    def arguments(self, step: Step) -> dict[str, Any]:
        facts = self.assignment_of(step).items()
        return {name: fact.value(self.results) if callable(fact.value) else fact.value for name, fact in facts}

    def assignment_of(self, step: Step) -> dict[str, Fact]:
        return assign(step, self.chosen[step.name].parameters or ()) or {}

    def script(self, steps: Sequence[Step]) -> str:
        lines: list[str] = []
        for step in steps:
            is_known = step.after not in [one.name for one in steps]
            code = json.dumps(self.arguments(step)) if is_known else self.code_of_arguments(step)
            lines.append(f"{step.name} = await call({json.dumps(self.chosen[step.name].name)}, {code})")
        return "\n".join([*lines, "{" + ", ".join(f'"{step.name}": {step.name}' for step in steps) + "}"])

    def code_of_arguments(self, step: Step) -> str:
        """The arguments as Python that uses results of the same script."""
        parts = (
            f"{json.dumps(name)}: {one.script or json.dumps(one.value)}"
            for name, one in self.assignment_of(step).items()
        )
        return "{" + ", ".join(parts) + "}"

    def finish(self, step: Step, result: SeenResult) -> None:
        if result.is_error:
            raise Stuck(f"I could not {step.goal}: {result.text[:200]}")
        self.results[step.name] = read_json(result.text)

    def finish_script(self, steps: Sequence[Step], result: SeenResult) -> None:
        self.finish(steps[0], result)
        self.results.update(as_object(read_json(result.text)["value"]))

    # What it must find first.

    def looks(self) -> Iterator[Move]:
        """One search for all that has no tool, each with its next query; then one look at the likeliest schemas."""
        lost = [step for step in self.open_steps() if step.name not in self.chosen]
        code = CODE in self.turn.offered
        if not lost or not (code or SEARCH in self.turn.offered):
            return
        queries: list[str] = []
        for step in lost:
            queries += (step.queries or [step.goal])[self.tried[step.name] :][:1]
            self.tried[step.name] += 1
        if queries:
            search = call(CODE, code=in_turn("search", queries)) if code else call(SEARCH, queries=queries)
            yield search, lambda result: self.learn(read_hits(answer_of(result)))
            return
        likely = dict.fromkeys(name for step in lost for name in self.likeliest(step) if name not in self.described)
        names = list(likely)
        self.described |= likely.keys()
        if names:
            look = call(CODE, code=in_turn("describe", names)) if code else call(DESCRIBE, names=names)
            yield look, lambda result: self.learn(read_descriptions(answer_of(result), names))

    def likeliest(self, step: Step) -> list[str]:
        return sorted(self.candidates, key=lambda name: -self.candidates[name].shared_words(step))[:3]

    def learn(self, candidates: Iterable[Candidate]) -> None:
        """Keep what is shown, and choose among it for the steps that have no tool yet."""
        new = list(candidates)
        self.candidates |= {one.name: one for one in new if not one.direct}
        for step in self.open_steps():
            if step.name not in self.chosen and (tool := choose(step, new)):
                self.chosen[step.name] = tool


def in_turn(function: str, values: Sequence[str]) -> str:
    """A script whose value is what the function answers to each."""
    return "[" + ", ".join(f"await {function}({json.dumps(value)})" for value in values) + "]"


def answer_of(result: SeenResult) -> object:
    """What a bridge tool answers, or the value of a script."""
    answer = read_json(result.text)
    return as_object(answer).get("value", answer)


def read_json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def as_object(value: object) -> dict[str, Any]:
    """The value where it is a JSON object, else an empty one."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def calculate(prompt: str) -> str:
    """The answer to a question that needs no tool."""
    numbers = re.search(r"(\d+) times (\d+)", prompt)
    return str(int(numbers[1]) * int(numbers[2])) if numbers else "I do not know."
