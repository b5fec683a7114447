"""What the bridge tools are called in this host, and what models read of them: descriptions, how to call what is
hidden, hints after searches in vain, and advice to scripts that failed."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

# Their names unless the configuration says otherwise. Policies know the tools by these in any case.
BRIDGES = ("tool_search", "tool_describe", "tool_call", "tool_search_code")
# The names that every provider takes.
LEGAL = re.compile(r"[A-Za-z0-9_-]{1,64}")
_OWN = re.compile(r"\b(?:tool_search_code|tool_search|tool_describe|tool_call)\b")


@dataclass(frozen=True, slots=True)
class Names:
    """The bridge tools by the names that the model sees.

    Attributes:
        chosen: Other names, by the usual ones.
    """

    chosen: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def search(self) -> str:
        """The name of `tool_search`."""
        return self.of("tool_search")

    @property
    def describe(self) -> str:
        """The name of `tool_describe`."""
        return self.of("tool_describe")

    @property
    def call(self) -> str:
        """The name of `tool_call`."""
        return self.of("tool_call")

    @property
    def code(self) -> str:
        """The name of `tool_search_code`."""
        return self.of("tool_search_code")

    def of(self, usual: str) -> str:
        """The name that the model sees of this bridge tool."""
        return self.chosen.get(usual, usual)

    def bridge(self, written: str) -> str:
        """The usual name of the bridge tool that a model means, also as `functions.tool_search` or in other letters, or
        by the usual name where it has another; empty where it means none."""
        name = written.strip().rpartition(".")[2].casefold()
        meant = [usual for usual in BRIDGES if name == self.of(usual).casefold()]
        return next(iter(meant or [usual for usual in BRIDGES if name == usual]), "")

    def fill(self, sentence: str) -> str:
        """One of our own sentences, with these names. Not for text of others, which may hold such names, too."""
        return _OWN.sub(lambda match: self.of(match[0]), sentence) if self.chosen else sentence


# Imported before a script: models forget to.
SCRIPT_MODULES = ("asyncio", "collections", "datetime", "functools", "itertools", "json", "math", "re")

# What the model reads of each bridge tool unless the configuration says otherwise.
DESCRIPTIONS: Mapping[str, str] = {
    "tool_search": (
        "Find tools. Call this first whenever none of the tools shown does exactly what is asked; do not write files or "
        "run commands in place of such a tool. It knows {count} tools, shown or not. Sources (not tools): "
        '{owners}. Give one or several queries in a few keywords, such as {"queries": ["create github issue"]}. '
        "Each hit comes with its call signature: use it through tool_call."
    ),
    "tool_describe": "Show the JSON Schema of tools, when a signature is not enough.",
    "tool_call": "Call a tool that tool_search found. Tools that are shown to you are called directly.",
    "tool_search_code": """\
Run a short Python script that finds tools and calls them. It reaches {count} tools, shown or not. Sources (not tools): {owners}. \
Only a script can call what is not shown. It has three functions, and each needs await:
search(query, limit=5) -> list of dicts with name, call (the signature), description
describe(name) -> dict with description, parameters (JSON Schema), returns where known
call(name, {arguments}) -> its answer: a dict or list where it is JSON, else text
Example:
hits = await search("create issue")
print(hits[0]["call"])
await call("create_issue", {"title": "It is broken"})
What it prints and the value of its last line come back; what it assigns outside of functions (JSON values) is there in your next \
script. await asyncio.gather(call(...), call(...)) runs calls at once (no return_exceptions). A blocked or failed call raises. \
Limited Python: no yield, no inheritance, no files or network; import only asyncio, json, re, math, datetime, \
collections, itertools, functools.""",
}


# What the model reads of `tool_search` where the provider shows what it found.
NATIVE_SEARCH = (
    "Find tools. Call this first whenever none of the tools that you have does exactly what is asked; do not write files or "
    "run commands in place of such a tool. It knows {count} more tools. Sources (not tools): {owners}. Give one or several "
    'queries in a few keywords, such as {"queries": ["create github issue"]}. What it finds is yours to call from then on.'
)


def not_offered(name: str) -> str:
    """What a call of a bridge tool reads that this run does not offer, such as in a small catalog."""
    return f"'{name}' was not run: it is not offered to you now. Call the tools that are, each by its own name."


# How a hidden tool is called: through the bridge tools, in a script, or by its own name, where the provider shows what
# a search found.
Way = Literal["tools", "script", "native"]
HOW_TO_CALL: Mapping[Way, str] = {
    "tools": "Call such a tool through tool_call, with its name and its arguments; tool_search finds the exact name.",
    "script": "Call such a tool in a script for tool_search_code, with await call(name, arguments); await search(queries) "
    "finds the exact name.",
    "native": "Find it with tool_search first; then call it by its own name.",
}

MORE_TOOLS = (
    "(Not from the user: more tools that may fit what was asked. Call them through tool_call, with name and arguments.)"
)
# Above the signatures behind a prompt.
MORE_TOOLS_IN_SCRIPT = (
    "(Not from the user: more tools that may fit what was asked. Call them in a script for tool_search_code.)"
)

SOME_HITS = (
    "Searching more will hardly help. Call the best hit through tool_call if it fits; if nothing does, the capability does "
    "not exist here: say so, or go on without it."
)
NO_HITS = (
    "Searching more will hardly help, and nothing was found now: the capability does not exist here. Say so, go on without "
    "it, or call what an earlier search found."
)

REPEATED = "You have searched for exactly this before, so nothing new is found."
REFUSED_AGAIN = "you wrote this very call before, and it is refused again: write another one."
NOTHING_FITS = "If no tool fits, say so, or go on without it."

# What to do instead, by a part of what went wrong: what models write most often, and this Python has not.
SCRIPT_ADVICE = (
    ("'coroutine' object", 'A call was not awaited: write await before it, as in (await search("mail"))[0]'),
    ("the JSON object must be str", "call has read the JSON already: leave json.loads away"),
    ("string indices must be integers", "if that is what call answered, it is text: print it to see its form"),
    (
        "No module named",
        f"Import only {', '.join(SCRIPT_MODULES)}, base64, copy, dataclasses, hashlib, random, time or typing",
    ),
    ("module 'asyncio' has no attribute", "Of asyncio there are gather, run and sleep"),
    ("exceptions can only be called with", 'Give an exception one text, such as ValueError(f"no {name}")'),
    ("cannot suspend in this synchronous context", "Make the calls in a list comprehension, not in map or sorted"),
    (
        "suspension limit",
        "A script stops 1,000 times at most: for a call, to wait for it, for a sleep, a refused file, an unknown name",
    ),
    (
        "gather() does not yet support",
        "To keep what fails apart, write an async function with try and except, and gather that",
    ),
)
# Bridge tools of the other mode, which models know from elsewhere, and what stands for them in a script.
INSTEAD_IN_SCRIPT = {
    "tool_search": 'await search("...")',
    "tool_describe": 'await describe("TOOL")',
    "tool_call": 'await call("TOOL", {...})',
}
# After the calls that a script had made before it failed.
NOT_UNDONE = "They were carried out: repeat none that changes something."
