"""What a client is told at the beginning: the operator's words, then those of the servers."""

from __future__ import annotations

from collections.abc import Sequence

from hooksdk.gateway._settings import GatewayConfig
from hooksdk.gateway._text import cut_before
from hooksdk.mcp import ServerOffer

OWN = "The tools of several servers. Those that are not listed are found and called through those that are."
LEFT_OUT = " […]"


def joined_instructions(config: GatewayConfig, offers: Sequence[ServerOffer]) -> str:
    """The operator's instructions whole, and those of the servers in what is left of the budget: each gets the same share, and what
    a short one leaves goes to the longer ones."""
    parts = [config.instructions or OWN]
    said = {offer.server: text for offer in offers if (text := offer.instructions.strip())}
    left = max(config.max_instructions_chars - len(parts[0]), 0)
    shares: dict[str, str] = {}
    for number, (server, text) in enumerate(sorted(said.items(), key=lambda one: len(one[1]))):
        heading = f"\n\n# {server}\n"
        share = left // (len(said) - number)
        if len(heading) + len(text) > share:
            room = share - len(heading) - len(LEFT_OUT)
            text = text[: cut_before(text, room)].rstrip() + LEFT_OUT if room > 0 else ""  # noqa: PLW2901
        if text:
            shares[server] = heading + text
            left -= len(shares[server])
    return parts[0] + "".join(shares[server] for server in said if server in shares)
