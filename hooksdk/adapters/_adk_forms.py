"""The contents of a conversation of Google's ADK, as messages of openai-chat, which plugins see."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, cast

from google.genai import types

from hooksdk.adapters._calls import Texts, short_texts
from hooksdk.adapters._conversation import FORMAT
from hooksdk.calls import ToolCall
from hooksdk.formats import Message

# The prefix of ids for calls without one, as Gemini makes them. ADK's own ids (`adk-`) are not sent to the model.
OWN_ID = "hooksdk-"
# How a user content begins in which ADK reports what another agent has said or done.
OF_ANOTHER_AGENT = "For context:"
# The name of a call in ADK's events by which a plugin sends the model on: ADK asks the model again after a call only.
# The model is sent the plugin's reason as a message instead.
GO_ON = "hooksdk_go_on"


def response_text(response: Mapping[str, Any]) -> str:
    if len(response) == 1 and isinstance(text := response.get("result", response.get("error")), str):
        return text
    return json.dumps(response, default=str, ensure_ascii=False)


def parts_of(content: types.Content | None) -> Sequence[types.Part]:
    return content.parts or () if content else ()


def words_of(content: types.Content) -> str:
    return "\n".join(part.text for part in parts_of(content) if part.text and not part.thought)


def _ids(contents: Sequence[types.Content]) -> list[str]:
    """The id of each call and each answer, in their order. An answer without an id is of the oldest open call of its
    name."""
    ids: list[str] = []
    open_calls: list[tuple[str | None, str]] = []
    for part in (part for content in contents for part in parts_of(content)):
        if call := part.function_call:
            ids.append(call.id or f"{OWN_ID}{len(ids)}")
            open_calls.append((call.name, ids[-1]))
        elif response := part.function_response:
            mine = [one for one in open_calls if response.id == one[1] or (not response.id and response.name == one[0])]
            ids.append(mine[0][1] if mine else response.id or f"{OWN_ID}{len(ids)}")
            open_calls = [one for one in open_calls if one not in mine[:1]]
    return ids


def reasons_told(contents: Sequence[types.Content]) -> list[types.Content]:
    """The contents for the model: a plugin's reason for sending it on is a message, without the call that carried
    it."""
    told: list[types.Content] = []
    for content in contents:
        parts = list[types.Part]()
        for part in parts_of(content):
            if (response := part.function_response) and response.name == GO_ON:
                parts.append(types.Part(text=response_text(response.response or {})))
            elif not (part.function_call and part.function_call.name == GO_ON):
                parts.append(part)
        if parts:
            told.append(content.model_copy(update={"parts": parts}))
    return told


def plain_messages(contents: Sequence[types.Content]) -> list[Message]:
    ids = iter(_ids(contents))
    plain: list[Message] = []
    for content in contents:
        calls: list[ToolCall] = []
        for part in parts_of(content):
            if call := part.function_call:
                calls.append(ToolCall(next(ids), call.name or "", call.args or {}))
            elif response := part.function_response:
                text = response_text(response.response or {})
                plain.append({"role": "tool", "tool_call_id": next(ids), "content": text})
        text = words_of(content)
        if content.role == "model":
            plain.append(FORMAT.reply(text, calls))
        elif text:  # a report of another agent's words is not the user's
            role = "system" if text.startswith(OF_ANOTHER_AGENT) else "user"
            plain.append({"role": role, "content": text})
    return plain


def trimmed_contents(contents: Sequence[types.Content], texts: Texts) -> list[types.Content]:
    """Copies of the contents for the model, with the short texts of trimmed results and without hooksdk's own ids."""
    ids = iter(_ids(contents))
    answered = [
        next(ids) if part.function_response else (next(ids) and None)
        for content in contents
        for part in parts_of(content)
        if part.function_call or part.function_response
    ]
    short = iter(short_texts(answered, texts))
    return [
        content.model_copy(update={"parts": [_sent(part, short) for part in parts_of(content)]}) for content in contents
    ]


def _sent(part: types.Part, short: Any) -> types.Part:
    for name in ("function_call", "function_response"):
        if (one := getattr(part, name)) is not None:
            text = next(short)
            changes: dict[str, Any] = {}
            if text is not None and text != response_text(one.response or {}):
                changes["response"] = {"result": text}
            if (one.id or "").startswith(OWN_ID):
                changes["id"] = None
            return part.model_copy(update={name: one.model_copy(update=changes)}) if changes else part
    return part


def native_content(message: Message) -> types.Content:
    """A message of a plugin in ADK's form."""
    text = FORMAT.text(message)
    if FORMAT.is_reply(message):
        calls = [
            types.FunctionCall(id=one.id, name=one.name, args=json.loads(cast("str", one.arguments)))
            for one in FORMAT.calls(message)
        ]
        parts = [types.Part(text=text)] if text else []
        return types.Content(role="model", parts=[*parts, *(types.Part(function_call=one) for one in calls)])
    for result in FORMAT.results(message):
        response = types.FunctionResponse(
            id=result.call_id, name=result.name or "tool", response={"result": result.text}
        )
        return types.Content(role="user", parts=[types.Part(function_response=response)])
    return types.Content(role="user", parts=[types.Part(text=text)])
