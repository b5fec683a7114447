"""Claude Code's transcripts: one line a block, in a tree of all that was tried."""

from __future__ import annotations

from collections.abc import Iterable

from hooksdk.histories._anthropic import put
from hooksdk.histories._draft import Draft
from hooksdk.histories._source import Source
from hooksdk.values import JsonObject, as_list, as_object

_SPEAKERS = ("user", "assistant")


def recognise(source: Source) -> str:
    """Why this looks like one."""
    for index, item in enumerate(source.items):
        if item.get("type") in _SPEAKERS and "message" in item and ("uuid" in item or "sessionId" in item):
            return f"{source.place(index)} is a '{item['type']}' entry with a 'message' and a 'uuid'"
    return ""


def convert(source: Source, draft: Draft) -> None:
    """The conversation that Claude Code would go on with: the newest branch, since its last compaction."""
    entries = _own_entries(source, draft)
    for index, item in _active(entries, draft):
        message = source.need(index, "message", dict, "a 'message' object")
        key = str(message.get("id") or item.get("uuid") or index) if item["type"] == "assistant" else ""
        put(draft, {**message, "role": item["type"]}, key, source.place(index))


def _own_entries(source: Source, draft: Draft) -> list[tuple[int, JsonObject]]:
    """The entries of the main conversation, each once: side-chain lines only if there are no others, as in a
    sub-agent's file."""
    side = [item for item in source.items if item.get("type") in _SPEAKERS and item.get("isSidechain")]
    only_side = len(side) == sum(item.get("type") in _SPEAKERS for item in source.items)
    entries: list[tuple[int, JsonObject]] = []
    known: set[str] = set()
    for index, item in enumerate(source.items):
        uuid = str(item.get("uuid") or "")
        if item.get("isSidechain") and not only_side:
            draft.lose("lines of side chains (sub-agents)")
        elif uuid and uuid in known:
            draft.lose("lines that are there twice")
        else:
            known.add(uuid)
            entries.append((index, item))
            if item.get("type") not in _SPEAKERS:
                draft.lose(f"lines of type '{item.get('type')}'")
    return entries


def _active(entries: list[tuple[int, JsonObject]], draft: Draft) -> Iterable[tuple[int, JsonObject]]:
    """What the model has seen, in the file's order: the newest message and those before it.

    Parallel calls branch the tree (each result hangs on its own call's line), so the lines of one reply belong
    together, and so do their results.
    """
    spoken = [(index, item) for index, item in entries if item.get("type") in _SPEAKERS]
    if any(item.get("uuid") for _, item in spoken):
        path = _path(entries, spoken[-1][0], draft)
        replies = {_reply_id(item) for index, item in spoken if index in path} - {""}
        path |= {index for index, item in spoken if _reply_id(item) in replies}
        calls = {call for index, item in spoken if index in path for call in _ids(item, "tool_use", "id")}
        path |= {index for index, item in spoken if calls & _ids(item, "tool_result", "tool_use_id")}
        active = [(index, item) for index, item in spoken if index in path]
        what = "lines of branches that were given up, or that a compaction stands for"
        draft.lose(what, len(spoken) - len(active))
        spoken = active
    for index, item in spoken:
        if item.get("isApiErrorMessage") or as_object(item.get("message")).get("model") == "<synthetic>":
            draft.lose("notices of Claude Code itself, such as errors of the API")
        elif item.get("isVisibleInTranscriptOnly") and not item.get("isCompactSummary"):
            draft.lose("lines that the model never saw")
        else:
            yield index, item


def _path(entries: list[tuple[int, JsonObject]], last: int, draft: Draft) -> set[int]:
    """The positions from the last message back to the beginning of its conversation."""
    positions = [index for index, _ in entries]
    before = dict(zip(positions, [-1, *positions], strict=False))
    position_of = {str(item.get("uuid")): index for index, item in entries}
    items, path, position = dict(entries), set[int](), last
    while position >= 0 and position not in path:
        path.add(position)
        parent = items[position].get("parentUuid")
        if parent is not None and str(parent) not in position_of:
            draft.note("a line names a parent that is not in the file: the line before it is taken for that")
        # Lines without a parent begin a conversation, or one after a compaction.
        position = -1 if parent is None else position_of.get(str(parent), before[position])
    return path


def _reply_id(item: JsonObject) -> str:
    return str(as_object(item.get("message")).get("id") or "") if item.get("type") == "assistant" else ""


def _ids(item: JsonObject, block_type: str, key: str) -> set[str]:
    blocks = map(as_object, as_list(as_object(item.get("message")).get("content")))
    return {str(block.get(key)) for block in blocks if block.get("type") == block_type}
