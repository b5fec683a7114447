"""Three tools with which a model keeps its own context small: list the tool results, trim one, read one again.

They are core tools, which tool search never defers: a model should not fill its context window with a search for the
means to free it, and the note in a trimmed result's place names `recall-tool-result`.

Status: stable.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, PositiveInt

from hooksdk import Annotations, ResultInfo, ToolContext, ToolError, ToolResult, TrimReceipt, hooks, tool
from hooksdk.costs import PRICES, Prices, cache_prices, estimate
from hooksdk.errors import HookSDKError, UnknownResult
from hooksdk.hooks import BeforeToolCall, Block, NarrowTools, Withhold
from hooksdk.transcript import Results
from hooksdk.values import as_list, as_object

__all__ = ["ToolResults"]

WHEN = "when this run ends, or before the next model call where the host is set so; until then you see it whole"
LEFT_OUT = "the largest trimmable results are shown; give min_characters or only_trimmable to narrow the list"
ALREADY_TRIMMED = "nothing was changed; the first replacement stays"
ALREADY_QUEUED = "it waits already; the first replacement stays"
MISSED = {
    "stale": "nothing was trimmed: the stored result is not the one that the trim was made for",
    "gone": "nothing was trimmed: the result was compacted away before the trim was applied",
}

ARGUMENT_NOTE = re.compile(r"\[Argument (\S+) of \S+ was trimmed: ")

Reference = Annotated[str, Field(description="The handle, such as r17 (r17.content: an argument), or the call id.")]


class ToolResults:
    """Let the model list, trim and recall tool results."""

    class Config(BaseModel):
        """Settings.

        Attributes:
            max_listed: How many results a listing names at most: those with the most to gain.
            max_recalled: Characters that one recall answers at most; the model may ask for a smaller `limit`.
        """

        model_config = ConfigDict(extra="forbid")
        max_listed: PositiveInt = 40
        max_recalled: PositiveInt = 20_000

    def __init__(self, config: Config) -> None:
        self._config = config
        self._prices = PRICES

    @hooks.narrow_tools
    def narrow(self, event: NarrowTools) -> Withhold | None:
        """Withhold the tools from a run that keeps no results, and note what its model's cache costs."""
        self._prices = cache_prices(event.info.provider, event.info.model)
        own = [tool.id for tool in event.tools if tool.source == "plugin" and tool.owner == "tool_results"]
        return Withhold(own, "this run keeps no transcript") if own and not event.info.transcript else None

    @hooks.before_tool_call
    def keep_notes_out(self, event: BeforeToolCall) -> Block | None:
        """Block a call with a note of a trimmed argument in its arguments: models would write it into a file as if it
        was the text."""
        for name, value in event.arguments.items():
            if handle := _noted(value):
                return Block(
                    f"'{name}' is the note in the place of a trimmed argument, not its text: read it with "
                    f"recall-tool-result ({handle}) and write it whole"
                )
        return None

    @tool(name="list-tool-results", core=True, disposable=True, annotations=Annotations(read_only=True))
    async def list_results(
        self,
        context: ToolContext,
        min_characters: Annotated[int, Field(ge=0, description="Only results of at least this size.")] = 0,
        only_trimmable: Annotated[bool, Field(description="Only results that can be trimmed now.")] = False,
        with_arguments: Annotated[bool, Field(description="Long arguments of the calls as well.")] = False,
    ) -> ToolResult:
        """List earlier tool results with their sizes, newest last, to find those that can be trimmed. Never their text."""
        results = context.results.list(arguments=with_arguments)
        matches = [
            info for info in results if info.characters >= min_characters and (info.trimmable or not only_trimmable)
        ]
        page = _most_to_gain(matches, self._config.max_listed)
        return ToolResult(_listing(results, matches, page), labels=())  # it has no words of others

    @tool(
        name="trim-tool-result",
        core=True,
        disposable=True,
        annotations=Annotations(read_only=False, destructive=False, idempotent=True),
    )
    async def trim_result(
        self,
        context: ToolContext,
        id: Reference,  # noqa: A002 - the word that models know
        replacement: Annotated[str | None, Field(description="What to keep of it: the facts you still need.")] = None,
        reason: Annotated[str, Field(description="Why it is not needed whole any more.")] = "",
    ) -> ToolResult:
        """Shorten one earlier tool result, or argument, that is not needed whole any more. recall-tool-result gets it back."""
        try:
            receipt = await context.results.trim(id, replacement, reason=reason)
        except UnknownResult as error:
            raise ToolError(f"Nothing was trimmed. {error}") from None
        except HookSDKError as error:
            raise ToolError(f"Nothing was trimmed: {error}") from None
        return _answer(receipt, _pay_back(context.results, self._prices))

    @tool(name="recall-tool-result", core=True, disposable=True, annotations=Annotations(read_only=True))
    async def recall_result(
        self,
        context: ToolContext,
        id: Reference,  # noqa: A002 - the word that models know
        offset: Annotated[int, Field(ge=0, description="The character to begin with.")] = 0,
        limit: Annotated[int | None, Field(ge=1, description="How many characters to read.")] = None,
    ) -> ToolResult:
        """Read an earlier tool result, or argument, again as it was, trimmed or not. A long one comes in parts."""
        try:
            whole = context.results.recall(id)
        except UnknownResult as error:
            raise ToolError(str(error)) from None
        blocks = whole.blocks
        text = "\n".join(each for block in blocks if (each := _text_of(block)) is not None)
        files = [block for block in blocks if _text_of(block) is None]
        if not text:
            if not files:
                return ToolResult("[This result holds no text.]", labels=())
            return ToolResult(blocks=files, labels=whole.labels, handle=whole.handle)
        if offset >= len(text):
            raise ToolError(f"The result has {len(text):,} characters, so there is nothing from {offset:,} on.")
        end = min(len(text), offset + min(limit or self._config.max_recalled, self._config.max_recalled))
        page = text[offset:end]
        if (offset, end) != (0, len(text)):
            rest = f"go on with offset={end}" if end < len(text) else "this is the end"
            page += f"\n[Characters {offset:,} to {end:,} of {len(text):,}; {rest}.]"
        rest = [{"type": "text", "text": page}, *files] if files and end == len(text) else ()
        return ToolResult(page, blocks=rest, labels=whole.labels, handle=whole.handle)


def _text_of(block: Mapping[str, Any]) -> str | None:
    """The text of a block or of a document embedded in it; None for an image or another file."""
    resource: Mapping[str, Any] = block.get("resource") or {}
    text = block.get("text") if block.get("type") == "text" else resource.get("text")
    return text if isinstance(text, str) else None


def _most_to_gain(results: Sequence[ResultInfo], limit: int) -> list[ResultInfo]:
    """The trimmable results that are largest, then the newest others; in their own order."""
    if len(results) <= limit:
        return list(results)

    def rank(at: int) -> tuple[bool, int]:
        is_trimmable = results[at].trimmable
        return not is_trimmable, -results[at].characters if is_trimmable else -at

    order = sorted(range(len(results)), key=rank)
    return [results[at] for at in sorted(order[:limit])]


def _listing(results: Sequence[ResultInfo], matches: Sequence[ResultInfo], page: Sequence[ResultInfo]) -> str:
    """A JSON object with a line for each result of the page."""
    trimmable = [info for info in results if info.trimmable]
    summary: dict[str, Any] = {"total": len(results), "trimmable": len(trimmable)}
    summary["trimmable_tokens"] = sum(info.tokens for info in trimmable)
    if len(matches) < len(results):
        summary["filtered_out"] = len(results) - len(matches)
    if len(page) < len(matches):
        summary["left_out"] = len(matches) - len(page)
        summary["hint"] = LEFT_OUT
    head = _json(summary)[:-1]
    rows = ",\n".join(_json(_row(info)) for info in page)
    return f'{head},"results":[\n{rows}\n]}}' if rows else f'{head},"results":[]}}'


def _noted(value: object) -> str:
    """The handle in the first note anywhere in an argument; empty without one."""
    if isinstance(value, str):
        note = ARGUMENT_NOTE.match(value.lstrip())
        return note[1] if note else ""
    inner = [*as_object(value).values(), *as_list(value)]
    return next((handle for each in inner if (handle := _noted(each))), "")


def _row(info: ResultInfo) -> dict[str, Any]:
    row: dict[str, Any] = {"handle": info.handle, "call_id": info.call_id[:80], "tool": info.tool[:80]}
    row |= {name: getattr(info, name) for name in ("characters", "tokens", "turns_ago", "arguments")}
    row |= {"already_trimmed": info.trimmed, "queued": info.queued, "trimmable": info.trimmable}
    if info.missed_trim:
        row["last_trim"] = MISSED[info.missed_trim]
    return row if info.trimmable else {**row, "why_not": info.why_not}


def _pay_back(results: Results, prices: Prices) -> str:
    """One line about all queued trims, which are applied together."""
    queued = [info for info in results.list(arguments=True) if info.queued]
    requests = estimate(queued, results.message_tokens(), prices=prices).pays_back_after
    trims = "this trim" if len(queued) == 1 else f"the {len(queued)} trims that wait"
    if not requests:
        return f"{trims}: {'never' if requests is None else 'at once'}"
    return f"{trims}: after about {requests:,} further requests, for the prompt cache behind is written anew"


def _answer(receipt: TrimReceipt, pays_back: str) -> ToolResult:
    answer: dict[str, Any] = {"handle": receipt.handle, "status": receipt.status}
    if receipt.status == "not_trimmed":
        return ToolResult.error(_json({**answer, "why_not": receipt.text}))
    answer["characters_before"] = receipt.characters_before
    answer["characters_after"] = receipt.characters_after
    if receipt.status == "already_trimmed":
        answer["note"] = ALREADY_TRIMMED
    else:
        answer["applied"] = WHEN
        answer["pays_back"] = pays_back
    if receipt.status == "already_queued":
        answer["note"] = ALREADY_QUEUED
    return ToolResult(_json(answer), labels=())


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
