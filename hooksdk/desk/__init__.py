"""The approval desk: records of questions that wait for a person, and the ways to people who answer.

The answer comes from a terminal, a client of the gateway, a web service, or `hooksdk approvals` in another process.

Status: stable.
"""

from __future__ import annotations

from hooksdk.desk._desk import ApprovalDesk, ApprovalWebhook, Channel
from hooksdk.desk._record import ApprovalRecord
from hooksdk.desk._records import ApprovalRecords, NotWaiting
from hooksdk.desk.console import ConsoleApprover

__all__ = [
    "ApprovalDesk",
    "ApprovalRecord",
    "ApprovalRecords",
    "ApprovalWebhook",
    "Channel",
    "ConsoleApprover",
    "NotWaiting",
]
