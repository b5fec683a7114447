"""Gemini's contents, with keys in either spelling."""

from __future__ import annotations

from typing import Any

from hooksdk.histories._draft import Draft
from hooksdk.histories._source import Source
from hooksdk.histories._turns import UNSIGNED, call_block, json_text, media_block, text_block
from hooksdk.values import JsonObject, as_list, as_object, is_object

TARGET = "openai-chat"
_OUTPUT_KEYS = ("output", "result", "error")
"""Where Gemini's SDKs put what a function returned, when it is no object of its own."""


def recognise(source: Source) -> str:
    """Why this looks like one."""
    for index, item in enumerate(source.items):
        if isinstance(item.get("parts"), list) and item.get("role", "user") in ("user", "model", "function", None):
            return f"{source.place(index)} is a content with 'parts'"
    return ""


def convert(source: Source, draft: Draft) -> None:
    """Calls without an id get one; their results are matched by the function's name."""
    instruction = _get(source.head, "systemInstruction", "system_instruction")
    parts = as_list(as_object(instruction).get("parts"))
    draft.system(
        instruction
        if isinstance(instruction, str)
        else "\n".join(str(as_object(part).get("text", "")) for part in parts)
    )
    for index in range(len(source.items)):
        content = source.items[index]
        blocks: list[JsonObject] = []
        for part in map(as_object, source.need(index, "parts", list, "a content with 'role' and 'parts'")):
            call, response = (
                _get(part, "functionCall", "function_call"),
                _get(part, "functionResponse", "function_response"),
            )
            if _get(part, "thoughtSignature", "thought_signature") not in (None, "", UNSIGNED):
                draft.lose("thought signatures")
            if part.get("thought"):
                draft.lose("thoughts")
            elif is_object(call):
                blocks.append(call_block(call.get("id"), call.get("name"), call.get("args")))
            elif is_object(response):
                _result(response, source.place(index), draft)
            else:
                blocks += _block(part, draft)
        if content.get("role") == "model":
            draft.reply(blocks)
        else:
            draft.user(blocks)


def _get(value: JsonObject, *keys: str) -> Any:
    return next((value[key] for key in keys if value.get(key) is not None), None)


def _result(response: JsonObject, place: str, draft: Draft) -> None:
    output = response.get("response")
    fields = as_object(output)
    is_error = set(fields) == {"error"}
    if len(fields) == 1 and next(iter(fields)) in _OUTPUT_KEYS:
        output = next(iter(fields.values()))
    content: Any = json_text(output)
    media = [block for part in as_list(response.get("parts")) for block in _block(as_object(part), draft)]
    if media:
        content = [text_block(content), *media]
    draft.result(str(response.get("id") or ""), content, is_error=is_error, name=str(response.get("name")), place=place)


def _block(part: JsonObject, draft: Draft) -> list[JsonObject]:
    inline, file = _get(part, "inlineData", "inline_data"), _get(part, "fileData", "file_data")
    code = as_object(_get(part, "executableCode", "executable_code")).get("code")
    output = as_object(_get(part, "codeExecutionResult", "code_execution_result")).get("output")
    text = next((each for each in (part.get("text"), code, output) if isinstance(each, str)), None)
    if text is not None:
        return [text_block(text)]
    if inline or file:
        media = as_object(inline or file)
        data = str(media.get("data") or "").replace("-", "+").replace("_", "/")  # Google's SDK writes it safe for URLs
        uri = str(_get(media, "fileUri", "file_uri") or "")
        return [media_block(str(_get(media, "mimeType", "mime_type") or ""), data=data, url=uri)]
    draft.lose(f"parts with {', '.join(part) or 'nothing'}")
    return []
