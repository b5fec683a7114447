"""Gemini's `generateContent`: contents with parts, the results of one turn together in one content of the user."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from hooksdk.calls import ToolCall, ToolResult
from hooksdk.formats import FoundResult, Message, ProviderJson, kit
from hooksdk.formats import _provider as provider
from hooksdk.formats._provider import ProviderFormat
from hooksdk.formats.content import kind_in_words
from hooksdk.tools import Tool
from hooksdk.values import as_list, as_object, is_list, is_object

__all__ = ["Gemini"]

# Starts the id of a call that has none: the tool's name follows, and which of these calls of the reply it is.
_NO_ID = "gemini:"
_MEDIA = ("image/png", "image/jpeg", "image/webp", provider.PDF)
_MEDIA_PARTS = ("inlineData", "inline_data", "fileData", "file_data")
_CALL = ("functionCall", "function_call")
_RESPONSE = ("functionResponse", "function_response")


class Gemini(ProviderFormat):
    """The results of one turn stand in one content of the user, each a `functionResponse` of `{"output": text}` or
    `{"error": text}`; images and PDF files are its `parts`, which models before Gemini 3 refuse.

    A call without an id goes by `gemini:NAME:NUMBER` (from 0, among the calls of that name in its content), and a
    result without one answers the first call of its name that has no result yet. Thought signatures stay as they are,
    since only results are ever replaced. Keys may be written as in the API (`functionCall`) or as in Google's Python
    SDK (`function_call`); what is written here is as in the API.
    """

    name: str = "gemini"
    grouped: bool = True
    _roles = ("user", "model", "function")

    def check(self, message: object) -> str | None:
        if not is_object(message):
            return provider.no_object(message, "a 'role' and 'parts'")
        role = message.get("role", "user")
        if wrong := self._wrong_role(role):
            return wrong
        if "content" in message and "parts" not in message:
            return "this is a message of another format ('content'); here a message has 'parts'"
        if not is_list(message.get("parts")):
            return f"'parts' must be a list, not {kind_in_words(message.get('parts'))}"
        problems = (_check_part(role, number, part) for number, part in enumerate(as_list(message["parts"])))
        return next((problem for problem in problems if problem), None)

    def is_reply(self, message: Message) -> bool:
        return message.get("role") == "model"

    def sendable_id(self, call_id: str, suffix: str = "") -> str | None:
        return None if call_id.startswith(_NO_ID) else kit.fitting_id(call_id, suffix)

    def with_call_ids(self, message: Message, ids: Sequence[str]) -> Message:
        keys = _CALL if self.is_reply(message) else _RESPONSE

        def with_id(part: Any, call_id: str) -> Any | None:
            key = _key_in(part, *keys)
            if key is None or not part[key].get("id"):
                return part if key else None
            return {**part, key: {**part[key], "id": call_id}}

        return {**message, "parts": kit.named(as_list(message.get("parts")), ids, with_id)}

    def mend(self, message: Message) -> tuple[Message, str]:
        """No content without parts, and no part of empty text: https://github.com/google-gemini/gemini-cli/issues/26956
        has what becomes of lists with such holes. Empty text beside a signature is Gemini's own, and stays."""
        parts: list[Any] = [part for part in as_list(message.get("parts")) if part != {"text": ""}]
        if parts and len(parts) == len(as_list(message.get("parts"))):
            return message, ""
        why = "it has a part of empty text" if message.get("parts") else "it has no parts"
        return {**message, "parts": parts or [{"text": kit.NO_CONTENT}]}, why

    def opening(self, first: Message) -> Message | None:
        """No call comes first: https://github.com/google-gemini/gemini-cli/issues/26486."""
        return self.user(kit.BEGINNING) if self.calls(first) else None

    def calls(self, message: Message) -> list[ToolCall]:
        calls: list[ToolCall] = []
        same_name = Counter[str]()
        for part in as_list(message.get("parts")) if self.is_reply(message) else []:
            if not (call := _either(part, *_CALL)):
                continue
            name, call_id = call.get("name"), call.get("id")
            if not (isinstance(call_id, str) and call_id):
                call_id = f"{_NO_ID}{name}:{same_name[str(name)]}"
                same_name[str(name)] += 1
            calls.append(kit.make_call(call_id, name, call.get("args")))
        return calls

    def with_arguments(self, message: Message, index: int, arguments: Mapping[str, str]) -> Message:
        def changed(part: Any, texts: Mapping[str, str]) -> Any | None:
            key = _key_in(part, *_CALL)
            if key is None or not texts:
                return part if key else None
            return {**part, key: {**part[key], "args": kit.with_arguments(part[key].get("args"), texts)}}

        return {**message, "parts": kit.named(as_list(message.get("parts")), kit.for_call(index, arguments), changed)}

    def results(self, message: Message) -> list[FoundResult]:
        answers = [_either(message["parts"][place], *_RESPONSE) for place in _places(message)]
        return [
            provider.found(
                answer.get("id"),
                _content(answer),
                _why_not(answer),
                index=index,
                is_error=_is_error(answer.get("response")),
                name=answer.get("name"),
            )
            for index, answer in enumerate(answers)
        ]

    def replace(self, message: Message, index: int, text: str) -> Message:
        """A copy of the message in which result number `index` reads `text`; an error stays one."""
        place = provider.place_of(_places(message), index)
        parts = list(message["parts"])
        part = as_object(parts[place])
        key = _key_in(part, *_RESPONSE) or ""
        answer = {name: value for name, value in part[key].items() if name != "parts"}
        response = as_object(answer.get("response"))
        word = "error" if _is_error(response) else "result" if _is_only(response, "result") else "output"
        if word == "error" and not text.strip():
            text = kit.NO_MESSAGE
        parts[place] = {**part, key: {**answer, "response": {word: kit.clean_text(text)}}}
        return {**message, "parts": parts}

    def result_messages(self, answered: Sequence[tuple[ToolCall, ToolResult]]) -> list[Message]:
        parts = [{"functionResponse": _answer(call, result)} for call, result in answered]
        return [{"role": "user", "parts": parts}] if parts else []

    def user(self, text: str) -> Message:
        return {"role": "user", "parts": [{"text": kit.clean_text(text)}]}

    def reply(self, text: str, calls: Sequence[ToolCall] = ()) -> Message:
        """A message of the model. Arguments that are no JSON object stand under `INVALID_JSON`."""
        parts: list[dict[str, Any]] = [{"text": kit.clean_text(text)}] if text.strip() or not calls else []
        for call in calls:
            head = {} if call.id.startswith(_NO_ID) else {"id": call.id}
            parts.append({"functionCall": {**head, "name": call.name, "args": kit.input_of(call.arguments)}})
        return {"role": "model", "parts": parts}

    def text(self, message: Message) -> str:
        parts = [as_object(part) for part in as_list(message.get("parts"))]
        texts = [part.get("text") for part in parts if part.get("thought") is not True]
        return "\n".join(text for text in texts if isinstance(text, str) and text)

    def tools(self, tools: Sequence[Tool]) -> list[ProviderJson]:
        """One object with the declarations of all tools, as the request's `tools` wants them."""
        declarations = [kit.definition_of(tool, "parametersJsonSchema") for tool in tools]
        return [{"functionDeclarations": declarations}] if declarations else []

    def _with_text(self, message: Message, text: str) -> Message | None:
        # Beside results no other part may stand: models before Gemini 3 count the parts.
        if message.get("role", "user") != "user" or _places(message):
            return None
        return {**message, "parts": [*as_list(message.get("parts")), {"text": text}]}


def _key_in(part: object, *keys: str) -> str | None:
    """The first of these keys that holds an object with something in it."""
    block = as_object(part)
    return next((key for key in keys if as_object(block.get(key))), None)


def _either(part: object, *keys: str) -> dict[str, Any]:
    """The object under the first of these keys that has one: the API and its SDKs spell keys in two ways."""
    key = _key_in(part, *keys)
    return as_object(part)[key] if key else {}


def _places(message: Message) -> list[int]:
    """The positions of the results among the parts of a message."""
    if message.get("role", "user") == "model":
        return []
    return [place for place, part in enumerate(as_list(message.get("parts"))) if _key_in(part, *_RESPONSE)]


def _check_part(role: str, number: int, value: object) -> str | None:
    part, place = as_object(value), f"parts[{number}]"
    if not part:
        return f"{place} must be an object, like {{'text': ...}}"
    text = part.get("text")
    if not isinstance(text, (str, type(None))):
        return f"{place}.text must be text, not {kind_in_words(text)}"
    for word, other in (_CALL, _RESPONSE):
        value = part.get(word, part.get(other))
        if value is None:
            continue
        is_call = word == "functionCall"
        if is_call != (role == "model"):
            return f"{place}: a {word} belongs into a message of role '{'model' if is_call else 'user'}', not '{role}'"
        if not isinstance(as_object(value).get("name"), str):
            return f"{place}.{word} must be an object with a 'name' of text"
        key = "args" if is_call else "response"
        inner = as_object(value).get(key)
        if not (is_object(inner) or (is_call and inner is None)):
            return f"{place}.{word}.{key} must be an object, not {kind_in_words(inner)}"
    return None


def _is_error(response: object) -> bool:
    return bool(as_object(response).get("error"))


def _is_only(response: dict[str, Any], word: str) -> bool:
    return len(response) == 1 and isinstance(response.get(word), str)


def _content(answer: dict[str, Any]) -> Any:
    """What a trim replaces: the response as text, followed by its media as blocks in Anthropic's shape, which sizes and
    `recall` understand."""
    response = answer.get("response")
    word = next((word for word in ("output", "result", "error") if _is_only(as_object(response), word)), None)
    text = as_object(response)[word] if word else "" if response is None else kit.to_json(response)
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
    answer["name"] = kit.clean_text(call.name)
    parts = kit.parts_of(result)
    if result.is_error:
        text = kit.joined_text(parts)
        return {**answer, "response": {"error": text if text.strip() else kit.NO_MESSAGE}}
    media = [one for part in parts if (one := kit.media_of(part, _MEDIA))]
    answer["response"] = {"output": kit.joined_text([part for part in parts if kit.media_of(part, _MEDIA) is None])}
    if media:
        answer["parts"] = [{"inlineData": {"mimeType": media_type, "data": data}} for media_type, data in media]
    return answer
