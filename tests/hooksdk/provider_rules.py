"""The rules of the providers' APIs, written from their documentation and error texts, without any code of hooksdk.

`violations(format, messages)` and `tool_violations(format, tools)` say what a provider would refuse.
`in_format(format, conversation)` writes a neutral conversation in a provider's shape.
"""

from __future__ import annotations

import base64
import json
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from typing import Any, TypeGuard, cast

Json = dict[str, Any]

PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(40)).decode()
OPENAI_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
ANTHROPIC_NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")
GEMINI_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_.:-]{0,127}")
ANTHROPIC_ID = re.compile(r"[a-zA-Z0-9_-]+")
USER_PARTS = {"text", "image_url", "input_audio", "file"}
RESULT_BLOCKS = {"text", "image", "document", "search_result", "tool_reference", "browser_state"}


def is_object(value: object) -> TypeGuard[Json]:
    return isinstance(value, dict)


def is_list(value: object) -> TypeGuard[list[Any]]:
    return isinstance(value, list)


def violations(form: str, messages: list[Json]) -> list[str]:
    """What the provider would refuse in these messages."""
    found = list(RULES[form](messages))
    try:
        json.dumps(messages, ensure_ascii=False, allow_nan=False).encode()
    except ValueError as error:
        found.append(f"not sendable: {error}")
    return found


def id_violations(form: str, messages: list[Json]) -> list[str]:
    """What is wrong with the ids of calls. Only Anthropic is known to refuse ids that come again; other servers of the same
    formats do, so no list of ours has them."""
    ids = list(_ids(form, messages))
    pattern = {
        "anthropic": r"[a-zA-Z0-9_-]+",
        "openai-chat": r".{1,40}",
        "openai-responses": r".{1,64}",
        "gemini": r".+",
    }
    wrong = [f"{call_id!r} does not match" for call_id in ids if not re.fullmatch(pattern[form], call_id, re.DOTALL)]
    return [*wrong, *(f"{call_id!r} comes {times} times" for call_id, times in Counter(ids).items() if times > 1)]


def _ids(form: str, messages: list[Json]) -> Iterator[str]:
    for message in messages:
        for part in cast("list[Json]", message.get("parts") or []):
            if "id" in (part.get("functionCall") or {}):
                yield part["functionCall"]["id"]
        for call in cast("list[Json]", message.get("tool_calls") or []):
            yield call["id"]
        if form == "anthropic" and is_list(message.get("content")):
            yield from (block["id"] for block in message["content"] if block["type"] == "tool_use")
        if message.get("type") == "function_call":
            yield message["call_id"]


def _openai(messages: list[Json]) -> Iterator[str]:
    waiting: Counter[str] = Counter()
    function: str | None = None
    for at, message in enumerate(messages):
        role, content = message.get("role"), message.get("content")
        if role not in ("tool", "function") and (waiting.total() or function):
            yield f"{at}: calls {sorted(waiting)} {function} are not answered before this {role} message"
            waiting.clear()
            function = None
        if role in ("system", "developer"):
            yield from _openai_content(at, content, {"text"})
        elif role == "user":
            yield from _openai_content(at, content, USER_PARTS)
        elif role == "assistant":
            made, function_call = message.get("tool_calls"), message.get("function_call")
            if content is not None:
                yield from _openai_content(at, content, {"text", "refusal"})
            elif not made and not function_call and not message.get("refusal"):
                yield f"{at}: content is required unless there are calls"
            if made is not None and not made:
                yield f"{at}: tool_calls is empty"
            for call in cast("list[Json]", made or []):
                waiting[call["id"]] += 1
                yield from _openai_call(at, call)
            if function_call:
                function = function_call["name"]
                if not isinstance(function_call["arguments"], str):
                    yield f"{at}: function_call.arguments is no string"
        elif role == "tool":
            yield from _openai_content(at, content, {"text"})
            if waiting[message.get("tool_call_id", "")] < 1:
                yield f"{at}: no call before it has the id {message.get('tool_call_id')!r}"
            else:
                waiting = +(waiting - Counter([message["tool_call_id"]]))
        elif role == "function":
            if message.get("name") != function or not isinstance(content, str):
                yield f"{at}: a function message must name the function called and have text"
            function = None
        else:
            yield f"{at}: unknown role {role!r}"


def _openai_call(at: int, call: Json) -> Iterator[str]:
    if not isinstance(call["id"], str):
        yield f"{at}: the id of a call is no string"
    body = call.get("custom" if call.get("type") == "custom" else "function")
    if call.get("type") not in ("function", "custom") or not is_object(body):
        yield f"{at}: a call is neither function nor custom"
    elif not OPENAI_NAME.fullmatch(body["name"]):
        yield f"{at}: {body['name']!r} is no function name"
    elif not isinstance(body.get("arguments" if call["type"] == "function" else "input"), str):
        yield f"{at}: the arguments are no string"


def _openai_content(at: int, content: Any, allowed: set[str]) -> Iterator[str]:
    if isinstance(content, str):
        return
    if not is_list(content) or not content:
        yield f"{at}: content must be a string or a list with parts, not {content!r}"
        return
    for part in content:
        if part.get("type") not in allowed:
            yield f"{at}: a part of type {part.get('type')!r} is not allowed here"
        elif part["type"] == "text" and not isinstance(part.get("text"), str):
            yield f"{at}: a text part without text"


def _anthropic(messages: list[Json]) -> Iterator[str]:
    for at, message in enumerate(messages):
        last = at == len(messages) - 1 and message.get("role") == "assistant"
        if not message.get("content") and not last:
            yield f"{at}: all messages must have non-empty content except for the optional final assistant message"
    messages = _merged(messages)
    waiting: Counter[str] = Counter()
    first = next((message for message in messages if message.get("role") != "system"), None)
    if first is not None and first.get("role") != "user":
        yield "the first message must use the user role"
    for at, message in enumerate(messages):
        role, content = message.get("role"), message.get("content")
        if role not in ("user", "assistant", "system"):
            yield f"{at}: unknown role {role!r}"
        blocks = cast("list[Json]", content)
        results = [block for block in blocks if block["type"] == "tool_result"]
        if results and blocks[: len(results)] != results:
            yield f"{at}: tool_result blocks must come first"
        if results and role != "user":
            yield f"{at}: tool_result blocks can only be in user messages"
        answered = Counter(str(block["tool_use_id"]) for block in results)
        if waiting - answered:
            yield f"{at}: tool_use ids were found without tool_result blocks immediately after: {sorted(waiting - answered)}"
        if answered - waiting:
            yield f"{at}: unexpected tool_use_id found in tool_result blocks: {sorted(answered - waiting)}"
        waiting = Counter()
        for block in blocks:
            yield from _anthropic_block(at, block)
            if block["type"] == "tool_use":
                waiting[block["id"]] += 1
                if role != "assistant":
                    yield f"{at}: tool_use blocks can only be in assistant messages"


def _merged(messages: list[Json]) -> list[Json]:
    """Consecutive turns of one role are combined into a single turn."""
    merged: list[Json] = []
    for message in messages:
        content: Any = message.get("content")
        blocks: list[Json] = [{"type": "text", "text": content}] if isinstance(content, str) else content or []
        if merged and merged[-1]["role"] == message.get("role"):
            merged[-1] = {**merged[-1], "content": [*merged[-1]["content"], *blocks]}
        else:
            merged.append({"role": message.get("role"), "content": blocks})
    return merged


def _anthropic_block(at: int, block: Json) -> Iterator[str]:
    match block["type"]:
        case "text":
            if not block["text"].strip():
                yield f"{at}: text content blocks must contain non-whitespace text"
        case "tool_use":
            if not ANTHROPIC_ID.fullmatch(block["id"]) or not ANTHROPIC_NAME.fullmatch(block["name"]):
                yield f"{at}: id {block['id']!r} or name {block['name']!r} does not match the pattern"
            if not is_object(block["input"]):
                yield f"{at}: input must be an object"
        case "thinking":
            if not isinstance(block.get("signature"), str):
                yield f"{at}: a thinking block without its signature"
        case "image":
            yield from _anthropic_image(at, block)
        case "tool_result":
            inner: Any = block.get("content", "")
            blocks: list[Json] = inner if is_list(inner) else []
            if not isinstance(inner, (str, list)) or not isinstance(block.get("is_error", False), bool):
                yield f"{at}: tool_result content must be text or a list, is_error a boolean"
                return
            for each in blocks:
                if each["type"] not in RESULT_BLOCKS:
                    yield f"{at}: a tool_result cannot hold a {each['type']}"
                yield from _anthropic_block(at, each)
            if block.get("is_error") and not (inner.strip() if isinstance(inner, str) else inner):
                yield f"{at}: tool_result: content cannot be empty if `is_error` is true"
            if block.get("is_error") and any(each["type"] != "text" for each in blocks):
                yield f"{at}: tool_result: all content must be type `text` if `is_error` is true"
        case _:
            pass


def _anthropic_image(at: int, block: Json) -> Iterator[str]:
    source = block["source"]
    if source["type"] != "base64":
        return
    if source["media_type"] not in ("image/jpeg", "image/png", "image/gif", "image/webp"):
        yield f"{at}: media type {source['media_type']} is not supported"
    if len(source["data"]) > 5_242_880:
        yield f"{at}: image exceeds 5 MB maximum"
    try:
        base64.b64decode(source["data"], validate=True)
    except ValueError:
        yield f"{at}: invalid base64 data"


ITEM_IDS = {"message": "msg", "reasoning": "rs", "function_call": "fc", "custom_tool_call": "ctc"}
INPUT_PARTS = {"input_text", "input_image", "input_file"}


def _responses(items: list[Json]) -> Iterator[str]:
    """The API finds outputs by their id anywhere behind the call; servers that copy it want them before the next message
    of the user, too."""
    waiting: Counter[tuple[str, str]] = Counter()
    reasoning = False
    for at, item in enumerate(items):
        role, kind = item.get("role"), item.get("type", "message")
        if reasoning and (kind.endswith("_output") or role in ("user", "system", "developer")):
            yield f"{at}: item of type 'reasoning' was provided without its required following item"
        reasoning = kind == "reasoning"
        if "id" in item and not str(item["id"]).startswith(ITEM_IDS.get(kind, "")):
            yield f"{at}: invalid id {item['id']!r}: expected an ID that begins with {ITEM_IDS[kind]!r}"
        if kind == "message":
            if role in ("user", "system", "developer") and waiting.total():
                yield f"{at}: no tool output found for function call {sorted(waiting)}"
                waiting.clear()
            allowed = {"output_text", "refusal"} if role == "assistant" else INPUT_PARTS
            yield from _responses_content(at, item.get("content"), allowed)
        elif kind in ("function_call", "custom_tool_call"):
            if not isinstance(item.get("call_id"), str) or not 0 < len(item["call_id"]) <= 64:
                yield f"{at}: call_id must be a string of 1 to 64 characters"
            waiting[kind, item["call_id"]] += 1
            if not OPENAI_NAME.fullmatch(item["name"]):
                yield f"{at}: {item['name']!r} is no function name"
            if not isinstance(item.get("arguments" if kind == "function_call" else "input"), str):
                yield f"{at}: the arguments are no string"
        elif kind in ("function_call_output", "custom_tool_call_output"):
            key = (kind.removesuffix("_output"), item.get("call_id", ""))
            if waiting[key] < 1:
                yield f"{at}: no tool call found for {kind} with call_id {item.get('call_id')!r}"
            else:
                waiting[key] -= 1
            if item["output"] != []:
                yield from _responses_content(at, item.get("output"), INPUT_PARTS)
        elif kind == "reasoning" and not is_list(item.get("summary")):
            yield f"{at}: missing required parameter 'summary'"
    if reasoning:
        yield "the last item of type 'reasoning' was provided without its required following item"


def _responses_content(at: int, content: Any, allowed: set[str]) -> Iterator[str]:
    if isinstance(content, str):
        return
    if not is_list(content):
        yield f"{at}: content must be a string or a list, not {content!r}"
        return
    for part in content:
        if part.get("type") not in allowed:
            yield f"{at}: invalid value {part.get('type')!r}; supported values are {sorted(allowed)}"
        elif part["type"].endswith("text") and not isinstance(part.get("text"), str):
            yield f"{at}: a text part without text"


PART_DATA = {"text", "inlineData", "fileData", "functionCall", "functionResponse", "executableCode"}


def _gemini(contents: list[Json]) -> Iterator[str]:
    called: list[Json] = []
    for at, content in enumerate(contents):
        role, parts = content.get("role", "user"), content.get("parts")
        if role not in ("user", "model"):
            yield f"{at}: please use a valid role: user, model"
        if not is_list(parts) or not parts:
            yield f"{at}: contents.parts must not be empty"
            continue
        for part in parts:
            yield from _gemini_part(at, part)
        made = [part["functionCall"] for part in parts if "functionCall" in part]
        answers = [part["functionResponse"] for part in parts if "functionResponse" in part]
        if made and (role != "model" or at == 0 or contents[at - 1].get("role", "user") == "model"):
            yield f"{at}: function call turn must come immediately after a user turn or after a function response turn"
        if len(answers) != len(called):
            yield f"{at}: the number of function response parts must equal the number of function call parts"
        elif answers:
            if role != "user" or len(answers) < len(parts):
                yield f"{at}: beside function responses nothing may stand"
            with_id = {str(each["id"]) for each in called if "id" in each}
            for each in answers:
                if "id" in each and each["id"] not in with_id:
                    yield f"{at}: no function call has the id {each['id']!r}"
            if sorted(each["name"] for each in answers) != sorted(each["name"] for each in called):
                yield f"{at}: the names of the function responses are not those of the function calls"
        called = made


def _gemini_part(at: int, part: Json) -> Iterator[str]:
    data = PART_DATA & set(part)
    if len(data) != 1:
        yield f"{at}: a part must have one initialized data field, not {sorted(data)}"
    if "text" in part and not part["text"]:
        yield f"{at}: empty text parameter"
    call, answer = part.get("functionCall"), part.get("functionResponse")
    if call is not None and not (GEMINI_NAME.fullmatch(call["name"]) and is_object(call.get("args", {}))):
        yield f"{at}: {call['name']!r} is no function name, or the arguments are no object"
    if answer is not None:
        if not GEMINI_NAME.fullmatch(answer["name"]) or not is_object(answer.get("response")):
            yield f"{at}: a function response needs a name and an object"
        for each in cast("list[Json]", answer.get("parts", [])):
            blob: Json = each.get("inlineData", {})
            if blob.get("mimeType") not in ("image/png", "image/jpeg", "image/webp", "application/pdf", "text/plain"):
                yield f"{at}: unsupported MIME type {blob.get('mimeType')!r}"
            try:
                base64.b64decode(blob.get("data", "?"), validate=True)
            except ValueError:
                yield f"{at}: base64 decoding failed"


RULES = {"openai-chat": _openai, "anthropic": _anthropic, "openai-responses": _responses, "gemini": _gemini}


def _tool_parts(form: str, tool: Json) -> list[tuple[Json, str, set[str]]]:
    """The bodies of the definitions, where their schemas stand, and the keys that they may have."""
    if form == "openai-chat":
        return [(tool["function"], "parameters", {"name", "description", "parameters"})]
    if form == "openai-responses":
        return [(tool, "parameters", {"type", "name", "description", "parameters", "strict"})]
    if form == "gemini":
        allowed = {"name", "description", "parametersJsonSchema"}
        return [(body, "parametersJsonSchema", allowed) for body in tool["functionDeclarations"]]
    return [(tool, "input_schema", {"name", "description", "input_schema", "cache_control"})]


def tool_violations(form: str, tools: list[Json]) -> list[str]:
    """What the provider would refuse in these tool definitions; names apart, which are the catalog's business."""
    found: list[str] = []
    for tool in tools:
        for body, key, allowed in _tool_parts(form, tool):
            schema = body[key]
            if set(body) - allowed or not isinstance(body["description"], str):
                found.append(f"{body['name']}: unexpected keys {sorted(set(body) - allowed)}")
            if schema.get("type") != "object" or not is_object(schema.get("properties")):
                found.append(f"{body['name']}: schema must have type 'object' and properties")
            refused = {"oneOf", "anyOf", "allOf", "enum", "not", "const", "$ref"} & set(schema)
            if refused:
                found.append(f"{body['name']}: not supported at the top level: {sorted(refused)}")
            found += [f"{body['name']}: {error.message}" for error in _meta().iter_errors(schema)]
            found += [f"{body['name']}: array schema missing items" for each in _walk(schema) if _lacks_items(each)]
        if form == "openai-responses" and tool.get("strict") is not False:
            found.append(f"{tool['name']}: strict is the default and refuses optional properties")
        json.dumps(tool, ensure_ascii=False).encode()
    return found


@cache
def _meta() -> Any:
    from jsonschema import Draft202012Validator

    return Draft202012Validator(Draft202012Validator.META_SCHEMA)


def _lacks_items(schema: Json) -> bool:
    return schema.get("type") == "array" and "items" not in schema


def _walk(value: Any) -> Iterator[Json]:
    if is_object(value):
        yield value
        below = [each for key, each in value.items() if key not in ("default", "enum", "const", "examples")]
    else:
        below = value if is_list(value) else []
    for each in below:
        yield from _walk(each)


def in_format(form: str, conversation: list[Json]) -> list[Json]:
    """A neutral conversation in the shape of a provider: turns with `user` text, or `text`, `calls` and `results`.

    A call is (id, name, arguments); a result is (id, content, is_error) with the provider's own content. Gemini's calls have
    ids in every second turn, and its results are in the order of the calls where they have none.
    """
    made: list[Json] = []
    for number, turn in enumerate(conversation):
        if "user" in turn and form == "gemini":
            made.append({"role": "user", "parts": [{"text": turn["user"]}]})
        elif "user" in turn:
            made.append({"role": "user", "content": turn["user"]})
        elif form == "openai-chat":
            made += _openai_turn(turn)
        elif form == "openai-responses":
            made += _responses_turn(turn, number)
        elif form == "gemini":
            made += _gemini_turn(turn, with_ids=number % 2 == 0)
        else:
            made += _anthropic_turn(turn)
    return made


def _responses_turn(turn: Json, number: int) -> list[Json]:
    """A reply as the API returns it: reasoning, prose, then the calls as items of their own; then their outputs."""
    items: list[Json] = [{"type": "reasoning", "id": f"rs_{number}", "summary": [], "encrypted_content": "Z0FBQUFB"}]
    if turn["text"] or not turn["calls"]:
        text: Json = {"type": "output_text", "text": turn["text"], "annotations": []}
        items.append(
            {"type": "message", "id": f"msg_{number}", "role": "assistant", "status": "completed", "content": [text]}
        )
    for call_id, name, arguments in turn["calls"]:
        item_id = f"fc_{number}_{call_id}"
        call = {"type": "function_call", "id": item_id, "call_id": call_id, "name": name, "status": "completed"}
        items.append({**call, "arguments": json.dumps(arguments)})
    for call_id, content, _ in turn["results"]:
        items.append({"type": "function_call_output", "call_id": call_id, "output": content})
    return items


def _gemini_turn(turn: Json, *, with_ids: bool) -> list[Json]:
    """A reply as the API returns it, with a thought and the signature in the first call, then one content of results."""
    parts: list[Json] = [{"text": "thinking", "thought": True}]
    if turn["text"] or not turn["calls"]:
        parts.append({"text": turn["text"] or "(nothing)"})
    for call_id, name, arguments in turn["calls"]:
        call = {"functionCall": {"id": call_id, "name": name, "args": arguments}}
        parts.append(call if turn["calls"][0][0] != call_id else {**call, "thoughtSignature": "c2lnbmVk"})
    results = {call_id: (content, is_error) for call_id, content, is_error in turn["results"]}
    answers: list[Json] = []
    for call_id in results if with_ids else [call[0] for call in turn["calls"] if call[0] in results]:
        name = next((call[1] for call in turn["calls"] if call[0] == call_id), "unknown")
        content, is_error = results[call_id]
        response = content if is_object(content) else {"error" if is_error else "output": content}
        answers.append({"functionResponse": {"id": call_id, "name": name, "response": response}})
    if not with_ids:
        for part in [*parts, *answers]:
            for key in ("functionCall", "functionResponse"):
                part.get(key, {}).pop("id", None)
    made: list[Json] = [{"role": "model", "parts": parts}]
    return [*made, {"role": "user", "parts": answers}] if answers else made


def _openai_turn(turn: Json) -> list[Json]:
    reply: Json = {"role": "assistant", "content": turn["text"]}
    if turn["calls"]:
        reply["tool_calls"] = [
            {"id": call_id, "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
            for call_id, name, arguments in turn["calls"]
        ]
    answers = [{"role": "tool", "tool_call_id": call_id, "content": content} for call_id, content, _ in turn["results"]]
    return [reply, *answers]


def _anthropic_turn(turn: Json) -> list[Json]:
    blocks: list[Json] = [{"type": "thinking", "thinking": "...", "signature": "c2lnbmVk"}]
    if turn["text"].strip():
        blocks.append({"type": "text", "text": turn["text"]})
    elif not turn["calls"]:
        blocks.append({"type": "text", "text": "(nothing)"})
    for call_id, name, arguments in turn["calls"]:
        blocks.append({"type": "tool_use", "id": call_id, "name": name, "input": arguments})
    made: list[Json] = [{"role": "assistant", "content": blocks}]
    results: list[Json] = []
    for call_id, content, is_error in turn["results"]:
        results.append({"type": "tool_result", "tool_use_id": call_id, "content": content})
        if is_error:
            results[-1]["is_error"] = True
    return [*made, {"role": "user", "content": results}] if results else made


def neutral(messages: list[Json]) -> list[Json]:
    """A transcript in OpenAI's shape as a neutral conversation; system messages are left out."""
    turns: list[Json] = []
    for message in messages:
        if message["role"] == "user":
            turns.append({"user": message["content"]})
        elif message["role"] == "assistant":
            given: list[Json] = message.get("tool_calls") or []
            made = [(c["id"], c["function"]["name"], _object(c["function"]["arguments"])) for c in given]
            turns.append({"text": message["content"] or "", "calls": made, "results": []})
        elif message["role"] == "tool":
            turns[-1]["results"].append((message["tool_call_id"], message["content"], False))
    return turns


def _object(text: str) -> Json:
    try:
        read = json.loads(text)
    except ValueError:
        return {"text": text}
    return read if is_object(read) else {"text": text}
