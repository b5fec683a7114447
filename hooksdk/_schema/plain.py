"""Objects of the providers' SDKs as the JSON that they stand for."""

from __future__ import annotations

from typing import Any, Protocol

from hooksdk.values import is_list, is_object

_LEVELS = 6
"""How deep an SDK's object may stand in a message of plain dicts and lists."""


class SdkObject(Protocol):
    """An object of a provider's SDK: a message, a block, a call, a whole answer. All of them are pydantic's."""

    def model_dump(self) -> dict[str, Any]:
        """Its fields."""
        ...


def is_sdk_object(value: object) -> bool:
    """True for an instance that pydantic can write, as all objects of the providers' SDKs are."""
    return not isinstance(value, type) and callable(getattr(value, "model_dump", None))


def plain(value: Any, levels: int = _LEVELS) -> Any:
    """The value with every SDK object in it written as JSON, under the API's names and without what is None: a request may
    not say null where an answer does. What is plain already is the same object."""
    if is_sdk_object(value):
        return value.model_dump(mode="json", by_alias=True, exclude_none=True, warnings=False)
    if not levels:
        return value
    if is_object(value):
        written = {key: plain(part, levels - 1) for key, part in value.items()}
        return written if any(written[key] is not part for key, part in value.items()) else value
    if is_list(value):
        parts = [plain(part, levels - 1) for part in value]
        return parts if any(new is not old for new, old in zip(parts, value, strict=True)) else value
    return value
