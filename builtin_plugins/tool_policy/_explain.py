"""What the policy says of one call, with every rule that has a part in it: for people, who ask with a command."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from builtin_plugins.tool_policy._answers import Explanation, RuleFit, undecidable
from builtin_plugins.tool_policy._compiled import CompiledRule
from builtin_plugins.tool_policy._facts import DoesKinds, Means, Undecidable
from builtin_plugins.tool_policy._lint import would_count
from builtin_plugins.tool_policy._misspelt import Misspelt
from builtin_plugins.tool_policy._rule import GRAVITY, Action, text_of
from hooksdk import Tool
from hooksdk.hooks import BeforeToolCall
from hooksdk.patterns import near_miss


def explain(
    event: BeforeToolCall,
    about_tool: Sequence[CompiledRule],
    rules: Sequence[CompiledRule],
    misspelt: Misspelt | None,
    default: Action,
) -> Explanation:
    """Which rule decides, which others fit, and why the rest does not. `about_tool` are the rules about the call's
    tool and the default, the gravest first."""
    fits: list[RuleFit] = []
    in_doubt: list[RuleFit] = []
    others: list[RuleFit] = []
    for rule in about_tool:
        text = text_of(rule.rule) if rule.number else f'default = "{rule.rule.action}"'
        action, why, place = rule.rule.action, "", fits
        try:
            if not rule.fits_run(event):
                why, place = "it is not about this run (agent, trigger, workspace or requester)", others
            elif rule.rule.limit:
                why, place = "it decides once its limit is reached, which the call alone does not say", others
            elif rule.conditional and (why := rule.why_not(event)):
                doubt = misspelt.doubt(rule, event) if misspelt else ""
                why, place = (doubt, in_doubt) if doubt else (why, others)
            elif action != "allow":
                why = _why(rule, event)
        except (Undecidable, LookupError) as problem:
            action, why = "deny", undecidable(rule, problem)
        place.append(RuleFit(number=rule.number, action=action, text=text, why=why))
    # Of equals the one that surely fits decides; a doubt loosens nothing.
    deciding, *beaten = sorted([*fits[:1], *in_doubt], key=lambda one: GRAVITY[one.action]) or [None]
    beaten += fits[1:]
    return Explanation(
        action=deciding.action if deciding else "allow",
        deciding=deciding,
        also_fit=[one for one in beaten if one and one.number],
        do_not_fit=others,
        near_misses=list(_near_misses(event.tool, rules, default)),
    )


def _why(rule: CompiledRule, event: BeforeToolCall) -> str:
    """What in the call a deny or an ask goes by; empty where it goes by nothing in it."""
    arguments = event.arguments
    whys: list[str] = []
    for folder, written in rule.from_each_folder(event.workspace_dir, arguments, ()):
        conditions = [fact.condition for fact in written if isinstance(fact, Means)]
        whys = [fact.does.why(arguments, event.tool, folder) for fact in written if isinstance(fact, DoesKinds)]
        whys += [condition.why(arguments, folder) for condition in conditions]
        if all(whys):
            break
    return "; ".join(why for why in (*whys, rule.reading.why(event)) if why)


def _near_misses(tool: Tool, rules: Sequence[CompiledRule], default: Action) -> Iterator[RuleFit]:
    for rule in rules:
        pattern = rule.near_miss(tool)
        if pattern is not None and would_count(rule, tool, rules, default):
            why = near_miss(pattern, [tool.id], exact=rule.exact)
            yield RuleFit(number=rule.number, action=rule.rule.action, text=text_of(rule.rule), why=why)
