"""What the audit writes into the log: one line for what concerns many tools of an owner, and what to paste as approval."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from typing import Any

from builtin_plugins.catalog_audit._review import Kind, Review

logger = logging.getLogger("hooksdk")

MAX_NAMED = 20
"""Tools that one line of the log names."""

_WORDS: dict[Kind, str] = {
    "new": "were never seen before",
    "lookalike": "have names that look like others'",
    "hidden_text": "hold text that people do not see",
    "instructions": "hold what looks like orders to the model",
}


def report(owner: str, reviews: Sequence[Review]) -> None:
    """Write down what these reviews of one owner's tools say."""
    for review in reviews:
        for finding in review.findings:
            if finding.kind == "changed":
                _report_change(review, finding.details)
    for kind, words in _WORDS.items():
        meant = [
            (review, finding)
            for review in reviews
            for finding in review.findings
            if finding.kind == kind and finding.action != "accept"
        ]
        if not meant:
            continue
        withheld = any(finding.action == "withhold" for _, finding in meant)
        entries: list[str] = []
        for review, finding in meant[:MAX_NAMED]:
            details = f" ({'; '.join(map(quoted, finding.details[:3]))})" if finding.details else ""
            entries.append(f"{quoted(review.tool.id)} = {quoted(review.fingerprint)}{details}")
        more = f" and {len(meant) - MAX_NAMED} more" if len(meant) > MAX_NAMED else ""
        consequence = ", withheld until they are in [plugins.catalog_audit.config.approved]" if withheld else ""
        logger.warning(
            "%d tools of %s %s%s: %s%s",
            len(meant),
            quoted(owner),
            words,
            consequence,
            ", ".join(entries),
            more,
            extra={
                "plugin": "catalog_audit",
                "finding": kind,
                "tools": [review.tool.id for review, _ in meant],
                "withheld": withheld,
            },
        )


def _report_change(review: Review, changed: Sequence[str]) -> None:
    tool, record = review.tool, review.record or {}
    facts: dict[str, Any] = {
        "plugin": "catalog_audit",
        "finding": "changed",
        "tool": tool.id,
        "changed": list(changed),
        "old": record["fingerprint"],
        "new": review.fingerprint,
        "withheld": review.withheld,
    }
    if review.approved:
        consequence = "which is approved"
    elif review.withheld:
        approve = f"{quoted(tool.id)} = {quoted(review.fingerprint)}"
        consequence = f"so it is withheld; if that is right, add to [plugins.catalog_audit.config.approved]: {approve}"
    else:
        consequence = "and is used as it is now"
    logger.log(
        logging.INFO if review.approved else logging.WARNING,
        "tool %s has another %s than when it was recorded at %s (%s -> %s), %s",
        quoted(tool.id),
        " and ".join(changed),
        record.get("recorded"),
        record["fingerprint"],
        review.fingerprint,
        consequence,
        extra=facts,
    )


def quoted(text: str) -> str:
    """As it stands in TOML, in one line whatever a server has put into its names."""
    return json.dumps(text if len(text) <= 300 else text[:299] + "…")
