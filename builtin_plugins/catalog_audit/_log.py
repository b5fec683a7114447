"""The lines of the audit in the log: one for all tools of an owner with the same finding, with entries that approve
them."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence

from builtin_plugins.catalog_audit._review import Finding, Kind, Review

logger = logging.getLogger("hooksdk")

# Tools that one line names at most.
MAX_NAMED = 20

_APPROVED = "[plugins.catalog_audit.config.approved]"
_WORDS: dict[Kind, str] = {
    "new": "were never seen before",
    "lookalike": "have names that look like others'",
    "hidden_text": "hold text that people do not see",
    "instructions": "hold what looks like orders to the model",
}


def report(owner: str, reviews: Sequence[Review]) -> None:
    """Log what these reviews of one owner's tools say."""
    findings = [(review, one) for review in reviews for one in review.findings]
    for review, finding in findings:
        if finding.kind == "changed":
            _report_change(review, finding.details)
    for kind, words in _WORDS.items():
        meant = [(review, one) for review, one in findings if one.kind == kind and one.action != "accept"]
        if not meant:
            continue
        withheld = any(one.action == "withhold" for _, one in meant)
        entries = [f"{_approval(review)}{_details(one)}" for review, one in meant[:MAX_NAMED]]
        line = f"{len(meant)} tools of {quoted(owner)} {words}"
        line += f", withheld until they are in {_APPROVED}" if withheld else ""
        line += f": {', '.join(entries)}"
        line += f" and {len(meant) - MAX_NAMED} more" if len(meant) > MAX_NAMED else ""
        facts = {"finding": kind, "tools": [review.tool.id for review, _ in meant], "withheld": withheld}
        logger.warning("%s", line, extra={"plugin": "catalog_audit", **facts})


def _report_change(review: Review, changed: Sequence[str]) -> None:
    tool, record = review.tool, review.record or {}
    old, new = record["fingerprint"], review.fingerprint
    if review.approved:
        consequence = "which is approved"
    elif review.withheld:
        consequence = f"so it is withheld; if that is right, add to {_APPROVED}: {_approval(review)}"
    else:
        consequence = "and is used as it is now"
    line = f"tool {quoted(tool.id)} has another {' and '.join(changed)} than when it was recorded at {record.get('recorded')}"
    facts = {"finding": "changed", "tool": tool.id, "changed": list(changed), "old": old, "new": new}
    extra = {"plugin": "catalog_audit", **facts, "withheld": review.withheld}
    level = logging.INFO if review.approved else logging.WARNING
    logger.log(level, "%s (%s -> %s), %s", line, old, new, consequence, extra=extra)


def _approval(review: Review) -> str:
    """The entry of the configuration that approves the tool as it is now."""
    return f"{quoted(review.tool.id)} = {quoted(review.fingerprint)}"


def _details(finding: Finding) -> str:
    return f" ({'; '.join(map(quoted, finding.details[:3]))})" if finding.details else ""


def quoted(text: str) -> str:
    """The text as TOML writes it: in one line, whatever a server has put into its names."""
    return json.dumps(text if len(text) <= 300 else text[:299] + "…")
