"""What a policy's rules say, in one form for matching calls and for proofs about all of them.

A plugin describes its rules by a class method `describe_rules(config) -> Rules`, and may match calls by the same
facts.

Status: trial.
"""

from __future__ import annotations

from hooksdk.rules._arguments import (
    UnknownArgument,
    as_judged,
    is_about,
    named_arguments,
    names_in_schema,
    unknown_arguments,
)
from hooksdk.rules._facts import (
    ByAgent,
    CallFact,
    Fact,
    FromSource,
    InWorkspace,
    NamedArgument,
    OwnedBy,
    Requested,
    RunFact,
    Says,
    ToolFact,
    ToolNamed,
    Triggered,
    current_folder,
    says_part_of_a_name,
    wildcard,
)
from hooksdk.rules._rules import ACTIONS, CLAIMS, Action, CallClass, Claim, DescribedRule, Rules

__all__ = [
    "ACTIONS",
    "CLAIMS",
    "Action",
    "ByAgent",
    "CallClass",
    "CallFact",
    "Claim",
    "DescribedRule",
    "Fact",
    "FromSource",
    "InWorkspace",
    "NamedArgument",
    "OwnedBy",
    "Requested",
    "Rules",
    "RunFact",
    "Says",
    "ToolFact",
    "ToolNamed",
    "Triggered",
    "UnknownArgument",
    "as_judged",
    "current_folder",
    "is_about",
    "named_arguments",
    "names_in_schema",
    "says_part_of_a_name",
    "unknown_arguments",
    "wildcard",
]
