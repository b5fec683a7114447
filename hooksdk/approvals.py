"""Approvals: what a person is asked before a call, what they answered, and what is remembered of it.

Who asks, and keeps the questions that wait, is in `hooksdk.desk`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hooksdk._approvals.request import (
    MAX_TIMEOUT,
    SCOPES,
    YES,
    Approval,
    ApprovalRequest,
    Approver,
    Later,
    Question,
    Unanswered,
    ask_approver,
    definition_of,
    digest_of,
    plain_answer,
    requester_of,
)

if TYPE_CHECKING:
    from hooksdk._approvals.remembered import Remembered, RememberedApproval

__all__ = [
    "MAX_TIMEOUT",
    "SCOPES",
    "YES",
    "Approval",
    "ApprovalRequest",
    "Approver",
    "Later",
    "Question",
    "Remembered",
    "RememberedApproval",
    "Unanswered",
    "ask_approver",
    "definition_of",
    "digest_of",
    "plain_answer",
    "requester_of",
]
# Names that this module had before they moved.
_AT_THE_DESK = (
    "ApprovalDesk",
    "ApprovalRecord",
    "ApprovalRecords",
    "ApprovalWebhook",
    "Channel",
    "ConsoleApprover",
    "NotWaiting",
)

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        if name in {"Remembered", "RememberedApproval"}:  # most runs ask nobody
            from hooksdk._approvals import remembered

            return getattr(remembered, name)
        if name in _AT_THE_DESK:
            raise ImportError(f"{name} is in hooksdk.desk now: from hooksdk.desk import {name}")
        raise AttributeError(f"module 'hooksdk.approvals' has no attribute {name!r}")
