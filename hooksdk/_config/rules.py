"""What a project's file may do to each setting: the table `SETTINGS`, and the functions that it names."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hooksdk._config.sources import fold, split_store
from hooksdk._config.trust import plugins_path, resolve


@dataclass(frozen=True)
class Remark:
    """One entry of the project's file that does not simply count."""

    entry: str
    value: Any
    why: str


@dataclass
class Situation:
    """One project beside its operator, and what is remarked on while its settings are looked at.

    Attributes:
        folder: Resolved.
        named: The plugins that the operator configured or allowed, by folded id.
        widening: Settings that count only where the folder is trusted.
        overruled: Settings that do not count even there, since the operator's own setting holds.
        switched_off: Folded ids of the plugins that the project alone, without trust, switches off.
    """

    folder: Path
    trusted: bool
    named: Mapping[str, str]
    widening: list[Remark] = field(default_factory=list[Remark])
    overruled: list[Remark] = field(default_factory=list[Remark])
    switched_off: set[str] = field(default_factory=set[str])


@dataclass
class Setting:
    """One setting that the project's file has.

    Attributes:
        own: The user's value; None where their file does not have it. (TOML has no null.)
        plugin: The folded id, for settings of one plugin.
    """

    entry: str
    project: Any
    own: Any
    here: Situation
    plugin: str = ""

    def may_widen(self, why: str, value: Any = None) -> bool:
        """True where the folder is trusted; it is remarked on either way."""
        self.here.widening.append(Remark(self.entry, self.project if value is None else value, why))
        return self.here.trusted

    def overrule(self, why: str) -> Any:
        """The user's value, which holds even where the folder is trusted."""
        self.here.overruled.append(Remark(self.entry, self.project, why))
        return self.own


# The value that counts after the project's file, which has the setting; None: none.
Rule = Callable[[Setting], Any]


def _store(setting: Setting) -> Any:
    kind, folder = split_store(setting.project)
    if not folder:
        return kind
    if kind == "postgresql":
        return setting.project if setting.may_widen("sessions would be kept on a server") else setting.own
    place = resolve(setting.here.folder / folder)
    mark = "sqlite:///" if kind == "sqlite" else "jsonl:"
    # Inside as well: a repository may bring a store in which questions are answered already, and calls judged.
    why = f"sessions and the answers to approvals would be kept in {place}, and what is there already would count"
    return f"{mark}{place}" if setting.may_widen(why) else setting.own


def _plugins_file(setting: Setting) -> Any:
    here = setting.here
    if setting.own is False or (isinstance(setting.own, str) and Path(setting.own).is_absolute()):
        return setting.own if setting.own == setting.project else setting.overrule("the user's file says otherwise")
    if setting.project is False:
        return False
    path = plugins_path(here.folder, setting.project)
    if not path.is_relative_to(here.folder):
        return setting.overrule("a project's plugins file must lie in its folder; the user's file may name any")
    return setting.project if setting.may_widen(f"runs {path} in your process") else setting.own


def _mcp(setting: Setting) -> Any:
    # Each file inside needs trust at its content, besides: `hooksdk.cli._mcp.files`. A link inside stays one until
    # then.
    names: list[str] = [setting.project] if isinstance(setting.project, str) else setting.project
    places = [str(setting.here.folder / Path(name).expanduser()) for name in names]
    why = "the commands would start the MCP servers that these files name"
    return places if not places or setting.may_widen(why) else setting.own


def _allow(setting: Setting) -> Any:
    if setting.own is not None:
        same = set(map(fold, setting.own)) == set(map(fold, setting.project))
        return setting.project if same or setting.may_widen("the user's file has an allow list") else setting.own
    missing = _without(setting.here.named.values(), setting.project)
    if missing and not setting.may_widen(f"leaves out {', '.join(missing)}, which you configured"):
        return [*setting.project, *missing]
    return setting.project


def _deny(setting: Setting) -> Any:
    own = list(setting.own or ())
    more = _without(setting.project, own)
    named = [name for name in more if fold(name) in setting.here.named]
    if named and not setting.may_widen("switches off what you configured", named):
        more = _without(more, named)
    if not setting.here.trusted:
        setting.here.switched_off.update(map(fold, more))
    return own + more


def _strict_is(strict: str, why: str) -> Rule:
    """The rule of a setting with one strict value, which always counts; any other one widens."""

    def settled(setting: Setting) -> Any:
        counts = setting.project in (strict, setting.own) or setting.may_widen(why)
        return setting.project if counts else setting.own

    return settled


def _laid_over(why: str) -> Rule:
    """The rule of a table that widens: it is laid over the user's."""

    def settled(setting: Setting) -> Any:
        own: dict[str, Any] = setting.own or {}
        return {**own, **setting.project} if setting.may_widen(why) else setting.own

    return settled


def _record_first(setting: Setting) -> Any:
    why = "calls would run that nobody has written down"
    return setting.project if setting.project or not setting.own or setting.may_widen(why) else setting.own


def _enabled(setting: Setting) -> Any:
    if setting.project:
        return setting.overrule("the user's file says otherwise") if setting.own is False else True
    if setting.own is not False and setting.plugin in setting.here.named:
        return False if setting.may_widen("switches off what you configured") else setting.own
    if not setting.here.trusted:
        setting.here.switched_off.add(setting.plugin)
    return False


def _grants(setting: Setting) -> Any:
    own: list[str] = list(setting.own or ())
    more = [grant for grant in setting.project if grant not in own]
    return own + more if more and setting.may_widen("a right that the plugin would have", more) else own


def _policy(setting: Setting) -> Any:
    # Each file has properties of its own; of two with one name the user's holds.
    tables: list[dict[str, Any]] = [setting.project, setting.own or {}]
    properties = {name: one for table in tables for name, one in table.get("properties", {}).items()}
    return {**tables[0], **tables[1], "properties": properties}


def _without(names: Any, others: Sequence[str]) -> list[str]:
    folded = set(map(fold, others))
    return [name for name in names if fold(name) not in folded]


_timeouts = _laid_over("a handler that has too little time is left out, and one without a limit may hang")
# How a project's settings meet the user's. What neither stands here nor is a plugin's section widens.
SETTINGS: dict[str, Rule] = {
    "store": _store,  # widens, but "memory" and the user's state folder do not
    "plugins_file": _plugins_file,  # widens; the user's false holds
    "mcp": _mcp,  # widens, but no file at all narrows
    "allow": _allow,  # widens, but narrows where the user has no list and configured nothing that it leaves out
    "deny": _deny,  # adds up, but widens for plugins that the operator configured
    "on_missing_grant": _strict_is(
        "refuse", "a policy without its grant would be left out, instead of stopping the host"
    ),
    "record_first": _record_first,  # widens, but true narrows
    "drain": lambda setting: setting.project,
    "timeouts": _timeouts,
    "gateway": _laid_over("says who may use which tools of the gateway"),
    "guard": lambda setting: setting.overrule("it is about all projects, so it stands in the user's file"),
    "policy": _policy,
    "sessions": _laid_over("sessions would be removed"),
    "prices": _laid_over("what runs cost, and any limit in money, would be reckoned with these"),
}
# The same for `[plugins.ID]`. The plugin's own settings, `config`, are in `own_settings.py`: only the plugin knows what
# they mean.
PLUGIN_SETTINGS: dict[str, Rule] = {
    "enabled": _enabled,  # adds up: the user's false holds; false widens for plugins that the operator configured
    "grants": _grants,  # widens: added to the user's
    "mode": _strict_is("enforce", "its policies would have no effect"),  # also one that code gives, which nobody names
    "timeouts": _timeouts,
}


def settle(table: Mapping[str, Rule], name: str, setting: Setting) -> Any:
    """The value that counts for a setting of the project's file; None: none."""
    if name in table:
        return table[name](setting)
    return setting.project if setting.may_widen("may widen") else setting.own
