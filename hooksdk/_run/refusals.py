"""What a model reads in the place of a result when its call is not run."""

from __future__ import annotations

from hooksdk.approvals import Approval
from hooksdk.catalog import Catalog
from hooksdk.errors import SessionBusy, StoreError
from hooksdk.values import clip

# Owners that cannot be called now, and that a refusal names.
_MOST_NAMED = 5


def no_such_tool(name: str, catalog: Catalog, call_hint: str) -> str:
    """Nothing in the catalog has this name: why, in words that make the next attempt right."""
    if name in catalog.withheld:
        return f"'{name}' was not run: it is withheld from this run ({catalog.withheld[name]}). Do not retry."
    if sharing := catalog.sharing(name):
        return f"'{name}' was not run: several tools have this name. Call one of {', '.join(sharing)}."
    near = catalog.suggest(name)
    advice = f" Did you mean {' or '.join(near)}?" if near else ""
    if name in catalog.removed_names:
        return f"'{name}' was not run: there is no such tool any more. Do not retry.{advice}"
    if not near and call_hint:
        advice = f" There are tools that are not shown to you. {call_hint}"
    away = [f"{clip(owner, 60)} ({clip(reason, 200)})" for owner, reason in list(catalog.missing.items())[:_MOST_NAMED]]
    if away:
        more = f"; {len(catalog.missing) - len(away)} more" if len(catalog.missing) > len(away) else ""
        advice = f" Not available now: {'; '.join(away)}{more}.{advice}"
    return f"'{clip(name, 200)}' was not run: there is no such tool.{advice}"


def granted_no_more(name: str, reason: str) -> str:
    """The tool was withheld after its call was judged."""
    return f"'{name}' was not run: it has been withheld from this run meanwhile ({reason}). Do not retry."


def definition_changed(name: str) -> str:
    """The tool was defined anew after its call was judged."""
    return f"'{name}' was not run: its definition has changed since this call was judged. Call it again."


def bridge_not_unwrapped(name: str) -> str:
    """A bridge tool that only stands for other calls, and no plugin turned it into one."""
    return f"'{name}' was not run: it is not offered to you now. Call the tools that are, each by its own name."


def bridge_failed(name: str, problem: object) -> str:
    """The plugin that unwraps this call failed."""
    return f"'{name}' failed: {problem}"


def too_deep(name: str, depth: int) -> str:
    """Tools called tools too deep."""
    return f"'{name}' was not run: tools may call tools {depth} deep."


def arguments_unreadable(name: str, problem: object) -> str:
    """The arguments are not one JSON object."""
    return f"'{name}' was not run. {problem}"


def blocked(plugin: str, reason: str) -> str:
    """A policy blocked the call."""
    return f"Blocked by {plugin}: {reason}"


def not_recorded(name: str) -> str:
    """The host runs nothing whose decision is not written, and it could not be."""
    return f"'{name}' was not run: this host records each call before it runs, and this one could not be recorded. Nothing was done."


def policy_failed(plugin: str) -> str:
    """A policy that cannot judge lets nothing through. The model learns whose it is; the log has the details."""
    return f"Blocked: plugin '{plugin}' failed while it judged this call, so it was not run."


def arguments_changed(name: str) -> str:
    """A policy changed the arguments that the others judged."""
    return f"Blocked: the arguments of '{name}' were changed while they were judged, so it was not run."


def approval_refused(title: str, approval: Approval) -> str:
    """A person said no, or could not be asked."""
    nobody = approval.unanswered and f"nobody answered ({approval.unanswered.replace('_', ' ')})"
    return f"Blocked: '{title}' was not approved: {approval.reason or nobody or 'a person said no'}"


CANNOT_WAIT = "its answer comes later, and a call that another tool makes cannot wait"
NOT_JSON = "its answer comes later, and its arguments cannot be kept until then: they are not JSON"


def no_secret_value(names: list[str]) -> str:
    """The arguments hold placeholders that nobody can fill."""
    return f"Blocked: no plugin gives a value for {', '.join(names)}"


def secret_not_kept(name: str) -> str:
    """Whoever runs the tool shows its arguments to others."""
    return f"Blocked: '{name}' runs where others read its arguments, so no secret is filled in. Call it without one"


def no_executor(name: str) -> str:
    """The host gave the tool without a way to run it."""
    return f"'{name}' cannot be run here: it has no executor."


MAY_HAVE = " It may have taken effect: look before you call it again."


def too_late(name: str, seconds: float, *, in_doubt: bool = False) -> str:
    """The tool missed its time limit."""
    return f"'{name}' did not finish within {seconds:g} s and was stopped.{MAY_HAVE if in_doubt else ''}"


def tool_cancelled(name: str) -> str:
    """The tool raised a cancellation that nobody asked for."""
    return f"'{name}' failed: it was cancelled from inside"


def cannot_pause(name: str) -> str:
    """The tool waits for an approval of its own, inside another tool's call."""
    return f"'{name}' was not finished: it waits for an approval, and a call that another tool makes cannot wait."


def tool_failed(name: str, problem: str) -> str:
    """The tool raised."""
    return f"'{name}' failed: {problem}"


def result_withheld(plugin: str) -> str:
    """A redactor failed, so its result is not shown."""
    return f"The result is withheld: {plugin} could not check it."


def interrupted(name: str, error: BaseException, *, ran: bool, in_doubt: bool = False) -> str:
    """The call was cut off by a cancellation, or by an error of the host; perhaps before its tool ran, as while a
    person was asked."""
    if not ran and isinstance(error, (StoreError, SessionBusy)):
        return f"'{name}' was not run: it could not be written down that it begins."
    how = (
        "failed inside the host"
        if isinstance(error, Exception)
        else f"was cancelled {'while' if ran else 'before'} it ran"
    )
    return f"'{name}' {how}.{MAY_HAVE if in_doubt else ''}"


def no_records(name: str) -> str:
    """The call was judged, and a record of its run could not be written meanwhile."""
    return f"'{name}' was not run: records of this run cannot be written, so it takes no further call."


def not_run_at_end(name: str) -> str:
    """The call was judged, and its run ended before anybody executed it or gave a result."""
    return f"'{name}' was not run: its run ended first."
