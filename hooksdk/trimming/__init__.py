r"""Shorten old tool results in a plain list of messages: no host, no store, no event loop, and the list stays as it is.

```python
from hooksdk.trimming import list_results, trim

messages = [
    {"role": "user", "content": "What does the log say?"},
    {"role": "assistant", "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "read", "arguments": "{}"}}]},
    {"role": "tool", "tool_call_id": "c1", "content": "GET /index.html 200\n" * 500},
    {"role": "assistant", "content": "Nothing unusual."},
]
old = [info for info in list_results(messages) if info.trimmable and info.tokens > 1_000]
shorter = trim(messages, {info.handle: "500 times GET /index.html 200" for info in old})
assert len(str(shorter)) < len(str(messages)) / 20
```

Status: stable.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import cast

from hooksdk import schema
from hooksdk.calls import ResultInfo, ToolResult
from hooksdk.errors import ConfigError, HookSDKError, check_list
from hooksdk.formats import GivenMessage, Message, MessageFormat, get_format
from hooksdk.formats.content import result_of
from hooksdk.formats.sending import refusals, sendable
from hooksdk.transcript import (
    Ledger,
    MismatchError,
    check_message,
    find_record,
    gather_results,
    pair_results,
    plan_drain,
    plan_trim,
    without_loose_ends,
)
from hooksdk.values import as_list, as_object, is_object, plain

__all__ = ["NotTrimmed", "guess_format", "list_results", "problem", "read", "repair", "trim"]


class NotTrimmed(HookSDKError, ValueError):
    """A result that cannot be trimmed; the text says which and why."""


def list_results(
    messages: Sequence[GivenMessage],
    format: str | MessageFormat | None = None,  # noqa: A002 - the field's own word
    *,
    arguments: bool = False,
) -> list[ResultInfo]:
    """The tool results in these messages, oldest first, without their bodies: sizes, tools, and whether each can be
    trimmed. With `arguments` also the long arguments of each call, before its result: `read` and `trim` take their
    handles as well.

    `format` is a name or a format of your own; None guesses it. Raises `ConfigError` with the place of a message that
    is not of the format.
    """
    return _ledger(messages, format).infos(arguments=arguments)


def read(messages: Sequence[GivenMessage], reference: str, format: str | MessageFormat | None = None) -> ToolResult:  # noqa: A002
    """One result by its handle (`r3`) or call id, with images and files as blocks. Raises `UnknownResult`."""
    ledger = _ledger(messages, format)
    return result_of(ledger.body(find_record(ledger, reference)))


def trim(
    messages: Sequence[GivenMessage],
    results: Mapping[str, str | None] | Iterable[str],
    format: str | MessageFormat | None = None,  # noqa: A002
) -> list[Message]:
    """A new list in which these results are short. `results` are handles or call ids, or a mapping of them to what is
    to be kept of each. Everything else is equal to what it was. Raises `UnknownResult`, or `NotTrimmed` for a result
    that cannot be trimmed, with the reason; ask `list_results` first.
    """
    ledger = _ledger(messages, format)
    replacements: Mapping[str, str | None] = (
        cast("Mapping[str, str | None]", results) if isinstance(results, Mapping) else dict.fromkeys(results)
    )
    for reference, replacement in replacements.items():
        receipt, entry = plan_trim(ledger, reference, replacement)
        if receipt.status == "not_trimmed":
            raise NotTrimmed(receipt.text)
        if entry is not None:
            ledger.apply(entry)
    ledger.apply(plan_drain(ledger)[0])
    return [schema.clone(message) for message in ledger.as_shown()]


def problem(messages: Sequence[GivenMessage], format: str | MessageFormat | None = None) -> str | None:  # noqa: A002
    """Why the provider would refuse this list, with the place: a message that is not of the format, a result without
    its call, a call whose result is missing before the conversation goes on, reasoning that nothing follows; and what
    is known of this provider besides: ids of calls, empty content, thinking of another provider, a reply at the
    beginning. None where nothing is known to be wrong."""
    try:
        whole, message_format = _checked(messages, format)
        tied = without_loose_ends(whole, message_format)
        fixed = pair_results(tied, message_format)
    except MismatchError as error:
        return f"message {error.position}: {error}"
    if len(tied) < len(whole):
        return f"message {_first_difference(whole, tied)}: its reply was cut off, and it cannot be sent without what follows"
    if len(fixed) > len(whole):
        return f"message {_first_difference(whole, fixed)}: a call before it has no result"
    return next((f"message {position}: {why}" for position, why in refusals(whole, message_format)), None)


def repair(
    messages: Sequence[GivenMessage],
    format: str | MessageFormat | None = None,  # noqa: A002
    *,
    only_pairs: bool = False,
) -> list[Message]:
    """A new list without anything that `problem` tells of. A call that has no result, although the conversation goes
    on, gets an error. Results of one turn are put into one message where the format wants that, and reasoning of a
    reply that was cut off behind it is left out. Ids that were used before get others, empty content a few words.

    With `only_pairs` ids and content stay as they are, as in a session, which mends its view. Raises `ConfigError` with
    the place of what cannot be repaired, such as a result without its call.
    """
    try:
        whole, message_format = _checked(messages, format)
        tied = gather_results(without_loose_ends(whole, message_format), message_format)
        paired = pair_results(tied, message_format)
    except MismatchError as error:
        raise ConfigError("messages", (f"message {error.position}: {error}",)) from None
    return paired if only_pairs else sendable(paired, message_format)


def guess_format(messages: Sequence[GivenMessage]) -> str:
    """The format that these messages are in, by where their calls and results stand; `openai-chat` where nothing
    tells."""
    for message in map(plain, check_list("messages", messages, "messages")):
        if not is_object(message):
            continue  # whoever checks it says so
        if "parts" in message:
            return "gemini"
        item_type = str(message.get("type"))
        if item_type in {"message", "reasoning"} or item_type.endswith(("_call", "_call_output")):
            return "openai-responses"
        types = {as_object(block).get("type") for block in as_list(message.get("content"))}
        if not types.isdisjoint({"tool_use", "tool_result"}):
            return "anthropic"
        if not types.isdisjoint({"input_text", "output_text", "input_image", "input_file"}):
            return "openai-responses"
    return "openai-chat"


def _checked(
    messages: Sequence[GivenMessage],
    format: str | MessageFormat | None,  # noqa: A002
) -> tuple[list[Message], MessageFormat]:
    """Plain copies of the messages, and the format that they are in."""
    message_format = get_format(guess_format(messages) if format is None else format)
    whole = [plain(message) for message in check_list("messages", messages, "messages")]
    return [check_message(message, message_format, position) for position, message in enumerate(whole)], message_format


def _first_difference(whole: list[Message], other: list[Message]) -> int:
    pairs = enumerate(zip(whole, other, strict=False))
    return next((position for position, (one, another) in pairs if one != another), min(len(whole), len(other)))


def _ledger(messages: Sequence[GivenMessage], format: str | MessageFormat | None) -> Ledger:  # noqa: A002
    try:
        whole, message_format = _checked(messages, format)
        ledger = Ledger.replay(whole, (), message_format)
    except MismatchError as error:
        raise ConfigError("messages", (f"message {error.position}: {error}",)) from None
    ledger.in_session = False
    return ledger
