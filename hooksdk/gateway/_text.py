"""Texts that are cut to a length: long results, and the instructions that clients are given at the beginning."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

from hooksdk.gateway._settings import GatewayConfig
from hooksdk.mcp import ServerOffer

# Characters within which the end of a line is preferred to the exact place.
NEAR = 400
# The longest sign in characters, such as a family of emoji: so far a cut is moved.
LONGEST_SIGN = 32
JOINER = "\u200d"
OWN = "The tools of several servers. Those that are not listed are found and called through those that are."
LEFT_OUT = " […]"


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
