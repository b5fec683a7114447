"""Trust is of bytes: what is looked at is what runs and what is read, of every file that a trusted folder's settings name."""

from __future__ import annotations

import importlib.util
import inspect
import os
import py_compile
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from commands import COMMAND, environment
from test_trust import RUNS, Desk, statuses

from hooksdk.cli._edits.configuration import record_trust
from hooksdk.cli._mcp.files import project_files, servers_files
from hooksdk.config import read_config, user_file
from hooksdk.errors import ConfigError, PluginRefused
from hooksdk.gateway import GatewayConfig
from hooksdk.host import plugins_at

pytestmark = pytest.mark.anyio

CLEAN = "from hooksdk import hooks\n\n\n@hooks.after_tool_call\ndef see(event): ...\n"
EVIL = "from pathlib import Path\nPath('ran').touch()\n" + CLEAN


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    (tmp_path / "repository").mkdir()
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "xdg"))
    monkeypatch.chdir(tmp_path / "repository")
    return Desk(tmp_path / "xdg", tmp_path / "repository")


@pytest.fixture(autouse=True)
def forgetting(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What is imported here is forgotten."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    known = {**sys.modules}
    yield
    for name in set(sys.modules) - set(known):
        del sys.modules[name]


Placement = Callable[[Path, Path], None]


def _cached(code: Path, source: Path, mode: py_compile.PycInvalidationMode) -> None:
    py_compile.compile(str(code), str(importlib.util.cache_from_source(source)), invalidation_mode=mode)


def unchecked(code: Path, source: Path) -> None:
    """A pyc that says that nobody needs to look at the source."""
    _cached(code, source, py_compile.PycInvalidationMode.UNCHECKED_HASH)


def checked(code: Path, source: Path) -> None:
    """A pyc with the hash of the clean source, as whoever knows that forges it."""
    _cached(code, source, py_compile.PycInvalidationMode.CHECKED_HASH)
    pyc = Path(importlib.util.cache_from_source(source))
    content = bytearray(pyc.read_bytes())
    content[8:16] = importlib.util.source_hash(source.read_bytes())
    pyc.write_bytes(content)


def dated(code: Path, source: Path) -> None:
    """A pyc with the date and the size of the clean source."""
    _cached(code, source, py_compile.PycInvalidationMode.TIMESTAMP)
    pyc = Path(importlib.util.cache_from_source(source))
    content, status = bytearray(pyc.read_bytes()), source.stat()
    content[8:16] = int(status.st_mtime).to_bytes(4, "little") + status.st_size.to_bytes(4, "little")
    pyc.write_bytes(content)


def legacy(code: Path, source: Path) -> None:
    """A pyc of the old kind, beside the source."""
    py_compile.compile(str(code), str(source.with_suffix(".pyc")))


KINDS = [unchecked, checked, dated, legacy]


@pytest.fixture
def evil(tmp_path: Path) -> Path:
    """Code that nobody has looked at."""
    path = tmp_path / "evil.py"
    path.write_text(EVIL)
    return path


@pytest.mark.parametrize("place", KINDS)
def test_no_pyc_runs_in_the_place_of_a_trusted_plugins_file(place: Placement, desk: Desk, evil: Path) -> None:
    desk.project("plugins_file = true\n")
    desk.plugins_file(CLEAN)
    desk.trust()
    place(evil, desk.repository / "hooksdk_plugins.py")
    assert statuses(desk.host())["hooksdk_plugins"] == "loaded"
    assert not desk.plugins_file_ran


@pytest.mark.parametrize("place", KINDS)
def test_no_pyc_runs_in_the_place_of_a_neighbour_that_the_plugins_file_imports(
    place: Placement, desk: Desk, evil: Path
) -> None:
    package = desk.repository / "rules_of_theirs"
    package.mkdir()
    for file in (package / "__init__.py", package / "inner.py", desk.repository / "neighbour_of_theirs.py"):
        file.write_text(CLEAN)
    desk.project("plugins_file = true\n")
    desk.plugins_file("import neighbour_of_theirs, rules_of_theirs.inner\n" + CLEAN)
    desk.trust()
    for file in (package / "__init__.py", package / "inner.py", desk.repository / "neighbour_of_theirs.py"):
        place(evil, file)
    assert statuses(desk.host())["hooksdk_plugins"] == "loaded"
    assert not desk.plugins_file_ran


@pytest.mark.parametrize("place", KINDS)
@pytest.mark.parametrize("name", ["guard_of_pyc.py", "guards_of_pyc/inner.py", "guards_of_pyc", "guard_of_pyc:see"])
def test_no_pyc_runs_in_the_place_of_a_plugin_that_somebody_names(
    place: Placement, name: str, desk: Desk, evil: Path
) -> None:
    (desk.repository / "guards_of_pyc").mkdir()
    files = [
        desk.repository / one for one in ("guard_of_pyc.py", "guards_of_pyc/__init__.py", "guards_of_pyc/inner.py")
    ]
    for file in files:
        file.write_text(CLEAN)
        place(evil, file)
    assert len(plugins_at(name)) == 1
    assert not desk.plugins_file_ran


def test_no_pyc_runs_where_the_program_has_the_folder_on_its_path_itself(
    desk: Desk, evil: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [str(desk.repository), *sys.path])
    (desk.repository / "guard_first.py").write_text(CLEAN)
    assert importlib.util.find_spec("guard_first") is not None, "Python has looked into the folder before"
    unchecked(evil, desk.repository / "guard_first.py")
    plugins_at("guard_first.py")
    assert not desk.plugins_file_ran


@pytest.mark.heavy
@pytest.mark.parametrize("by", ["-X", "variable"])
def test_no_pyc_runs_out_of_a_tree_of_caches_either(by: str, desk: Desk, evil: Path) -> None:
    source = desk.repository / "guard_prefixed.py"
    source.write_text(CLEAN)
    tree = desk.repository / "caches"
    pyc = tree / source.relative_to("/").with_name("guard_prefixed.cpython-{}{}.pyc".format(*sys.version_info))
    py_compile.compile(str(evil), str(pyc), invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)
    own = {**environment(desk.repository.parent), "XDG_CONFIG_HOME": str(desk.xdg)}
    python, *rest = COMMAND
    if by == "-X":
        python, rest = python, ["-X", f"pycache_prefix={tree}", *rest]
    else:
        own["PYTHONPYCACHEPREFIX"] = str(tree)
    command = [python, *rest, "plugins", "list", "--plugin", "guard_prefixed.py"]
    done = subprocess.run(command, cwd=desk.repository, env=own, check=True, capture_output=True, text=True)
    assert "guard_prefixed" in done.stdout
    assert not desk.plugins_file_ran


def test_packages_that_are_installed_below_the_folder_are_imported_as_ever(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = desk.repository / ".venv" / "site-packages"
    (site / "installed_below").mkdir(parents=True)
    for name in ("__init__.py", "inner.py"):
        (site / "installed_below" / name).write_text("")
    monkeypatch.setattr(sys, "path", [str(site), *sys.path])
    desk.plugins_file("import installed_below.inner as below\n" + CLEAN)
    (module,) = plugins_at("hooksdk_plugins.py")
    assert Path(module.below.__cached__).is_file()
    assert not (desk.repository / "__pycache__").exists(), "of the project's own files none is written"


def test_tracebacks_and_the_source_of_such_files_are_there(desk: Desk) -> None:
    desk.project("plugins_file = true\n")
    desk.plugins_file(CLEAN + "\n\ndef fail():\n    raise ValueError('here')  # a comment\n")
    desk.trust()
    module = next(plugin.holder for plugin in desk.host().plugins if plugin.id == "hooksdk_plugins")
    assert "def see(event)" in inspect.getsource(module.see)
    assert inspect.getsourcefile(module) == str(desk.repository / "hooksdk_plugins.py")
    with pytest.raises(ValueError) as raised:
        module.fail()
    assert "raise ValueError('here')  # a comment" in "".join(traceback.format_exception(raised.value))


def test_code_that_changes_between_the_look_and_the_import_does_not_run(desk: Desk) -> None:
    desk.project("plugins_file = true\n")
    desk.plugins_file(CLEAN)
    desk.trust()
    config = desk.load()
    desk.plugins_file(RUNS)
    with pytest.raises(ConfigError, match=r"hooksdk_plugins\.py: has changed since you trusted it"):
        desk.host(config=config)
    assert not desk.plugins_file_ran


def test_code_that_changes_after_it_was_digested_and_before_it_is_compiled_does_not_run(desk: Desk) -> None:
    # A trusted ranker is imported late, by a plugin: the plugins file of the same folder swaps it before.
    swap = "from pathlib import Path\nPath('late_ranker.py').write_text(\"from pathlib import Path\\nPath('ran').touch()\\n\")\n"
    desk.plugins_file(swap + CLEAN)
    (desk.repository / "late_ranker.py").write_text(
        "from builtin_plugins.tool_search.rankers import Bm25Ranker as make\n"
    )
    desk.project("plugins_file = true\n[plugins.tool_search.config]\nranker = 'late_ranker:make'\n")
    desk.trust()
    with pytest.raises(ConfigError, match=r"late_ranker\.py: has changed since you trusted it"):
        desk.host()
    assert not desk.plugins_file_ran


def test_a_file_that_is_no_source_is_no_plugins_file(desk: Desk, evil: Path) -> None:
    py_compile.compile(str(evil), str(desk.repository / "plugins.pyc"))
    desk.project('plugins_file = "plugins.pyc"\n')
    desk.trust()
    with pytest.raises(PluginRefused, match=r"plugins\.pyc is no Python file"):
        desk.host()
    with pytest.raises(PluginRefused, match=r"plugins\.pyc is no Python file"):
        plugins_at("./plugins.pyc")
    assert not desk.plugins_file_ran


# Files that settings name


RANKER = "from builtin_plugins.tool_search.rankers import Bm25Ranker as make\n"
TOKEN = "0123456789abcdef"
OUTSIDE = "../shared_by_all"
NAMING: dict[str, tuple[str, str, str]] = {
    "a word list": ("[plugins.tool_search.config]\nvocabulary = 'terms.json'\n", "terms.json", '{"pager": ["incident"]}'),
    "a word list outside": (
        f"[plugins.tool_search.config]\nvocabulary = '{OUTSIDE}.json'\n", f"{OUTSIDE}.json", '{"pager": ["incident"]}',
    ),
    "a ranker": ("[plugins.tool_search.config]\nranker = 'their_ranker:make'\n", "their_ranker.py", RANKER),
    "a ranker in src": ("[plugins.tool_search.config]\nranker = 'their_ranker:make'\n", "src/their_ranker.py", RANKER),
    "a file with a secret": (
        "[plugins.secrets.config]\nredact = false\n[plugins.secrets.config.secrets.KEY]\nfrom = 'file'\npath = 'keys.json'\ntools = '*'\n",
        "keys.json", '{"KEY": "abc"}',
    ),
    "a token file": ("[gateway.tokens.ann]\nfile = 'ann.token'\n", "ann.token", TOKEN),
    "a file of a stranger's plugin": ("[plugins.guard.config]\nlists = {blocked = ['blocked.txt']}\n", "blocked.txt", "rm"),
}  # fmt: skip
WIDENS = '[plugins.reader]\ngrants = ["conversation"]\n'


def write(desk: Desk, name: str, text: str) -> Path:
    path = desk.repository / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    return path


@pytest.mark.parametrize("case", NAMING)
def test_a_file_that_a_trusted_setting_names_is_trusted_at_its_content(case: str, desk: Desk) -> None:
    settings, name, content = NAMING[case]
    path = write(desk, name, content)
    desk.project(settings + WIDENS)
    desk.trust()
    assert read_config(folder=desk.repository)[1].trust.state == "trusted"
    path.write_text(content + "\n")
    assert read_config(folder=desk.repository)[1].trust.state == "changed"
    assert "reader" not in desk.load().plugins or desk.load().plugins["reader"].grants == []
    path.write_text(content)
    assert read_config(folder=desk.repository)[1].trust.state == "trusted"
    path.unlink()
    assert read_config(folder=desk.repository)[1].trust.state == "changed"


@pytest.mark.parametrize("case", NAMING)
def test_such_a_file_is_shown_with_its_path(case: str, desk: Desk) -> None:
    settings, name, content = NAMING[case]
    path = write(desk, name, content).resolve()
    desk.project(settings)
    remarks = {remark.value: remark.why for remark in read_config(folder=desk.repository)[1].named_files()}
    assert remarks == {
        str(path): "this file counts as it is now"
        + (", and lies outside of the folder" if name.startswith("..") else "")
    }


@pytest.mark.heavy
def test_trust_shows_the_files_and_those_that_are_missing(desk: Desk) -> None:
    write(desk, "terms.json", "{}")
    desk.project(
        "mcp = ['nowhere.json']\n[plugins.tool_search.config]\nvocabulary = 'terms.json'\n"
        "[plugins.secrets.config.secrets.KEY]\nfrom = 'file'\npath = '../gone.json'\ntools = '*'\n"
    )
    out = desk.command("trust", "--yes").out
    assert (
        f'plugins.tool_search.config.vocabulary = "{desk.repository}/terms.json"  this file counts as it is now' in out
    )
    assert (
        f'plugins.secrets.config.secrets.KEY.path = "{desk.repository.parent}/gone.json"  there is no such file that'
        in out
    )
    assert f'mcp = "{desk.repository}/nowhere.json"  there is no such file' in out


def test_a_file_that_appears_after_the_trust_is_a_change(desk: Desk) -> None:
    desk.project("[plugins.guard.config]\nlist = 'blocked.txt'\n" + WIDENS)
    desk.trust()
    write(desk, "blocked.txt", "")
    assert read_config(folder=desk.repository)[1].trust.state == "changed"


@pytest.mark.parametrize(
    "settings",
    [
        "[plugins.trace_file.config]\npath = 'out.txt'\n",
        "store = 'sqlite:///out.txt'\n",
        "[[plugins.tool_policy.config.rules]]\naction = 'deny'\ntools = 'write_file'\narguments = {path = 'out.txt'}\n",
    ],
)
def test_what_is_written_and_what_is_only_spoken_of_is_no_part_of_the_trust(settings: str, desk: Desk) -> None:
    write(desk, "out.txt", "")
    desk.project(settings + WIDENS)
    desk.trust()
    write(desk, "out.txt", "more")
    assert read_config(folder=desk.repository)[1].trust.state == "trusted"


def test_nothing_that_a_stranger_s_settings_name_is_read_before_the_folder_is_trusted(desk: Desk) -> None:
    pipe = desk.repository / "pipe.json"
    os.mkfifo(pipe)
    desk.project(f"[plugins.tool_search.config]\nvocabulary = '{pipe}'\n" + WIDENS)
    assert read_config(folder=desk.repository)[1].trust.state == "unknown"
    desk.trust()
    assert read_config(folder=desk.repository)[1].trust.state == "trusted"


def test_what_0_2_0_trusted_stays_trusted_where_no_setting_names_a_file(desk: Desk) -> None:
    desk.project('plugins_file = true\nstore = "jsonl:.agent"\n' + WIDENS)
    desk.plugins_file(CLEAN)
    # What `hooksdk trust` of 0.2.0 has written for these two files.
    digest = "sha256:7d7029b3c519e57246c40d13bed4b522fbe8afd3c5f8d0854a5dde4f37e9aa5b"
    desk.user(f'[trust]\n"{desk.repository}" = "{digest}"\n')
    assert read_config(folder=desk.repository)[1].trust.state == "trusted"


async def test_a_secret_s_file_that_changes_while_the_host_is_open_gives_no_value(desk: Desk) -> None:
    settings, name, content = NAMING["a file with a secret"]
    write(desk, name, content)
    desk.project(settings)
    desk.trust()
    (plugin,) = [one for one in desk.host().plugins if one.id == "secrets"]
    source = plugin.config.secrets["KEY"]
    assert await source.read("KEY") == "abc"
    write(desk, name, '{"KEY": "another"}')
    with pytest.raises(Exception, match=r"keys\.json has changed since it was trusted"):
        await source.read("KEY")


def test_a_secret_s_path_in_a_project_s_file_is_of_its_folder(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    settings, name, content = NAMING["a file with a secret"]
    path = write(desk, name, content)
    desk.project(settings)
    desk.trust()
    monkeypatch.chdir(desk.xdg)
    (plugin,) = [one for one in desk.host().plugins if one.id == "secrets"]
    assert plugin.config.secrets["KEY"].path == str(path)


def test_a_token_s_file_that_changes_lets_nobody_in(desk: Desk) -> None:
    path = write(desk, "ann.token", TOKEN)
    desk.project(NAMING["a token file"][0])
    desk.trust()
    config = GatewayConfig.of(desk.load())
    assert config.read_file(path) == TOKEN.encode()
    path.write_text("of somebody else")
    with pytest.raises(ConfigError, match=r"ann\.token: has changed since you trusted it"):
        config.read_file(path)


def test_a_word_list_that_changes_before_the_host_is_made_is_not_read(desk: Desk) -> None:
    settings, name, content = NAMING["a word list"]
    write(desk, name, content)
    desk.project(settings)
    desk.trust()
    config = desk.load()
    assert next(one.config.vocabulary for one in desk.host(config=config).plugins if one.id == "tool_search")
    write(desk, name, "{}")
    with pytest.raises(ConfigError, match=r"terms\.json: has changed since you trusted it"):
        desk.host(config=config)


SERVERS = '{"mcpServers": {"git": {"command": "git-server"}}}'


def test_servers_outside_that_a_trusted_project_names_are_trusted_at_their_content(desk: Desk) -> None:
    path = write(desk, "../tools.json", SERVERS)
    desk.project('mcp = "../tools.json"\n')
    (trust,), _ = project_files(desk.repository)
    desk.trust()
    assert servers_files(desk.repository, desk.load())[0] == {}
    record_trust(trust)
    assert [one.resolve() for one in servers_files(desk.repository, desk.load())[0]] == [path.resolve()]
    path.write_text(SERVERS.replace("git-server", "evil"))
    files, unknown = servers_files(desk.repository, desk.load())
    assert (files, [one.state for one in unknown]) == ({}, ["changed"])


def test_servers_outside_that_the_operator_names_need_no_trust(desk: Desk) -> None:
    path = write(desk, "../tools.json", SERVERS)
    desk.user(f'mcp = "{path.resolve()}"\n')
    assert servers_files(desk.repository, desk.load())[0] == {path.resolve(): ""}
    desk.user("")
    desk.project('mcp = "theirs.json"\n')
    desk.trust()
    assert servers_files(desk.repository, desk.load(None, HOOKSDK_MCP=str(path.resolve())))[0] == {path.resolve(): ""}


@pytest.mark.heavy
def test_a_server_outside_is_shown_with_its_command_and_not_started_after_a_change(desk: Desk) -> None:
    path = write(desk, "../tools.json", SERVERS)
    desk.project('mcp = "../tools.json"\n')
    done = desk.command("trust", "--yes")
    assert str(path.resolve()) in done.out
    assert "git-server" in done.out
    path.write_text(SERVERS.replace("git-server", "touch ran"))
    done = desk.command("tools", "list")
    assert "has changed since you trusted it, so its servers are not started" in done.out + done.err
    assert not desk.plugins_file_ran


# The user's file


@pytest.mark.parametrize("folder", ["here", "./here", "../here", ""])
def test_a_relative_xdg_folder_is_ignored(folder: str, desk: Desk) -> None:
    (desk.repository / "here" / "hooksdk").mkdir(parents=True)
    (desk.repository / "here" / "hooksdk" / "config.toml").write_text("not TOML")
    assert user_file({"XDG_CONFIG_HOME": folder}) == Path.home() / ".config" / "hooksdk" / "config.toml"


@pytest.mark.skipif(sys.platform == "win32", reason="no modes there")
@pytest.mark.parametrize(
    ("mode", "folder_mode", "told"), [(0o600, 0o700, 0), (0o666, 0o700, 1), (0o644, 0o777, 1), (0o644, 0o1777, 0)]
)
def test_a_user_s_file_that_others_can_write_is_told(
    mode: int,
    folder_mode: int,
    told: int,
    desk: Desk,
    caplog: pytest.LogCaptureFixture,
) -> None:
    desk.user("")
    desk.user_file.chmod(mode)
    desk.user_file.parent.chmod(folder_mode)
    desk.load()
    lines = [record.getMessage() for record in caplog.records]
    assert len(lines) == told
    assert all("other users of this machine can write" in line and "chmod go-w" in line for line in lines)
