"""Whether a newer version of a configuration may loosen what an older one says."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from hooksdk.config import Config, Merged, NamedFile, PluginConfig, fold
from hooksdk.errors import ConfigError
from hooksdk.guard._versions import Version
from hooksdk.host import Plugin, installed_plugins, look_at
from hooksdk.rules import Rules
from hooksdk.values import is_object

# What a comparison of rules may cost, as `hooksdk.rules.proofs` counts it: about a second.
STEPS = 20_000_000
# Settings that the judge does not read, and the sections, which are compared one by one.
_UNREAD = ("gateway", "mcp", "policy", "plugins")


def loosened(before: Version, after: Version) -> str:
    """The first of `loosenings`; empty where there is none."""
    return next(loosenings(before, after), "")


def loosenings(before: Version, after: Version) -> Iterator[str]:
    """What of the newer version may loosen the older one, in words; nothing where surely nothing does. Raises
    `ConfigError`."""
    for path, digest in before.files.items():
        if NamedFile("", Path(path)).digest != digest:
            yield f"{path} has changed"
    if before.has(after):
        return
    halves = (before.user, after.user), (before.project, after.project)
    where = " and ".join(one["where"] for old, one in halves if old != one)
    for path in after.files:
        if path not in before.files:
            yield f"{where}: {path} would count"
    try:
        (old, old_merged), (new, new_merged) = before.read(), after.read()
    except ConfigError as error:
        yield str(error).rstrip(".")
        return
    for name in Config.model_fields:
        if name not in _UNREAD and getattr(old, name) != getattr(new, name):
            yield f"{where}: '{name}' is another"
    for folded in sorted({fold(name) for config in (old, new) for name in config.plugins}):
        is_same = _said(folded, old, old_merged) == _said(folded, new, new_merged)
        if not is_same:
            yield from (f"{where}: {reason}" for reason in _plugin_loosened(folded, old, new))


def _said(folded: str, config: Config, merged: Merged) -> object:
    """All by which a plugin is loaded and set up."""
    section, own = config.plugin(folded), merged.own_settings.get(folded)
    switches = folded in merged.unconfirmed, folded in merged.switched_off
    return section and section.model_dump(), own and replace(own, project=replace(own.project, digests={})), switches


@dataclass(frozen=True)
class _Judging:
    """What a plugin says of calls.

    Attributes:
        written: The rules as they stand in the settings.
        rest: All other settings.
    """

    rules: Rules
    written: Sequence[object] = ()
    rest: Sequence[object] = ([], {}, {})


def _plugin_loosened(folded: str, old: Config, new: Config) -> Iterator[str]:
    before, after = (_judging(folded, config) for config in (old, new))
    if before is None or after is None or before.rest != after.rest:
        yield f"the settings of plugin '{folded}' are others"
        return
    missing = [*after.written]
    for rule in before.written:
        if rule not in missing:
            break
        missing.remove(rule)
    else:
        known = [(one.action, one.facts) for one in before.rules.rules]
        added = [one.action for one in after.rules.rules if (one.action, one.facts) not in known]
        stops = ("deny",) if after.rules.default == "deny" else ("deny", "ask")
        if before.rules.default == after.rules.default and all(action in stops for action in added):
            return
    if any(is_object(rule) and rule.get("limit") for rule in before.written if rule not in after.written):
        yield f"a rule with a limit is another in plugin '{folded}', and would count anew"
        return
    try:
        from hooksdk.rules.proofs import Unknown, changes
    except ModuleNotFoundError:
        yield f"more than an added deny or ask has changed in plugin '{folded}'"
        return
    words = {one.number: one.words for one in before.rules.rules}
    try:
        for change in changes(before.rules, after.rules, budget=STEPS):
            if change.is_loosened:
                rule = words.get(change.old_rule.number, "its default")
                yield f"plugin '{folded}' would say {change.new} where it says {change.old} ({rule})"
    except Unknown:
        yield f"the rules of plugin '{folded}' take too long to compare"


def _judging(folded: str, config: Config) -> _Judging | None:
    """What a built-in plugin says of calls; None for one that does not tell, and for those of others."""
    plugin = next(filter(partial(_is_built_in, folded), installed_plugins(config)), None)
    if plugin is None:
        return None
    section = config.plugin(folded) or PluginConfig()
    if not plugin.loaded or section.mode == "shadow":
        return _Judging(Rules(()))
    look_at(plugin, config)
    if plugin.refusal is not None:
        raise plugin.refusal
    describe = getattr(plugin.holder, "describe_rules", None)
    if describe is None:
        return None
    settings = plugin.config.model_dump(mode="json", exclude_unset=True)
    written, _ = settings.pop("rules", []), settings.pop("default", None)  # what the description says
    return _Judging(describe(plugin.config), written, (section.grants, section.timeouts, settings))


def _is_built_in(folded: str, plugin: Plugin) -> bool:
    return plugin.origin == "built-in" and fold(plugin.id) == folded
