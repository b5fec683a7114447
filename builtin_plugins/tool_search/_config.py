"""The settings of tool search."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationInfo, field_validator

from builtin_plugins.tool_search._ranking.lexicon import Vocabulary, leaves, of_project
from builtin_plugins.tool_search._script.sandbox import is_installed
from builtin_plugins.tool_search._sentences import BRIDGES, DESCRIPTIONS, LEGAL
from builtin_plugins.tool_search.rankers import load_ranker
from hooksdk.config import ProjectSettings
from hooksdk.patterns import check_patterns

logger = logging.getLogger("hooksdk.tool_search")

# Signatures behind a prompt, unless the configuration says how many.
SIGNATURES = 6

# The least and the greatest value of each number.
_RANGES = {
    "code_timeout": (1.0, 60.0),
    "threshold_pct": (0.0, 100.0),
    "max_search_limit": (1, 50),
    "search_default_limit": (1, 50),
    "prefetch": (0, 50),
    "prefetch_signatures": (0, 50),
    "prefetch_tokens": (0, 100_000),
    "listing": (0, 100_000),
}

_ON, _OFF = ("true", "yes", "1", "on"), ("false", "no", "0", "off")


def _tri_state(value: object) -> object:
    word = str(value).strip().lower()
    return "on" if word in _ON else "off" if word in _OFF else "auto" if word == "auto" else value


class Config(BaseModel):
    """Settings. Numbers out of range are clamped, with a notice in the log.

    Attributes:
        enabled: `auto`: from the threshold on; `on`: whenever a tool can be deferred; `off`: never.
        mode: `tools`: three bridge tools; `code`: one that runs a script (extra `code`; `tools` is used without it).
        code_timeout: Seconds of its own time that a script may take, 1 to 60; its tools' time does not count.
        threshold_pct: Percent of the context window that the deferrable tools must reach, 0 to 100.
        max_search_limit: Hits for one query at most, 1 to 50.
        search_default_limit: Hits for one query unless the model gives a number, at most as many.
        pinned: Patterns of tools that are always shown.
        prefetch: Tools nearest to what the user asked that are shown directly, 0 to 50; 0: none.
        prefetch_signatures: The next ones, of which the call signatures are shown behind the prompt, 0 to 50. Unless it
            is given: 6, and none where `prefetch` is 0.
        prefetch_tokens: Tokens that the schemas of the prefetched and the revealed tools and the signatures may take
            together, 0 to 100,000.
        reveal: Whether what a search found well, or a call used, is shown directly from the next model call on. `auto`:
            on, but where the provider itself hides the tools: it shows what was found.
        native: Whether the provider itself hides the tools, where its requests can declare them. `auto`: where the
            endpoint and the model are known to take it; `on`: wherever the format can; `off`: never.
        ranker: `bm25`, `embeddings` or `rank-bm25` (need these extras), `embeddings:package.module:function` for
            vectors of your own, or a ranker of your own as `package.module:factory`.
        descriptions: Other descriptions of the bridge tools, by their names; `{count}` and `{owners}` of the deferred
            tools are filled in.
        names: Other names of the bridge tools, by the usual ones. Policies' patterns go on to meet them by the usual
            ones, too.
        nested: What becomes of a bridge tool that is called through `tool_call`: the refusal holds what was meant, or
            it is answered outright.
        listing: Whether the bridge lists the deferred tools: at 4,000 tokens or as many as given, at most a tenth of
            the window.
        vocabulary: A house's own terms, each with the words that tools use for it: a table, or the path of a TOML or
            JSON file.
        learn: Whether tools that were called after a search are lifted when alike words are searched again. What is
            kept in the plugin's storage are salted hashes of words.
    """

    model_config = ConfigDict(extra="forbid")
    enabled: Annotated[Literal["auto", "on", "off"], BeforeValidator(_tri_state)] = "auto"
    mode: Literal["tools", "code"] = "tools"
    code_timeout: float = 10.0
    threshold_pct: float = Field(default=10.0)
    max_search_limit: int = 20
    search_default_limit: int = 5
    pinned: Annotated[list[str], AfterValidator(check_patterns)] = Field(default_factory=list[str])
    prefetch: int = 6
    prefetch_signatures: int | None = None
    prefetch_tokens: int = 2_000
    reveal: Annotated[Literal["auto", "on", "off"], BeforeValidator(_tri_state)] = "auto"
    native: Annotated[Literal["auto", "on", "off"], BeforeValidator(_tri_state)] = "auto"
    ranker: str = "bm25"
    descriptions: dict[str, str] = Field(default_factory=dict[str, str])
    names: dict[str, str] = Field(default_factory=dict[str, str])
    nested: Literal["refuse", "answer"] = "refuse"
    listing: bool | int = False
    vocabulary: Vocabulary = Field(default_factory=dict[str, list[str]])
    learn: bool = False

    @property
    def signatures(self) -> int:
        """How many signatures are shown behind a prompt."""
        own = self.prefetch_signatures
        return own if own is not None else SIGNATURES if self.prefetch else 0

    @classmethod
    def with_project(cls, own: Mapping[str, Any], project: ProjectSettings) -> tuple[dict[str, Any], list[str]]:
        """Without trust a project brings no ranker of its own, which is code, and no words or names for the bridges,
        which are ours to the model, no words from a file outside of its folder, and it does not let us keep what was
        searched; and nothing where the operator has configured the search."""
        values = {name: value for name, value in project.values.items() if name not in own}
        outside = leaves(project.folder, values.get("vocabulary"))
        needs_trust = [
            name
            for name, value in values.items()
            if project.configured
            or name in ("descriptions", "names", "learn")
            or (name == "ranker" and ":" in str(value))
            or (name == "vocabulary" and outside)
        ]
        missing = [] if project.trusted else needs_trust
        values = {name: value for name, value in values.items() if name not in missing}
        if isinstance(path := values.get("vocabulary"), str):
            values["vocabulary"] = of_project(path, project)
        return {**values, **own}, missing

    @field_validator(*_RANGES)
    @classmethod
    def _clamp(cls, value: float | None, info: ValidationInfo) -> float | None:
        if value is None or isinstance(value, bool):
            return value
        name = str(info.field_name)
        low, high = _RANGES[name]
        high = info.data.get("max_search_limit", high) if name == "search_default_limit" else high
        clamped = low if math.isnan(value) else max(low, min(value, high))
        if clamped != value:
            logger.warning("tool_search: %s = %g is out of range, %g is used", name, value, clamped)
        return clamped

    @field_validator("mode")
    @classmethod
    def _check_mode(cls, value: Literal["tools", "code"]) -> Literal["tools", "code"]:
        if value == "code" and not is_installed():
            logger.warning(
                "tool_search: mode = 'code' needs pydantic-monty (pip install 'hooksdk[code]'); mode 'tools' is used"
            )
            return "tools"
        return value

    @field_validator("descriptions")
    @classmethod
    def _check_descriptions(cls, value: dict[str, str]) -> dict[str, str]:
        for name in value:
            if name not in DESCRIPTIONS:
                raise ValueError(f"'{name}' is no bridge tool: use {', '.join(DESCRIPTIONS)}")
        return value

    @field_validator("names")
    @classmethod
    def _check_names(cls, value: dict[str, str]) -> dict[str, str]:
        for usual, name in value.items():
            if usual not in BRIDGES:
                raise ValueError(f"'{usual}' is no bridge tool: use {', '.join(BRIDGES)}")
            if not LEGAL.fullmatch(name):
                raise ValueError(f"'{name}' is no name that every provider takes: 1 to 64 of letters, digits, _ and -")
        chosen = [value.get(usual, usual).casefold() for usual in BRIDGES]
        if twice := sorted({name for name in chosen if chosen.count(name) > 1}):
            raise ValueError(f"two bridge tools are called '{twice[0]}': each needs a name of its own")
        return value

    @field_validator("ranker")
    @classmethod
    def _check_ranker(cls, value: str) -> str:
        load_ranker(value)
        return value
