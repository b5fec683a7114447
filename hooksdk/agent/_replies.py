"""What a model answers: a check of the model, the calls that it wrote as text, and the tokens that it counts."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, cast
from uuid import uuid4

from hooksdk import schema
from hooksdk.calls import ToolCall
from hooksdk.catalog import Catalog
from hooksdk.errors import refuse
from hooksdk.formats import Message, MessageFormat
from hooksdk.formats.usage import usage_of

# Characters of the longest answer that is read.
MAX_TEXT = 100_000
# Characters of the one line that may stand before the calls.
MAX_LEAD_IN = 120
_FENCED = re.compile(r"```(?:json|tool_call)?[ \t]*\n(.*?)```\s*", re.DOTALL)
_TAGGED = re.compile(r"<tool_call>(.*?)</tool_call>\s*", re.DOTALL)
_BEGINNING = re.compile(r"```|<tool_call>|[{\[]")
_NAME_KEYS = ("name", "tool", "tool_name", "function")
_ARGUMENT_KEYS = ("arguments", "args", "parameters", "params", "input")
_OTHER_KEYS = {"id", "type"}


def check_model(model: object) -> None:
    """Raise `WrongArgument` for an object that is no model."""
    wanted = "a model, or its name such as 'openai:gpt-5'"
    if isinstance(model, type):
        refuse("run_agent(..., model)", model, wanted, f"Give an instance: {model.__name__}(...)")
    missing = [name for name in ("name", "format", "context_window", "reply") if not hasattr(model, name)]
    if missing:
        advice = (
            "OpenAIModel(...), OpenAIResponsesModel(...) and AnthropicModel(...) in hooksdk.models make one over an SDK"
        )
        refuse("run_agent(..., model)", model, f"{wanted}; it has no {', '.join(missing)}", advice)


def with_written_calls(
    messages: list[Message], shown: Sequence[Message], offered: Catalog, message_format: MessageFormat
) -> list[Message]:
    """The reply; where it consists of calls of offered tools written as text, a reply with these calls. A call that
    stands in a result of the `shown` messages may be quoted, and is not read."""

    def name_of(written: str) -> str | None:
        tool = offered.meant(written)
        return tool.name if tool is not None else None

    results = (found.text for message in shown for found in message_format.results(message))
    text = "\n".join(filter(None, map(message_format.text, messages)))
    lead_in, written = calls_written_in(text, name_of, results)
    calls = [ToolCall(f"from_text_{uuid4().hex[:16]}", name, arguments) for name, arguments in written]
    return message_format.reply_messages(lead_in, calls) if calls else messages


def tokens_of(usage: Mapping[str, Any] | None) -> int | None:
    """All tokens of one model call, under the names of any provider; None if it counts nothing."""
    used = usage_of(usage)
    total = (usage or {}).get("total_tokens")
    return total if isinstance(total, int) else used.prompt + used.output if used else None


class _NoCall(ValueError):
    """The text is no call."""


def calls_written_in(
    text: str, name_of: Callable[[str], str | None], results: Iterable[str]
) -> tuple[str, list[tuple[str, dict[str, Any]]]]:
    """The line before the calls and the calls of an answer that consists of them: as bare JSON, in fences, or in
    `<tool_call>` tags. No calls if `name_of` does not know one of the names, or if a call stands in one of the
    `results` that the model was shown: it may be quoted."""
    beginning = _BEGINNING.search(text) if len(text) <= MAX_TEXT else None
    if beginning is None:
        return "", []
    lead_in, body = text[: beginning.start()].strip(), text[beginning.start() :].strip()
    if len(lead_in) > MAX_LEAD_IN or "\n" in lead_in:
        return "", []
    calls: list[tuple[str, dict[str, Any]]] = []
    try:
        pieces = [piece for block in _blocks(body) for piece in _values(block)]
        for piece in pieces:
            written, arguments = _call_in(piece)
            if (name := name_of(written)) is None:
                raise _NoCall
            calls.append((name, arguments))
    except (ValueError, RecursionError):
        return "", []
    written_out = [_squeezed(json.dumps(piece, ensure_ascii=False)) for piece in pieces]
    if any(one in result for result in map(_squeezed, results) for one in written_out):
        return "", []
    return lead_in, calls


def _blocks(body: str) -> list[str]:
    """The texts in the fences or the tags, if the whole text consists of them; else the text."""
    for mark, pattern in (("```", _FENCED), ("<tool_call>", _TAGGED)):
        if body.startswith(mark):
            blocks: list[str] = []
            place = 0
            while place < len(body):
                match = pattern.match(body, place)
                if match is None:
                    raise _NoCall
                blocks.append(match[1])
                place = match.end()
            return blocks
    return [body]


def _values(text: str) -> Iterator[dict[str, Any]]:
    """The objects of a text that consists of JSON values: objects, or lists of objects."""
    decoder, place = json.JSONDecoder(), 0
    text = text.strip()
    if not text:
        raise _NoCall
    while place < len(text):
        _, end = decoder.raw_decode(text, place)
        value: object = schema.parse_arguments(f'{{"value": {text[place:end]}}}')["value"]
        ones = cast("list[object]", value) if isinstance(value, list) else [value]
        if not ones or not all(isinstance(one, dict) for one in ones):
            raise _NoCall
        yield from cast("list[dict[str, Any]]", ones)
        place = end + len(text[end:]) - len(text[end:].lstrip())


def _call_in(value: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    if isinstance(inner := value.get("function"), dict) and value.keys() <= {"function", *_OTHER_KEYS}:
        value = cast("dict[str, Any]", inner)  # as providers write calls
    names = [key for key in _NAME_KEYS if key in value]
    arguments = [key for key in _ARGUMENT_KEYS if key in value]
    if len(names) != 1 or len(arguments) != 1 or not value.keys() <= {*names, *arguments, *_OTHER_KEYS}:
        raise _NoCall
    name, written = value[names[0]], value[arguments[0]]
    if not isinstance(name, str) or not isinstance(written, str | dict):
        raise _NoCall
    return name, schema.parse_arguments(cast("Any", written))


def _squeezed(text: str) -> str:
    """The text without blanks and escapes, in which JSON within JSON reads the same."""
    plain = re.sub(r"\\+u([0-9a-fA-F]{4})", lambda match: chr(int(match[1], 16)), text)
    joined = plain.encode("utf-16", "surrogatepass").decode("utf-16", "replace")  # two halves of one character
    return re.sub(r"\\+[nrtbf]|[\s\\]+", "", joined)
