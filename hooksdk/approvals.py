"""Approvals: what a person is asked before a call, what they answered, and what is remembered of it."""

from __future__ import annotations

from hooksdk._approvals.console import ConsoleApprover
from hooksdk._approvals.desk import ApprovalDesk, Channel
from hooksdk._approvals.record import ApprovalRecord
from hooksdk._approvals.records import ApprovalRecords, NotWaiting
from hooksdk._approvals.remembered import Remembered, RememberedApproval
from hooksdk._approvals.request import Approval, ApprovalRequest, Approver, Later, Question
from hooksdk._approvals.webhook import ApprovalWebhook

__all__ = [
    "Approval",
    "ApprovalDesk",
    "ApprovalRecord",
    "ApprovalRecords",
    "ApprovalRequest",
    "ApprovalWebhook",
    "Approver",
    "Channel",
    "ConsoleApprover",
    "Later",
    "NotWaiting",
    "Question",
    "Remembered",
    "RememberedApproval",
]
