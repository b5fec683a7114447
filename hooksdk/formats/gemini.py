"""Gemini's `generateContent`: contents with parts, the results of one turn together in one content of the user."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from hooksdk.calls import ToolCall, ToolResult
from hooksdk.formats._base import FoundResult, Message, ProviderJson
from hooksdk.formats.content import content_text, kind_in_words
from hooksdk.formats.kit import (
    BEGINNING,
    NO_CONTENT,
    NO_MESSAGE,
    as_text,
    clean_text,
    fitting_id,
    for_call,
    input_of,
    make_call,
    media_of,
    named,
    parameters_for,
    parts_of,
    to_json,
    with_arguments,
    with_context,
)
from hooksdk.tools import Tool
from hooksdk.values import as_list, as_object, is_list, is_object

__all__ = ["Gemini"]

_ROLES = ("user", "model", "function")
_NO_ID = "gemini:"
"""Starts the id of a call that has none: the tool's name follows, and which of these calls of the reply it is."""
_MEDIA = ("image/png", "image/jpeg", "image/webp", "application/pdf")
_MEDIA_PARTS = ("inlineData", "inline_data", "fileData", "file_data")


class Gemini:
    """The results of one turn stand in one content of the user, each a `functionResponse` of `{"output": text}` or
    `{"error": text}`; images and PDF files are its `parts`, which models before Gemini 3 refuse.

    A call without an id goes by `gemini:NAME:NUMBER` (from 0, among the calls of that name in its content), and a result
    without one answers the first call of its name that has no result yet. Thought signatures stay as they are, since only
    results are ever replaced. Keys may be written as in the API (`functionCall`) or as in Google's Python SDK
    (`function_call`); what is written here is as in the API.
    """

    name: str = "gemini"
    grouped: bool = True
    joined: bool = False
    wants_unique_ids: bool = False

    def check(self, message: object) -> str | None:
        if not is_object(message):
            return f"a message must be an object with a 'role' and 'parts', not {kind_in_words(message)}"
        role = message.get("role", "user")
        if role not in _ROLES:
            what = f"'{role}'" if isinstance(role, str) else kind_in_words(role)
            return f"a message needs a 'role' of {', '.join(_ROLES)}; it is {what}"
        if "content" in message and "parts" not in message:
            return "this is a message of another format ('content'); here a message has 'parts'"
        if not is_list(message.get("parts")):
            return f"'parts' must be a list, not {kind_in_words(message.get('parts'))}"
        problems = (_check_part(role, number, part) for number, part in enumerate(as_list(message["parts"])))
        return next((problem for problem in problems if problem), None)

    def is_reply(self, message: Message) -> bool:
        return message.get("role") == "model"

    def sendable_id(self, call_id: str, suffix: str = "") -> str | None:
        return None if call_id.startswith(_NO_ID) else fitting_id(call_id, suffix)

    def with_call_ids(self, message: Message, ids: Sequence[str]) -> Message:
        keys = (
            ("functionCall", "function_call") if self.is_reply(message) else ("functionResponse", "function_response")
        )

        def with_id(part: Any, call_id: str) -> Any | None:
            key = next((key for key in keys if _either(part, key)), None)
            if key is None:
                return None
            return {**part, key: {**part[key], "id": call_id}} if part[key].get("id") else part

        return {**message, "parts": named(as_list(message.get("parts")), ids, with_id)}

    def mend(self, message: Message) -> tuple[Message, str]:
        """No content without parts, and no part of empty text: https://github.com/google-gemini/gemini-cli/issues/26956 has
        what becomes of lists with such holes. Empty text beside a signature is Gemini's own, and stays."""
        parts: list[Any] = [part for part in as_list(message.get("parts")) if part != {"text": ""}]
        if parts and len(parts) == len(as_list(message.get("parts"))):
            return message, ""
        why = "it has a part of empty text" if message.get("parts") else "it has no parts"
        return {**message, "parts": parts or [{"text": NO_CONTENT}]}, why

    def opening(self, first: Message) -> Message | None:
        """No call comes first: https://github.com/google-gemini/gemini-cli/issues/26486."""
        return self.user(BEGINNING) if self.calls(first) else None

    def calls(self, message: Message) -> list[ToolCall]:
        calls: list[ToolCall] = []
        same_name = Counter[str]()
        for part in as_list(message.get("parts")) if self.is_reply(message) else []:
            if not (call := _either(part, "functionCall", "function_call")):
                continue
            name, call_id = call.get("name"), call.get("id")
            if not (isinstance(call_id, str) and call_id):
                call_id = f"{_NO_ID}{name}:{same_name[str(name)]}"
                same_name[str(name)] += 1
            calls.append(make_call(call_id, name, call.get("args")))
        return calls

    def with_arguments(self, message: Message, index: int, arguments: Mapping[str, str]) -> Message:
        def changed(part: Any, texts: Mapping[str, str]) -> Any | None:
            key = next((key for key in ("functionCall", "function_call") if _either(part, key)), None)
            if key is None or not texts:
                return None if key is None else part
            return {**part, key: {**part[key], "args": with_arguments(part[key].get("args"), texts)}}

        return {**message, "parts": named(as_list(message.get("parts")), for_call(index, arguments), changed)}

    def results(self, message: Message) -> list[FoundResult]:
        results: list[FoundResult] = []
        for index, place in enumerate(_places(message)):
            answer = _response(message["parts"][place])
            call_id, name = answer.get("id"), answer.get("name")
            content = _content(answer)
            results.append(
                FoundResult(
                    call_id=call_id if isinstance(call_id, str) else "",
                    index=index,
                    text=content_text(content),
                    content=content,
                    is_error=_is_error(answer.get("response")),
                    why_not=_why_not(answer),
                    name=name if isinstance(name, str) else "",
                )
            )
        return results

    def replace(self, message: Message, index: int, text: str) -> Message:
        """A copy of the message in which result number `index` reads `text`; an error stays one."""
        places = _places(message)
        if not 0 <= index < len(places):
            raise IndexError(f"this message has {len(places)} results, none with number {index}")
        parts = list(message["parts"])
        part = as_object(parts[places[index]])
        key = "functionResponse" if is_object(part.get("functionResponse")) else "function_response"
        answer = {name: value for name, value in part[key].items() if name != "parts"}
        response = as_object(answer.get("response"))
        word = "error" if _is_error(response) else "result" if _is_only(response, "result") else "output"
        if word == "error" and not text.strip():
            text = NO_MESSAGE
        parts[places[index]] = {**part, key: {**answer, "response": {word: clean_text(text)}}}
        return {**message, "parts": parts}

    def result_messages(self, answered: Sequence[tuple[ToolCall, ToolResult]]) -> list[Message]:
        parts = [{"functionResponse": _answer(call, result)} for call, result in answered]
        return [{"role": "user", "parts": parts}] if parts else []

    def add_context(self, messages: Sequence[Message], text: str) -> list[Message]:
        return with_context(self, messages, text, _with_context)

    def user(self, text: str) -> Message:
        return {"role": "user", "parts": [{"text": clean_text(text)}]}

    def reply(self, text: str, calls: Sequence[ToolCall] = ()) -> Message:
        """A message of the model. Arguments that are no JSON object stand under `INVALID_JSON`."""
        parts: list[dict[str, Any]] = [{"text": clean_text(text)}] if text.strip() or not calls else []
        for call in calls:
            head = {} if call.id.startswith(_NO_ID) else {"id": call.id}
            parts.append({"functionCall": {**head, "name": call.name, "args": input_of(call.arguments)}})
        return {"role": "model", "parts": parts}

    def reply_messages(self, text: str, calls: Sequence[ToolCall] = ()) -> list[Message]:
        return [self.reply(text, calls)]

    def text(self, message: Message) -> str:
        parts = [as_object(part) for part in as_list(message.get("parts"))]
        texts = [part.get("text") for part in parts if part.get("thought") is not True]
        return "\n".join(text for text in texts if isinstance(text, str) and text)

    def tools(self, tools: Sequence[Tool]) -> list[ProviderJson]:
        """One object with the declarations of all tools, as the request's `tools` wants them."""
        declarations = [
            {
                "name": clean_text(tool.name),
                "description": clean_text(tool.description),
                "parametersJsonSchema": parameters_for(tool),
            }
            for tool in tools
        ]
        return [{"functionDeclarations": declarations}] if declarations else []


def _either(part: object, *keys: str) -> dict[str, Any]:
    """What stands under the first of these keys that holds an object; the API and its SDKs write keys in two ways."""
    block = as_object(part)
    key = next((key for key in keys if is_object(block.get(key))), None)
    return as_object(block[key]) if key else {}


def _response(part: object) -> dict[str, Any]:
    return _either(part, "functionResponse", "function_response")


def _places(message: Message) -> list[int]:
    """The positions of the results among the parts of a message."""
    if message.get("role", "user") == "model":
        return []
    return [place for place, part in enumerate(as_list(message.get("parts"))) if _response(part)]


def _check_part(role: str, number: int, value: object) -> str | None:
    part, place = as_object(value), f"parts[{number}]"
    if not part:
        return f"{place} must be an object, like {{'text': ...}}"
    text = part.get("text")
    if not isinstance(text, (str, type(None))):
        return f"{place}.text must be text, not {kind_in_words(text)}"
    for word, other in (("functionCall", "function_call"), ("functionResponse", "function_response")):
        value = part.get(word, part.get(other))
        if value is None:
            continue
        is_call = word == "functionCall"
        if is_call != (role == "model"):
            return f"{place}: a {word} belongs into a message of role '{'model' if is_call else 'user'}', not '{role}'"
        if not isinstance(as_object(value).get("name"), str):
            return f"{place}.{word} must be an object with a 'name' of text"
        inner = as_object(value).get("args" if is_call else "response")
        if not (is_object(inner) or (is_call and inner is None)):
            return f"{place}.{word}.{'args' if is_call else 'response'} must be an object, not {kind_in_words(inner)}"
    return None


def _is_error(response: object) -> bool:
    return bool(as_object(response).get("error"))


def _is_only(response: dict[str, Any], word: str) -> bool:
    return len(response) == 1 and isinstance(response.get(word), str)


def _content(answer: dict[str, Any]) -> Any:
    """What a trim replaces: the response as text, followed by its media as blocks in the shape that Anthropic gives them,
    which sizes and `recall` understand."""
    response = answer.get("response")
    word = next((word for word in ("output", "result", "error") if _is_only(as_object(response), word)), None)
    text = as_object(response)[word] if word else "" if response is None else to_json(response)
    media = [_block(part) for part in as_list(answer.get("parts"))]
    return [text, *media] if media else text


def _block(part: object) -> dict[str, Any]:
    data = _either(part, *_MEDIA_PARTS)
    media = str(data.get("mimeType") or data.get("mime_type") or "")
    url = data.get("fileUri") or data.get("file_uri")
    source = {"type": "url", "url": url} if url else {"type": "base64", "data": data.get("data")}
    return {"type": "image" if media.startswith("image/") else "document", "source": {**source, "media_type": media}}


def _why_not(answer: dict[str, Any]) -> str | None:
    if not is_object(answer.get("response")):
        return f"its response is {kind_in_words(answer.get('response'))}, which is no response of this format"
    unknown = [as_object(part) for part in as_list(answer.get("parts")) if not _either(part, *_MEDIA_PARTS)]
    return f"it holds a part of a kind that is not known: {', '.join(unknown[0])}" if unknown else None


def _answer(call: ToolCall, result: ToolResult) -> dict[str, Any]:
    answer: dict[str, Any] = {} if call.id.startswith(_NO_ID) else {"id": call.id}
    answer["name"] = clean_text(call.name)
    parts = parts_of(result)
    if result.is_error:
        text = "\n".join(words for part in parts if (words := as_text(part)))
        return {**answer, "response": {"error": text if text.strip() else NO_MESSAGE}}
    media = [found for part in parts if (found := media_of(part, _MEDIA))]
    words = [as_text(part) for part in parts if media_of(part, _MEDIA) is None]
    answer["response"] = {"output": "\n".join(word for word in words if word)}
    if media:
        answer["parts"] = [{"inlineData": {"mimeType": media_type, "data": data}} for media_type, data in media]
    return answer


def _with_context(message: Message, text: str) -> Message | None:
    # Beside results no other part may stand: models before Gemini 3 count the parts.
    if message.get("role", "user") != "user" or _places(message):
        return None
    return {**message, "parts": [*as_list(message.get("parts")), {"text": text}]}
