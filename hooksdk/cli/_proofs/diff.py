"""`hooksdk policy diff`: the calls that two versions of a configuration judge differently: a file, a revision of git,
or the folder now. Nothing runs."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from hooksdk.cli._configuration import read_config
from hooksdk.cli._console import CommandProblem, View, warnings_shown
from hooksdk.cli._options import Json, Project
from hooksdk.cli._policy_calls import Judges, judges_of
from hooksdk.cli._proofs.prove import JUDGING, call_lines, shown
from hooksdk.config import PROJECT_FILES, PluginConfig, Source, fold, project_settings, read_project
from hooksdk.errors import ConfigError, HookSDKError, did_you_mean
from hooksdk.host import Plugin, load_plugins
from hooksdk.rules import Action, CallFact, Rules

if TYPE_CHECKING:
    from hooksdk.rules.proofs import Change, RuleOf

_NO_RULES = Rules(())
_WORDS: dict[Action, str] = {"deny": "denied", "ask": "asked about", "allow": "allowed"}


@dataclass(frozen=True)
class Version:
    """One version of a configuration, with the plugins that it loads.

    Attributes:
        plugins: By folded id.
        not_installed: By name, the sections of plugins that are not installed here, such as those of the project's own
            plugins file.
    """

    where: str
    plugins: Mapping[str, Plugin]
    judges: Judges
    not_installed: Mapping[str, PluginConfig]
    plugins_file: bool | str


@dataclass(frozen=True)
class Remark:
    """A difference of a plugin that is not a difference of rules.

    Attributes:
        compared: False where the change may be one that loosens.
    """

    plugin: str
    text: str
    compared: bool


@dataclass(frozen=True)
class PluginChange:
    """One change, with the rules of which it speaks."""

    change: Change
    old: Rules
    new: Rules


def diff(
    old: Annotated[str, typer.Argument(metavar="OLD")],
    new: Annotated[str | None, typer.Argument(metavar="[NEW]")] = None,
    fail_on: Annotated[Literal["loosened", "any"] | None, typer.Option("--fail-on")] = None,
    as_json: Json = False,
    project: Project = Path(),
) -> None:
    """Say which calls two versions of the project's configuration judge differently, with an example for each class of
    calls.

    What is loosened comes first, and where nothing changes nothing is printed. For a review:

    hooksdk policy diff main --fail-on loosened

    Each version counts as it does in a trusted folder, over your own settings. Nothing of the project is run.

    Options:
        old: A TOML file, or a revision of git: HEAD~1, main, main:path/hooksdk.toml.
        new: The same; by default what stands here now.
        fail_on: Exit with 1 where something is loosened, or where anything changes.
    """
    with warnings_shown():
        before, after = (read_version(one, project) for one in (old, new))
        remarks, changes = compare(before, after)
    view = View(
        {
            "old": before.where,
            "new": after.where,
            "changes": [_as_json(one) for one in changes],
            "remarks": [asdict(remark) for remark in remarks],
        },
        wraps=True,
    )
    for remark in remarks:
        view.line("plugin", f"{remark.plugin}: {remark.text}", "yellow")
    for one in changes:
        _tell(view, one)
    view.show(as_json=as_json)
    loosened = any(one.change.is_loosened for one in changes) or not all(one.compared for one in remarks)
    if loosened if fail_on == "loosened" else fail_on and (changes or remarks):
        raise typer.Exit(1)


def compare(before: Version, after: Version) -> tuple[list[Remark], list[PluginChange]]:
    """The differences of two versions, loosened calls first. Raises `CommandProblem` without the solver."""
    remarks: list[Remark] = []
    changes: list[PluginChange] = []
    for folded in sorted({*before.plugins, *after.plugins}):
        old, new = (version.plugins.get(folded) for version in (before, after))
        plugin_id, hooks = next((one.id, one.hooks) for one in (new, old) if one is not None)
        states = [_state(version, folded) for version in (before, after)]
        said = [version.judges.described.get(plugin_id) for version in (before, after)]
        silent = any(state == _HERE and rules is None for state, rules in zip(states, said, strict=True))
        if any(rules is not None for rules in said) and not silent:
            if states[0] != states[1]:
                remarks.append(Remark(plugin_id, f"{states[0]} before, {states[1]} now", compared=True))
            changes += _changes(plugin_id, *(_NO_RULES if rules is None else rules for rules in said))
        elif not JUDGING.isdisjoint(hooks):
            if states[0] != states[1]:
                remarks.append(Remark(plugin_id, f"{states[0]} before, {states[1]} now. {_SILENT}", compared=False))
            elif old and new and (old.config, old.grants) != (new.config, new.grants):
                remarks.append(Remark(plugin_id, f"its settings differ. {_SILENT}", compared=False))
    for name in sorted({*before.not_installed, *after.not_installed}):
        if before.not_installed.get(name) != after.not_installed.get(name):
            text = "its section differs. Not compared, since the plugin is not installed here"
            remarks.append(Remark(name, text, compared=False))
    if before.plugins_file != after.plugins_file:
        text = "the setting differs. Not compared, since nothing of the project is run"
        remarks.append(Remark("plugins_file", text, compared=False))
    return remarks, sorted(changes, key=lambda one: not one.change.is_loosened)


_HERE = "in force"
_SILENT = "Not compared, since it does not describe its rules"


def _state(version: Version, folded: str) -> str:
    plugin = version.plugins.get(folded)
    if plugin is None:
        return "not loaded"
    return "in shadow mode" if plugin.id in version.judges.shadowed else _HERE


def _changes(plugin: str, old: Rules, new: Rules) -> list[PluginChange]:
    if (old.rules, old.default) == (new.rules, new.default):
        return []
    try:
        from hooksdk.rules.proofs import Unknown, changes
    except ModuleNotFoundError:
        raise CommandProblem("comparing rules needs the package 'z3-solver': pip install 'hooksdk[prove]'") from None
    try:
        return [PluginChange(one, old, new) for one in changes(old, new, plugin=plugin)]
    except Unknown as error:
        raise CommandProblem(f"the rules of {plugin} cannot be compared: {error}") from None


def _words(rule: RuleOf, rules: Rules) -> str:
    """The rule as it is written."""
    if not rule.number:
        return f'default = "{rules.default}"' if rules != _NO_RULES else "the plugin judges nothing"
    return next(one.words for one in rules.rules if one.number == rule.number)


def _conditions(one: PluginChange) -> Iterator[tuple[CallFact, bool, str]]:
    """The facts that the example depends on, whether each holds, and which version's it is where both have one in these
    words."""
    facts = one.change.depends_on
    words = [fact.in_words() for fact in facts]
    for fact, holds in facts.items():
        is_old, is_new = (any(fact in rule.facts for rule in rules.rules) for rules in (one.old, one.new))
        alike = words.count(fact.in_words()) > 1 and is_old != is_new
        yield fact, holds, ("old" if is_old else "new") if alike else ""


def _as_json(one: PluginChange) -> dict[str, Any]:
    change = one.change
    example = shown(change.example)
    del example["facts"]
    return {
        "plugin": change.old_rule.plugin,
        "loosened": change.is_loosened,
        "old": {"action": change.old, "rule": change.old_rule.number, "text": _words(change.old_rule, one.old)},
        "new": {"action": change.new, "rule": change.new_rule.number, "text": _words(change.new_rule, one.new)},
        "example": example,
        "depends_on": [
            {"fact": fact.in_words(), "holds": holds, "of": whose or None} for fact, holds, whose in _conditions(one)
        ],
    }


def _tell(view: View, one: PluginChange) -> None:
    change = one.change
    head = ("loosened", "red") if change.is_loosened else ("tightened", "green")
    text = f"{change.old_rule.plugin}: {_WORDS[change.old]} before, {_WORDS[change.new]} now"
    view.line(head[0], text, head[1])
    for label, rule, rules in (("  before", change.old_rule, one.old), ("  now", change.new_rule, one.new)):
        number = f"rule {rule.number}: " if rule.number else ""
        view.line(label, f"{number}{_words(rule, rules)}")
    for label, text in call_lines({**shown(change.example), "facts": ()}):
        view.line(f"  {label}", text)
    for fact, holds, whose in _conditions(one):
        of = f" (as the {whose} rules take it)" if whose else ""
        view.line("  where", f"{fact.in_words()} {'holds' if holds else 'does not hold'}{of}")


def read_version(text: str | None, project: Path) -> Version:
    """The version in a file or a revision, or in the folder now where `text` is None. It counts as in a trusted folder,
    over the user's own settings. Raises `ConfigError` for what is wrong in it, and `CommandProblem` where there is no
    such version."""
    return load_version(read_project(project) if text is None else _source(text, project), project)


def load_version(source: Source, project: Path) -> Version:
    """The version that has these settings. Raises `ConfigError`."""
    config, _ = read_config(folder=project, project=source)
    trusting = config.model_copy(update={"plugins_file": False})
    try:
        plugins, _ = load_plugins((), trusting, folder=project, on_refusal=_raise)
        known = [plugin.id for plugin in plugins]
        not_installed = {name: one for name, one in config.plugins.items() if fold(name) not in set(map(fold, known))}
        for name in not_installed:
            if hint := did_you_mean(name, known):
                raise ConfigError("configuration", (f"'plugins.{name}': no such plugin is installed.{hint}",))
    except ConfigError as error:
        raise ConfigError(f"{source.where}: {error.where}", error.problems) from None
    loaded = {fold(plugin.id): plugin for plugin in plugins if plugin.loaded}
    return Version(source.where, loaded, judges_of(plugins, config), not_installed, config.plugins_file)


def _raise(plugin: Plugin, error: HookSDKError) -> None:  # noqa: ARG001 - as `load_plugins` calls it
    raise error


def _source(text: str, project: Path) -> Source:
    path = Path(text)
    if path.is_file():
        try:
            content = path.read_bytes()
        except OSError as error:
            raise ConfigError(text, (f"cannot be read: {error.strerror}",)) from None
        return _settings(content, text) or Source(text, {})
    revision, colon, name = text.partition(":")
    commit = _git(project, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")
    if commit is None or not revision:
        raise CommandProblem(
            f"'{text}' is neither a file nor a revision of git; write such as hooksdk.toml, HEAD~1 or main:hooksdk.toml"
        )
    for each in [name] if colon else [f"./{file}" for file in PROJECT_FILES]:
        content = _git(project, "cat-file", "blob", f"{commit.decode().strip()}:{each}")
        where = f"{revision}:{each.removeprefix('./')}"
        if content is not None and (source := _settings(content, where)) is not None:
            return source
    if colon:
        raise CommandProblem(
            f"{text}: the revision has no such file with settings; a path counts from the top of the repository"
        )
    return Source(f"{revision}:{PROJECT_FILES[0]}", {})  # before the project had any


def _settings(content: bytes, where: str) -> Source | None:
    try:
        return project_settings(content.decode("utf-8"), where)
    except UnicodeDecodeError as error:
        raise ConfigError(where, (f"is not TOML: {error}",)) from None


def _git(project: Path, *words: str) -> bytes | None:
    """The output of git in the folder; None where git fails."""
    try:
        command = ["git", "-C", str(project), *words]  # git's own words alone
        done = subprocess.run(command, check=False, capture_output=True, stdin=subprocess.DEVNULL)  # noqa: S603 - see above
    except OSError as error:
        raise CommandProblem(
            f"a revision needs git, which cannot be run: {error.strerror}. A file needs none"
        ) from None
    return done.stdout if done.returncode == 0 else None
