"""The turns of a conversation as messages of each format: what a provider has no place for is named in the text, and
counted."""

from __future__ import annotations

import mimetypes

from hooksdk.calls import ToolCall, ToolResult
from hooksdk.formats import Message, get_format
from hooksdk.formats.content import blocks_of, content_text
from hooksdk.formats.sending import sendable
from hooksdk.histories._draft import MEDIA, THINKING, UNSIGNED, Draft, Turn, media_words, text_block
from hooksdk.values import JsonObject, as_list, as_object, is_list

_PDF = "application/pdf"
_SHOWN = ("image/jpeg", "image/png", "image/gif", "image/webp", _PDF)
_AUDIO = {"audio/wav": "wav", "audio/mp3": "mp3", "audio/mpeg": "mp3"}
# The media types that a user may show; to Gemini, any.
_OF_USERS: dict[str, tuple[str, ...]] = {
    "anthropic": _SHOWN,
    "openai-chat": (*_SHOWN, *_AUDIO),
    "openai-responses": _SHOWN,
}
_OF_TOOLS: dict[str, tuple[str, ...]] = {
    "anthropic": _SHOWN,
    "openai-chat": (),
    "openai-responses": _SHOWN,
    "gemini": ("image/png", "image/jpeg", "image/webp", _PDF),
}


class Writer:
    """Writes the messages of a draft for its target.

    Attributes:
        beside: What the operator says, where the target has no message for it.
    """

    def __init__(self, draft: Draft) -> None:
        self.beside: list[str] = []
        self._draft = draft
        self._target = draft.target
        self._form = get_format(draft.target)
        self._messages: list[Message] = []

    def write(self) -> list[Message]:
        """The messages, as the provider takes them. The calls of a last reply may be open; every other call has a
        result."""
        self._draft.answer_open()
        for turn in self._draft.turns:
            if turn.role == "reply":
                self._reply(turn)
            elif turn.role == "system":
                self._operator(turn.blocks)
            else:
                self._messages.append(self._spoken("user", turn.blocks))
        if self._target == "gemini":
            self._sign_newest()
        messages = sendable(self._messages, self._form)
        if len(messages) > len(self._messages):
            self._draft.note("a user's message is put before the first reply: its provider wants one")
        return messages

    def _operator(self, blocks: list[JsonObject]) -> None:
        began = any(message.get("role") != "system" for message in self._messages)
        if self._target in ("anthropic", "gemini") and began:
            self._draft.note("a system message in the middle is the user's here")
            self._messages.append(self._spoken("user", blocks))
        elif self._target == "gemini":
            self._draft.note("what the system says is beside the messages (`system`): it belongs into the request")
            self.beside += [str(block.get("text", "")) for block in blocks]
        else:
            self._messages.append(self._spoken("system", blocks))

    def _spoken(self, role: str, blocks: list[JsonObject]) -> Message:
        parts = [self._part(self._fitting(block, "a user's message")) for block in blocks]
        if self._target == "gemini":
            return {"role": role, "parts": parts}
        only_text = len(parts) == 1 and set(parts[0]) == {"type", "text"}
        return {"role": role, "content": parts[0]["text"] if only_text else parts}

    def _reply(self, turn: Turn) -> None:
        if self._target == "anthropic":
            if all(block.get("type") in THINKING for block in turn.blocks):
                self._draft.lose("a reply of thinking alone")
                return
            blocks = [self._named(block, "a reply") if block.get("type") in MEDIA else block for block in turn.blocks]
            written: list[Message] = [{"role": "assistant", "content": blocks}]
        else:
            for block in turn.blocks:
                if block.get("type") not in ("text", "tool_use"):
                    self._draft.lose(f"{block.get('type')} of a reply")
            texts = [str(block.get("text", "")) for block in turn.blocks if block.get("type") == "text"]
            calls = [ToolCall(use.block["id"], use.block["name"], _arguments(use.call.arguments)) for use in turn.uses]
            written = self._form.reply_messages("\n".join(texts), calls) if texts or calls else []
        if written and self._target == "gemini" and self._messages and self._form.is_reply(self._messages[-1]):
            # Gemini refuses calls in a content after a reply.
            written[0]["parts"][:0] = self._messages.pop()["parts"]
        self._messages += [*written, *self._answers(turn)]

    def _answers(self, turn: Turn) -> list[Message]:
        answered = [(use, use.answer) for use in turn.uses if use.answer is not None]
        if self._target != "anthropic":
            return self._form.result_messages(
                [(ToolCall(use.block["id"], use.block["name"], None), self._result(answer)) for use, answer in answered]
            )
        blocks: list[JsonObject] = []
        for use, answer in answered:
            content = answer["content"]
            if is_list(content):
                content = [self._fitting(block, "a result") for block in as_list(content)]
            blocks.append({"type": "tool_result", "tool_use_id": use.block["id"], **answer, "content": content})
        return [{"role": "user", "content": blocks}] if blocks else []

    def _result(self, answer: JsonObject) -> ToolResult:
        content = answer["content"]
        if not is_list(content):
            return ToolResult(str(content), is_error="is_error" in answer)
        blocks = [self._fitting(as_object(block), "a result") for block in as_list(content)]
        texts = content_text([block for block in blocks if block.get("type") == "text"])
        return ToolResult(texts, blocks=blocks_of(blocks), is_error="is_error" in answer)

    def _fitting(self, block: JsonObject, where: str) -> JsonObject:
        """An image or a file as it is where the provider takes it there, else its name; any other block as it is."""
        source, kind = as_object(block.get("source")), block.get("type")
        media, url = str(source.get("media_type") or ""), str(source.get("url") or "")
        if kind == "text" or (kind not in MEDIA and self._target == "anthropic"):
            return block
        if kind == "document" and source.get("type") in ("text", "content") and self._target != "anthropic":
            return text_block(content_text(source.get("data") or source.get("content")))
        of_tool = where == "a result"
        if source.get("type") == "base64":
            taken = (_OF_TOOLS if of_tool else _OF_USERS).get(self._target)
            fits = taken is None or media in taken
        elif self._target == "anthropic":
            fits = source.get("type") != "url" or media in ("", _PDF) or media.startswith("image/")
        else:
            fits = bool(url) and not of_tool and self._takes_address(kind == "image", media, url)
        if not fits:
            return self._named(block, where)
        return {**block, "source": {"type": "url", "url": url}} if self._target == "anthropic" and url else block

    def _named(self, block: JsonObject, where: str) -> JsonObject:
        is_media = block.get("type") in MEDIA
        self._draft.lose(f"{'an image or file' if is_media else block.get('type')} of {where}, named in its text")
        return text_block(media_words(block) if is_media else content_text([block]))

    def _takes_address(self, is_image: bool, media: str, url: str) -> bool:
        if self._target == "gemini":
            return bool(mimetypes.guess_type(url)[0])
        return is_image or (self._target == "openai-responses" and media in ("", _PDF))

    def _part(self, block: JsonObject) -> JsonObject:
        """A block that fits, as a part of a message of the user."""
        if self._target == "anthropic":
            return block
        text, source = block.get("text"), as_object(block.get("source"))
        media, url = str(source.get("media_type") or ""), str(source.get("url") or "")
        address = url or f"data:{media};base64,{source.get('data')}"
        title = str(block.get("title") or "document.pdf")
        if self._target == "gemini":
            if isinstance(text, str):
                return {"text": text}
            if url:
                return {"fileData": {"fileUri": url, "mimeType": mimetypes.guess_type(url)[0]}}
            return {"inlineData": {"mimeType": media, "data": source.get("data")}}
        if self._target == "openai-chat":
            if isinstance(text, str):
                return {"type": "text", "text": text}
            if block.get("type") == "image":
                return {"type": "image_url", "image_url": {"url": address}}
            if media in _AUDIO:
                return {"type": "input_audio", "input_audio": {"data": source.get("data"), "format": _AUDIO[media]}}
            return {"type": "file", "file": {"filename": title, "file_data": address}}
        if isinstance(text, str):
            return {"type": "input_text", "text": text}
        if block.get("type") == "image":
            return {"type": "input_image", "image_url": address, "detail": "auto"}
        return {"type": "input_file", **({"file_url": url} if url else {"filename": title, "file_data": address})}

    def _sign_newest(self) -> None:
        """Let Gemini 3 take the calls of a turn that goes on: those behind the user's last words, if an answer is to
        come."""
        for message in reversed(self._messages):
            call = next((part for part in message["parts"] if "functionCall" in part), None)
            if call is not None:
                call["thoughtSignature"] = UNSIGNED
                self._draft.note("the newest calls have the signature that Google names for calls of another model")
            elif not self._form.results(message):
                break


def _arguments(arguments: object) -> object:
    """What the model wrote, where that was no JSON and stands in an object for providers that want one."""
    body = as_object(arguments)
    return body["INVALID_JSON"] if list(body) == ["INVALID_JSON"] else arguments
