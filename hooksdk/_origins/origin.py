"""Where one value comes from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from hashlib import sha256
from typing import Literal, get_args

from hooksdk._origins.folding import fold_value
from hooksdk._origins.labels import TRUSTED
from hooksdk.values import clip, is_mapping

OriginKind = Literal["prompt", "agreed", "result", "nowhere"]
KINDS = get_args(OriginKind)
# Characters of a value, and of a quote, that are kept to be shown.
MOST_SHOWN = 200


@dataclass(frozen=True, kw_only=True)
class Origin:
    """Where one value of a call's arguments comes from, as evidence for whoever judges the call.

    ```python
    from hooksdk.hooks import Origin

    origin = Origin(value="eve@evil.example", path="to", kind="result", handle="r3", tool="mcp:mail:read", label="untrusted")
    assert str(origin) == "to = 'eve@evil.example' stands in what mcp:mail:read answered (r3, untrusted)"
    assert not origin.cleared
    ```

    Attributes:
        value: The value, or an address in it; what is long is cut off.
        path: Where it stands in the arguments: `to`, `cc[1]`, `message.to`.
        kind: `prompt`: the user wrote it. `agreed`: a person has agreed to this value in this session. `result`: it
            stands in a tool result. `nowhere`: in none of these, such as what the model has made up, decoded or put
            together.
        handle: Of the result, such as `r3`; empty for one that the session's transcript does not have: of a call that a
            tool made, or of the agent that this one works for.
        tool: The id, or as far as only that is known the name, of the tool that gave the result.
        label: `trusted` or `untrusted`, of a result.
        quote: What stands around it there, in one line.
        digest: Stands for the whole value.
    """

    value: str
    path: str = ""
    kind: OriginKind = "nowhere"
    handle: str = ""
    tool: str = ""
    label: str = ""
    quote: str = ""
    digest: str = field(default="", repr=False)

    def __post_init__(self) -> None:
        for one in fields(self):
            if not isinstance(value := getattr(self, one.name), str):
                raise TypeError(f"Origin({one.name}=...) must be str, got {type(value).__name__}")
        if self.kind not in KINDS:
            raise ValueError(f"Origin(kind=...) must be one of {', '.join(KINDS)}, got {clip(repr(self.kind), 80)}")
        put = object.__setattr__
        put(self, "digest", self.digest or digest_of_value(self.value))
        put(self, "value", clip(self.value, MOST_SHOWN))
        put(self, "quote", clip(self.quote, MOST_SHOWN))

    @property
    def cleared(self) -> bool:
        """True where the value is known to be right as a whole: from the user, agreed to, or in a trusted result."""
        return self.kind in {"prompt", "agreed"} or (self.kind == "result" and self.label == TRUSTED)

    @property
    def place(self) -> str:
        """The path and where it comes from, without the value: `to: r3 untrusted`, `cc[1]: nowhere`."""
        source = " ".join(filter(None, (self.handle or self.tool, self.label))) if self.kind == "result" else self.kind
        return f"{clip(in_one_line(self.path), 80)}: {source}"

    def __str__(self) -> str:
        """In one sentence. What others wrote is in it as it is: clean it for the place where it is shown."""
        where = {
            "prompt": "was written by the user",
            "agreed": "was agreed to",
            "nowhere": "stands nowhere in what was asked or read",
        }.get(self.kind) or f"stands in what {self.tool or 'a tool'} answered"
        notes = ", ".join(filter(None, (self.handle, self.label))) if self.kind == "result" else ""
        said = f"{self.path} = {self.value!r} {where}" + (f" ({notes})" if notes else "")
        return f'{said}: "{self.quote}"' if self.quote else said


def as_origin(value: object) -> Origin:
    """An origin, or one that was stored as a mapping of its fields. Raises `TypeError` and `ValueError` for what is
    none."""
    if is_mapping(value):
        return Origin(**value)
    if not isinstance(value, Origin):
        raise TypeError(f"evidence is a list of Origins, got {type(value).__name__}")
    return value


def digest_of_value(value: str) -> str:
    """Stands for a value as a whole, as it is compared; empty for one that nothing clears."""
    folded = fold_value(value)
    return "" if folded is None else sha256(folded.encode("utf-8", "surrogatepass")).hexdigest()


# Answers the origins of the values at a path of a call's arguments.
Origins = Callable[[str], tuple[Origin, ...]]


def no_origins(_path: str) -> tuple[Origin, ...]:
    """In the place of origins, where nobody may know them: a policy that asks for them blocks the call."""
    raise LookupError(
        "where values come from is not known here: no run has made this event, or the plugin lacks the grant 'conversation'"
    )


def in_one_line(text: str) -> str:
    """A quote in one line, without what nobody sees."""
    return " ".join("".join(char if char.isprintable() else " " for char in text).split())
