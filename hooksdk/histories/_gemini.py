"""Gemini's contents, with keys in either spelling."""

from __future__ import annotations

from typing import Any

from hooksdk.formats.gemini import Gemini
from hooksdk.histories._draft import UNSIGNED, Draft, call_block, media_block, text_block
from hooksdk.histories._source import Source
from hooksdk.values import JsonObject, as_list, as_object, is_list, is_object

_FORM = Gemini()


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
    draft.system(instruction if isinstance(instruction, str) else _FORM.text({"parts": parts}))
    for index, content in enumerate(source.items):
        blocks: list[JsonObject] = []
        parts = map(as_object, source.need(index, "parts", list, "a content with 'role' and 'parts'"))
        for result in _FORM.results(content):
            place = source.place(index)
            draft.result(
                result.call_id, _answer(result.content), is_error=result.is_error, name=result.name, place=place
            )
        for part in parts:
            call = _get(part, "functionCall", "function_call")
            if _get(part, "thoughtSignature", "thought_signature") not in (None, "", UNSIGNED):
                draft.lose("thought signatures")
            if part.get("thought"):
                draft.lose("thoughts")
            elif is_object(call):
                blocks.append(call_block(call.get("id"), call.get("name"), call.get("args")))
            elif not is_object(_get(part, "functionResponse", "function_response")):
                blocks += _block(part, draft)
        if content.get("role") == "model":
            draft.reply(blocks)
        else:
            draft.user(blocks)


def _get(value: JsonObject, *keys: str) -> Any:
    return next((value[key] for key in keys if value.get(key) is not None), None)


def _answer(content: Any) -> Any:
    """The content of a result as the draft takes it."""
    if not is_list(content):
        return content
    text, *media = content
    sources = [as_object(block.get("source")) for block in media]
    files = [(str(one["media_type"]), str(one.get("data") or ""), str(one.get("url") or "")) for one in sources]
    return [text_block(text), *(media_block(*file) for file in files)]


def _block(part: JsonObject, draft: Draft) -> list[JsonObject]:
    inline, file = _get(part, "inlineData", "inline_data"), _get(part, "fileData", "file_data")
    code = as_object(_get(part, "executableCode", "executable_code")).get("code")
    output = as_object(_get(part, "codeExecutionResult", "code_execution_result")).get("output")
    text = next((each for each in (part.get("text"), code, output) if isinstance(each, str)), None)
    if text is not None:
        return [text_block(text)]
    if inline or file:
        media = as_object(inline or file)
        media_type, uri = _get(media, "mimeType", "mime_type"), _get(media, "fileUri", "file_uri")
        return [media_block(str(media_type or ""), data=str(media.get("data") or ""), url=str(uri or ""))]
    draft.lose(f"parts with {', '.join(part) or 'nothing'}")
    return []
