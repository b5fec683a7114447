"""What a policy's rules say, in one form for matching calls and for proofs about all of them.

A plugin describes its rules by a class method `describe_rules(config) -> Rules`, and may match calls by the same
facts.

Status: trial.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hooksdk.rules._facts import (
    ACTIONS,
    CLAIMS,
    Action,
    ByAgent,
    CallClass,
    CallFact,
    Claim,
    DescribedRule,
    Fact,
    FromSource,
    InWorkspace,
    NamedArgument,
    OwnedBy,
    Requested,
    Rules,
    RunFact,
    Says,
    ToolFact,
    ToolNamed,
    Triggered,
    current_folder,
    named_arguments,
    says_part_of_a_name,
    wildcard,
)

if TYPE_CHECKING:
    from hooksdk.rules._arguments import UnknownArgument, as_judged, is_about, names_in_schema, unknown_arguments

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

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        """What tells whether tools have the arguments that rules name: most rules name none, and load nothing of it."""
        if name not in __all__:
            raise AttributeError(f"module 'hooksdk.rules' has no attribute '{name}'", name=name)
        from hooksdk.rules import _arguments

        return getattr(_arguments, name)
