"""What an operator of AgentDojo's four applications would write: which tools only read, and which arguments name where something goes.

Written by the tools' names, descriptions and parameters alone, and for workspace, banking and travel looked at while the rules were
built; slack was not.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from typing import Any

from hooksdk import Tool
from hooksdk.cli._policy_start import starter_rules

READING = ("get_*", "search_*", "list_*", "read_*", "check_*")
"""Patterns of tools that only read. One of them, `get_unread_emails`, marks mails as read."""
FETCHING = ("get_webpage",)
"""Begins like a reading one, and asks a server of somebody's choice."""
DESTINATIONS: Mapping[str, Sequence[str]] = {
    "send_email": ["recipients", "cc", "bcc", "**addresses"],
    "delete_email": ["email_id"],
    "create_calendar_event": ["participants", "title", "**addresses"],
    "cancel_calendar_event": ["event_id"],
    "reschedule_calendar_event": ["event_id"],
    "add_calendar_event_participants": ["event_id", "participants"],
    "append_to_file": ["file_id", "**addresses"],
    "create_file": ["**addresses"],
    "delete_file": ["file_id"],
    "share_file": ["file_id", "email"],
    "send_money": ["recipient"],
    "schedule_transaction": ["recipient"],
    "update_scheduled_transaction": ["id", "recipient"],
    "update_password": ["password"],
    "update_user_info": ["first_name", "last_name", "street", "city"],
    "send_direct_message": ["recipient", "**addresses"],
    "send_channel_message": ["channel", "**addresses"],
    "add_user_to_channel": ["user", "channel"],
    "invite_user_to_slack": ["user", "user_email"],
    "remove_user_from_slack": ["user"],
    "get_webpage": ["url"],
    "post_webpage": ["url", "**addresses"],
    "reserve_hotel": ["hotel"],
    "reserve_restaurant": ["restaurant"],
    "reserve_car_rental": ["company"],
}


def reads_only(tool: str) -> bool:
    """Whether an operator takes the tool for one that only reads."""
    return tool not in FETCHING and tool.startswith(tuple(pattern[:-1] for pattern in READING))


def policy(rule: str, tools: Sequence[Tool]) -> dict[str, Any] | None:
    """The configuration of `tool_policy` for one application with these tools; None for no policy."""
    acting = [tool.name for tool in tools if not reads_only(tool.name)]
    if rule == "none":
        return None
    if rule == "static":
        return {"rules": [{"action": "ask", "tools": acting, "reason": "it acts"}]}
    if rule == "label":
        return {"rules": [{"action": "ask", "tools": acting, "after_reading": "untrusted", "reason": "it acts"}]}
    if rule == "starter":
        return tomllib.loads(starter_rules(tools))["plugins"]["tool_policy"]["config"]
    named = {tool: list(DESTINATIONS[tool]) for tool in acting}
    return {
        "rules": [
            {"action": "ask", "tools": [tool], "values_from_elsewhere": values, "reason": "where does this come from?"}
            for tool, values in named.items()
        ]
    }
