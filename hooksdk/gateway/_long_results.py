"""Texts that are longer than clients take: long results, of which the client gets head and tail while the whole is kept
for its session, at each gateway that has it; and the instructions that clients are given at the beginning."""

from __future__ import annotations

import json
import logging
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast, final

import mcp_types as types
from mcp.shared.exceptions import MCPError

from hooksdk.calls import ToolResult
from hooksdk.errors import StoreError, did_you_mean
from hooksdk.gateway._results import whole
from hooksdk.gateway._session_ids import RESULTS, change
from hooksdk.gateway._settings import GatewayConfig
from hooksdk.mcp import ServerOffer
from hooksdk.stores import MemoryStore, Store
from hooksdk.tools import Annotations, Tool
from hooksdk.values import clip

logger = logging.getLogger("hooksdk")

RECALL = "recall-tool-result"
OWNER = "gateway"
PREFIX = "hooksdk://result/"
# Long results that are kept for one session; of more, the newest.
MOST_KEPT = 200
# Characters of the note around a part of a result, at most.
NOTE_CHARS = 400
# Characters of an encoded file above which it is left out of a result: no client takes it.
HUGE_FILE = 10_000_000

_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "id": {"type": "string", "description": "The handle, such as r17."},
        "offset": {"type": "integer", "minimum": 0, "description": "The character to begin with."},
        "limit": {"type": "integer", "minimum": 1, "description": "How many characters to read."},
    },
    "required": ["id"],
}
# Characters within which the end of a line is preferred to the exact place.
NEAR = 400
# The longest sign in characters, such as a family of emoji: so far a cut is moved.
LONGEST_SIGN = 32
JOINER = "\u200d"
OWN = "The tools of several servers. Those that are not listed are found and called through those that are."
LEFT_OUT = " […]"


@dataclass(frozen=True)
class LongResult:
    """One long result, without its text.

    Attributes:
        size: Bytes.
    """

    id: str
    tool: str
    size: int

    @property
    def uri(self) -> str:
        """Its address as a resource."""
        return PREFIX + self.id


@final
@dataclass(frozen=True)
class KeptResults:
    """The long results of one session in a store. The deployment removes them with the session; a store in memory is
    gone with it."""

    _store: Store
    _session_id: str
    _max_bytes: int

    async def add(self, tool: str, text: str, size: int) -> LongResult:
        """Keep one more; the oldest are removed where they are too many, or too large together."""

        def enter(stored: Any) -> tuple[Any, tuple[LongResult, Sequence[LongResult]]]:
            count = (stored["count"] if stored else 0) + 1
            result = LongResult(f"r{count}", tool, size)
            results = [*_listed(stored), result]
            old = too_many(results, self._max_bytes)
            rest = [[one.id, one.tool, one.size] for one in results if one not in old]
            return {"count": count, "results": rest}, (result, old)

        result, old = await change(self._store, RESULTS, self._session_id, enter)
        await self._store.set_value(RESULTS, f"{self._session_id}/{result.id}", text)
        for one in old:
            await self._store.delete_value(RESULTS, f"{self._session_id}/{one.id}")
        return result

    async def text(self, handle: str) -> str | None:
        """The text of the result with this handle; None where there is none."""
        return await self._store.get_value(RESULTS, f"{self._session_id}/{handle}")

    async def list(self) -> Sequence[LongResult]:
        """All that are kept, the oldest first."""
        return _listed(await self._store.get_value(RESULTS, self._session_id))


def _listed(stored: Any) -> list[LongResult]:
    return [LongResult(*one) for one in stored["results"]] if stored else []


def too_many(results: Sequence[LongResult], max_bytes: int) -> Sequence[LongResult]:
    """The oldest results, for which there is no place any more."""
    first, size = max(len(results) - MOST_KEPT, 0), sum(one.size for one in results[-MOST_KEPT:])
    while size > max_bytes:
        size -= results[first].size
        first += 1
    return results[:first]


class NoSuchResult(Exception):
    """Raised for a handle of no result; the text tells a model so."""


@final
class LongResults:
    """The long results of one session.

    Attributes:
        tools: The tool that reads them, unless all results are given whole.

    """

    def __init__(self, max_chars: int, max_bytes: int, store: Store | None = None, session_id: str = "") -> None:
        """`max_chars` is the length of text that a client gets of one result, 0 for all of it. `max_bytes` are kept,
        in memory unless the session's gateways share a `store`."""
        self._max_chars = max_chars
        self._max_bytes = max_bytes
        self._kept = KeptResults(store or MemoryStore(), session_id, max_bytes)
        self.tools: tuple[Tool, ...] = (self._recall_tool(),) if max_chars else ()

    async def shorten(self, tool: str, result: ToolResult, recall: Callable[[str], str | None]) -> ToolResult:
        """The result as it is, or the head and the tail of its text, with a note on how to read the rest. `recall`
        words a call of `recall-tool-result` with such arguments; None where the client may not call it."""
        if not self._max_chars:
            return result
        blocks = result.blocks
        light = [_without_huge(block) for block in blocks]
        texts = [text for block in light if (text := text_of(block)) is not None]
        whole = "\n".join(texts)
        structured = None if result.structured is None else json.dumps(result.structured, ensure_ascii=False)
        if max(len(whole), len(structured or "")) <= self._max_chars:
            if light == blocks:
                return result
            return _rebuilt(result, light, result.structured)
        if structured is not None and not _says(texts, result.structured):
            whole = f"{whole}\n{structured}" if whole else structured
        if len(whole) <= self._max_chars:
            return _rebuilt(result, light, None)  # the text says it in fewer characters
        note = {"type": "text", "text": self._head_and_tail(whole, await self._keep(tool, whole), recall)}
        at = next((number for number, block in enumerate(light) if text_of(block) is not None), len(light))
        rest = [block for block in light if text_of(block) is None]
        return _rebuilt(result, [*rest[:at], note, *rest[at:]], None)

    async def _keep(self, tool: str, text: str) -> LongResult | str:
        """Keep a text; a text in the answer says why it is not kept."""
        size = len(text.encode("utf-8", "surrogatepass"))
        if size > self._max_bytes:
            return "and too many to be kept: ask for less at once."
        try:
            return await self._kept.add(tool, text, size)
        except StoreError as problem:
            logger.warning("a long result of '%s' is not kept: %s", tool, problem)
            return "and could not be kept."

    def _head_and_tail(self, text: str, result: LongResult | str, recall: Callable[[str], str | None]) -> str:
        length = self._max_chars - NOTE_CHARS
        head = cut_before(text, length * 2 // 3)
        tail = cut_after(text, len(text) - length // 3)
        note = f"[{tail - head:,} of {len(text):,} characters are left out here"
        if isinstance(result, str):
            note += f", {result}]"
        else:
            arguments = json.dumps({"id": result.id, "offset": head})
            call = recall(arguments)
            note += f". The whole is {result.id}" + (f"; read on with {call}." if call else f": {result.uri}.") + "]"
        return f"{text[:head].rstrip()}\n\n{note}\n\n{text[tail:].lstrip()}"

    async def _find(self, reference: str) -> tuple[str, str]:
        """The handle and the text of a result. Raises `NoSuchResult`."""
        handle = reference.strip().removeprefix(PREFIX).strip("[]")
        if (text := await self._kept.text(handle)) is not None:
            return handle, text
        ids = [one.id for one in await self._kept.list()]
        have = f" The newest ones: {', '.join(ids[-5:])}." if ids else " This session has none."
        raise NoSuchResult(
            f"There is no result '{clip(reference, 60)}' in this session: those of others cannot be read, and old ones "
            f"are given up.{did_you_mean(reference, ids)}{have} Call the tool again."
        )

    def _recall_tool(self) -> Tool:
        async def recall(arguments: Mapping[str, Any]) -> ToolResult:
            try:
                handle, text = await self._find(str(arguments["id"]))
            except NoSuchResult as problem:
                return ToolResult.error(str(problem))
            offset = int(arguments.get("offset", 0))
            if offset >= len(text):
                return ToolResult.error(
                    f"The result has {len(text):,} characters, so there is nothing from {offset:,} on."
                )
            most = self._max_chars - NOTE_CHARS
            end = page_end(text, offset, min(int(arguments.get("limit", most)), most))
            page = text[offset:end]
            if offset == 0 and end == len(text):
                return ToolResult(page)
            rest = f" Go on with offset {end}." if end < len(text) else " This is its end."
            return ToolResult(f"{page}\n[{handle}: characters {offset:,} to {end:,} of {len(text):,}.{rest}]")

        return Tool(
            name=RECALL,
            source="plugin",
            owner=OWNER,
            parameters=_SCHEMA,
            execute=recall,
            description="Read the whole of a result that was shortened. It comes in parts.",
            annotations=Annotations(read_only=True, destructive=False, idempotent=True, open_world=False),
        )

    async def resources(self) -> list[types.Resource]:
        """The results as resources, the newest first."""
        return [
            types.Resource(
                uri=result.uri,
                name=result.id,
                title=whole(f"Result of {clip(result.tool, 200)}"),
                mime_type="text/plain",
                size=result.size,
            )
            for result in reversed(await self._kept.list())
        ]

    async def read(self, uri: str) -> types.ReadResourceResult:
        """The whole of a result. Raises `MCPError` for a result that this session does not have."""
        try:
            handle, text = await self._find(uri)
        except NoSuchResult as problem:
            raise MCPError(types.INVALID_PARAMS, whole(str(problem))) from None
        if not uri.startswith(PREFIX):
            raise MCPError(types.INVALID_PARAMS, f"resources begin with {PREFIX}")
        return types.ReadResourceResult(
            contents=[types.TextResourceContents(uri=PREFIX + handle, mime_type="text/plain", text=whole(text))]
        )


def is_recall(tool: Tool) -> bool:
    """True for the gateway's own tool, and not for a server's tool of that name."""
    return (tool.source, tool.owner, tool.own_name) == ("plugin", OWNER, RECALL)


def text_of(block: Mapping[str, Any]) -> str | None:
    """The text of a block; None for a block that a model does not read as text."""
    inner = block.get("resource", {}) if block.get("type") == "resource" else block
    text = cast("Mapping[str, Any]", inner).get("text") if isinstance(inner, Mapping) else None
    return text if isinstance(text, str) and block.get("type") in {"text", "resource"} else None


def _without_huge(block: dict[str, Any]) -> dict[str, Any]:
    inner = block.get("resource", block)
    data = inner.get("data", inner.get("blob"))
    if not isinstance(data, str) or len(data) <= HUGE_FILE:
        return block
    kind = f"{block.get('type', 'file')} {inner.get('mimeType', '')}".strip()
    return {"type": "text", "text": f"[{kind} of {len(data) * 3 // 4:,} bytes: too large to be passed on]"}


def _says(texts: list[str], structured: Any) -> bool:
    """True where a text is the structured content already, as the protocol demands of servers."""
    for text in texts:
        try:
            if json.loads(text) == structured:
                return True
        except (ValueError, RecursionError):
            continue
    return False


def _rebuilt(result: ToolResult, blocks: list[dict[str, Any]], structured: Any) -> ToolResult:
    return ToolResult(is_error=result.is_error, blocks=blocks, structured=structured, meta=result.meta)


def cut_before(text: str, at: int) -> int:
    """The nearest place at or before `at` where the text may be cut: after the end of a line, if one is near, and
    never inside of a sign."""
    if at <= 0 or at >= len(text):
        return max(0, min(at, len(text)))
    line = text.rfind("\n", max(0, at - NEAR), at)
    return line + 1 if line >= 0 else _whole_sign(text, at)


def cut_after(text: str, at: int) -> int:
    """The nearest such place at or after `at`, for a text that is read from there on."""
    if at <= 0 or at >= len(text):
        return max(0, min(at, len(text)))
    line = text.find("\n", at - 1, at + NEAR)
    if line >= 0:
        return line + 1
    for place in range(at, min(at + LONGEST_SIGN, len(text))):
        if _whole_sign(text, place) == place:
            return place
    return at


def page_end(text: str, offset: int, limit: int) -> int:
    """The end of a page of at most `limit` characters that begins at `offset`; always beyond `offset`, if there is
    more."""
    end = min(len(text), offset + limit)
    place = cut_before(text, end)
    return place if place > offset else end


def joined_instructions(config: GatewayConfig, offers: Sequence[ServerOffer]) -> str:
    """The operator's instructions whole, and those of the servers in the rest of the budget: each gets the same
    share, and what a short one does not need goes to the longer ones."""
    parts = [config.instructions or OWN]
    said = {offer.server: text for offer in offers if (text := offer.instructions.strip())}
    left = max(config.max_instructions_chars - len(parts[0]), 0)
    shares: dict[str, str] = {}
    for number, (server, text) in enumerate(sorted(said.items(), key=lambda one: len(one[1]))):
        heading = f"\n\n# {server}\n"
        share = left // (len(said) - number)
        if len(heading) + len(text) > share:
            length = share - len(heading) - len(LEFT_OUT)
            text = text[: cut_before(text, length)].rstrip() + LEFT_OUT if length > 0 else ""  # noqa: PLW2901
        if text:
            shares[server] = heading + text
            left -= len(shares[server])
    return parts[0] + "".join(shares[server] for server in said if server in shares)


def _whole_sign(text: str, at: int) -> int:
    """The beginning of the sign that a cut at `at` would split."""
    for place in range(at, max(0, at - LONGEST_SIGN), -1):
        if not _joined(text, place):
            return place
    return at


def _joined(text: str, at: int) -> bool:
    """True where the character at `at` belongs to the one before it."""
    before, here = text[at - 1], text[at]
    if JOINER in (before, here) or (before == "\r" and here == "\n"):
        return True
    if "\ud800" <= before <= "\udbff" and "\udc00" <= here <= "\udfff":  # halves of one, as JSON may have them
        return True
    if "\U0001f3fb" <= here <= "\U0001f3ff" or unicodedata.category(here).startswith("M"):
        return True
    if _is_flag(before) and _is_flag(here):
        first = at - 1
        while first > 0 and _is_flag(text[first - 1]) and at - first < LONGEST_SIGN:
            first -= 1
        return (at - first) % 2 == 1
    return False


def _is_flag(character: str) -> bool:
    return "\U0001f1e6" <= character <= "\U0001f1ff"
