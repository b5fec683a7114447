"""What a catalog makes of odd tools: names, labels, schemas, collisions."""

from __future__ import annotations

from typing import Any

import pytest

from hooksdk import Tool
from hooksdk._run.tools import as_offered
from hooksdk.catalog import Catalog, build_catalog
from tests.stage import echo, make, playing

pytestmark = pytest.mark.anyio


def test_a_tool_without_a_name_is_left_out_and_reported() -> None:
    catalog = build_catalog([make(""), make("  "), make("kept")])
    assert [tool.name for tool in catalog] == ["kept"]
    assert len(catalog.diagnostics) == 2
    assert all(note.endswith(": left out, it has no name") for note in catalog.diagnostics)


async def test_a_tool_without_label_description_or_parameters_is_listed_as_it_is() -> None:
    empty = Tool(name="empty", execute=echo)
    async with playing(tools=[empty]) as played:
        (offered,) = played.run.offered
        assert (offered.label, offered.description, offered.parameters) == ("", "", None)
        assert (await played.call("empty", {"anything": 1})).text == 'ran with {"anything": 1}'
        assert played.run.tools.diagnostics == ()


def _cycle() -> dict[str, Any]:
    loop: dict[str, Any] = {"type": "object"}
    loop["properties"] = {"self": loop}
    return loop


@pytest.mark.parametrize("parameters", [_cycle(), {"type": "object", "default": object()}], ids=["cycle", "object"])
async def test_a_schema_that_cannot_be_cloned_becomes_none_and_the_tool_stays(parameters: dict[str, Any]) -> None:
    odd = Tool(name="odd", parameters=parameters, execute=echo, output_schema=parameters)
    async with playing(tools=[odd]) as played:
        (offered,) = played.run.offered
        assert offered.parameters is None
        notes = played.run.tools.diagnostics
        assert len(notes) == 2
        assert all(note.startswith("plugin::odd: its ") for note in notes)
        assert (await played.call("odd", {"a": 1})).text == 'ran with {"a": 1}'


def test_a_name_that_two_owners_chose_is_qualified_for_both() -> None:
    tools = [make("search", owner="web", source="mcp"), make("search", owner="mail", source="mcp"), make("read")]
    catalog = build_catalog(tools)
    assert [tool.name for tool in catalog] == ["web__search", "mail__search", "read"]
    assert [tool.id for tool in catalog] == ["mcp:web:search", "mcp:mail:search", "host:core:read"]
    assert catalog.sharing("search") == ["web__search", "mail__search"]
    assert catalog.get("search") is None
    assert catalog.get("mcp:mail:search") is catalog[1]
    assert len(catalog.diagnostics) == 2


@pytest.mark.parametrize("other", ["Read_File", "\uff52ead_file", "read_\u200bfile", "read_file\u2060"])
def test_names_that_a_reader_cannot_tell_apart_are_qualified(other: str) -> None:
    catalog = build_catalog([make("read_file"), make(other, source="mcp", owner="evil")])
    assert catalog[0].name == "read_file"
    assert catalog[1].name.startswith("evil__")
    assert catalog[1].name.isascii()


def test_a_hosts_tool_keeps_its_bare_name_and_only_the_servers_are_respelt() -> None:
    servers = [make("write_file", source="mcp", owner="fs"), make("write_file", source="plugin", owner="notes")]
    catalog = build_catalog([servers[0], make("write_file"), servers[1]])
    assert [tool.name for tool in catalog] == ["fs__write_file", "write_file", "notes__write_file"]
    assert catalog.get("write_file") is catalog[1]
    assert len(catalog.diagnostics) == 2


def test_two_hosts_tools_of_one_name_are_both_respelt() -> None:
    tools = [make("open", owner="desk"), make("open", owner="door"), make("open", source="mcp", owner="fs")]
    assert [tool.name for tool in build_catalog(tools)] == ["desk__open", "door__open", "fs__open"]


def test_a_hosts_name_that_providers_refuse_is_made_to_fit_and_not_given_its_owner() -> None:
    catalog = build_catalog([make("read file"), make("read file", source="mcp", owner="fs")])
    assert [tool.name for tool in catalog] == ["read_file", "fs__read_file"]


def test_the_name_of_a_withheld_host_tool_stands_for_no_servers_tool() -> None:
    catalog = build_catalog([make("write_file"), make("write_file", source="mcp", owner="fs", required=["path"])])
    narrowed = catalog.without({"host:core:write_file": "no"})
    assert [tool.name for tool in narrowed] == ["fs__write_file"]
    assert narrowed.get("write_file") is None
    assert narrowed.meant("write_file", {"path": "a"}) is None
    assert narrowed.meant("functions.write_file", {"path": "a"}) is None


# Names that mean a tool


NAMED = build_catalog([
    make("scale", source="mcp", owner="kubectl"), make("scale", source="mcp", owner="image"),
    make("git_log", source="mcp", owner="git"), make("read_file"),
])  # fmt: skip


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("git_log", "git_log"), ("mcp:git:git_log", "git_log"),
        ("git.git_log", "git_log"), ("git__git_log", "git_log"), ("mcp__git__git_log", "git_log"),
        ("kubectl.scale", "kubectl__scale"), ("kubectl__scale", "kubectl__scale"), ("mcp__image__scale", "image__scale"),
        ("functions.git_log", "git_log"), ("functions.kubectl.scale", "kubectl__scale"), ("tools.read_file", "read_file"),
        ("core.read_file", "read_file"),
        ("git_log(repo_path: string, max_count?: integer)", "git_log"), ("git_log()", "git_log"),
        ("functions.git_log(repo_path: string, ...", "git_log"), (" git_log ", "git_log"),
    ],
)  # fmt: skip
def test_a_name_is_understood_where_it_means_one_tool(written: str, meant: str) -> None:
    tool = NAMED.meant(written)
    assert tool is not None
    assert tool.name == meant


@pytest.mark.parametrize(
    "written",
    ["scale", "log", "other.git_log", "git", "", "(", "functions.", "Git_Log", "git_log2", "kubectl", "x" * 5_000],
)
def test_a_name_that_means_none_or_several_is_not_understood(written: str) -> None:
    assert NAMED.meant(written) is None


def test_a_full_name_that_two_tools_have_is_not_understood() -> None:
    catalog = build_catalog([make("c", source="mcp", owner="a__b"), make("b__c", source="mcp", owner="a")])
    assert catalog.meant("a__b__c") is None
    found = catalog.meant("a__b.c")
    assert found is not None
    assert found.id == "mcp:a__b:c"


def sharing(first: dict[str, Any], second: dict[str, Any]) -> Catalog:
    return build_catalog([
        Tool(name="scale", source="mcp", owner="one", parameters=first, execute=echo),
        Tool(name="scale", source="mcp", owner="two", parameters=second, execute=echo),
    ])  # fmt: skip


def takes(*required: str, **optional: str) -> dict[str, Any]:
    names = (*required, *optional)
    return {"type": "object", "properties": {name: {"type": "string"} for name in names}, "required": list(required)}


def test_a_shared_name_is_the_tool_whose_required_keys_are_all_given() -> None:
    catalog = sharing(takes("deployment", "replicas"), takes("image", "width"))
    tool = catalog.meant("scale", {"image": "a", "width": "3"})
    assert tool is not None
    assert tool.name == "two__scale"


@pytest.mark.parametrize(
    ("first", "second", "given"),
    [
        (takes("image"), takes("image", "width"), {"image": "a", "width": "3"}),
        (takes("image"), takes("file"), {"image": "a", "other": "b"}),
        (takes("image"), takes("file"), {"image": "a", "file": "b"}),
        (takes("image"), takes("file"), {}),
        (takes("image"), takes("file"), {"file_": "b"}),
        (takes(image=""), takes("file"), {"image": "b"}),
    ],
)
def test_a_shared_name_is_not_understood_where_the_arguments_leave_a_doubt(
    first: dict[str, Any], second: dict[str, Any], given: dict[str, Any]
) -> None:
    assert sharing(first, second).meant("scale", given) is None


def test_a_shared_name_is_not_understood_where_one_of_its_tools_is_withheld() -> None:
    catalog = sharing(takes("deployment"), takes("image")).without({"mcp:one:scale": "no"})
    assert catalog.meant("scale", {"image": "a"}) is None


def test_a_qualified_name_never_takes_one_that_is_there() -> None:
    tools = [make("search", owner="a"), make("search", owner="b"), make("a__search", owner="c"), make("b__search", owner="c")]  # fmt: skip
    names = [tool.name for tool in build_catalog(tools)]
    assert len(set(names)) == 4
    assert names[2:] == ["a__search", "b__search"]


def test_a_qualified_name_has_the_64_characters_that_providers_allow() -> None:
    names = [tool.name for tool in build_catalog([make("s" * 60, owner="a" * 30), make("s" * 60, owner="b" * 30)])]
    assert all(len(name) <= 64 for name in names)
    assert len(set(names)) == 2


def test_a_reserved_name_is_given_to_no_tool() -> None:
    tools = [make("find", owner="web"), make("find it", owner="mail"), make("read")]
    catalog = build_catalog(tools, reserved={"find", "find_it"})
    assert catalog[0].name == "web__find"
    assert catalog[1].name.startswith("find_it_")
    assert catalog[2] is tools[2]
    assert catalog.diagnostics[0] == "host:web:find: offered as web__find, since its name is reserved for a bridge tool"
    assert catalog.get("find") is None


def test_a_tool_that_another_run_offered_is_no_bridge_of_this_one() -> None:
    bridge = as_offered(make("find"), "search", search=True)
    assert [tool.bridge for tool in build_catalog([bridge])] == [False]


def test_names_and_ids_that_no_tool_has_any_more_are_remembered() -> None:
    tools = [make("search", owner="web"), make("search", owner="mail")]
    catalog = build_catalog(tools, earlier=["search", "web__search", "host:web:search", "read", "host:core:read"])
    assert catalog.removed_names == {"read", "host:core:read"}
    assert catalog.without({"search": "no"}).removed_names == {"read", "host:core:read"}


def test_a_second_tool_of_the_same_owner_and_name_is_left_out_and_reported() -> None:
    catalog = build_catalog([make("one", label="first"), make("one", label="second")])
    assert [tool.label for tool in catalog] == ["first"]
    assert "its owner has another tool of that name" in catalog.diagnostics[0]


async def test_the_fingerprint_is_the_same_for_an_unchanged_catalog_in_any_order() -> None:
    one, two = make("one"), make("two")
    assert build_catalog([one, two]).fingerprint == build_catalog([make("two"), make("one")]).fingerprint
    assert build_catalog([one]).fingerprint != build_catalog([make("one", description="changed")]).fingerprint
    assert build_catalog([one]).fingerprint != build_catalog([make("one", properties={"x": {}})]).fingerprint


def test_withholding_an_owners_own_name_takes_every_tool_that_bears_it() -> None:
    twins = build_catalog([Tool(name="drop", source="mcp", owner=owner) for owner in ("a", "b")])
    assert not twins.without({"drop": "too dangerous"})
    assert dict(twins.without({"drop": "too dangerous"}).withheld) == {
        "a__drop": "too dangerous",
        "b__drop": "too dangerous",
    }


def test_what_is_withheld_cannot_be_changed_from_outside() -> None:
    catalog = build_catalog([Tool(name="drop", source="mcp", owner="a")]).without({"drop": "no"})
    with pytest.raises(TypeError):
        catalog.withheld["drop"] = "yes"  # type: ignore[index]


def test_an_id_means_its_own_tool_though_another_is_called_like_it() -> None:
    github = Tool(name="create_issue", source="mcp", owner="github")
    found = build_catalog([Tool(name=github.id, source="mcp", owner="other"), github]).get(github.id)
    assert found is not None
    assert found.owner == "github"
