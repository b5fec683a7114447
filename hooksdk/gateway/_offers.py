"""What one client is offered beside the tools: prompts under names, resources under addresses, each of which leads
back to its server."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, final
from urllib.parse import quote, unquote

import mcp_types as types
from mcp.shared.uri_template import UriTemplate

from hooksdk.mcp import Feature, ServerOffer
from hooksdk.values import as_object

ADDRESS = "hooksdk://server/"
"""What an address begins with that names its server; the server's name and its own address follow."""
MOST_LINKS = 2000
"""Links in results that are remembered for one session; of more, the newest."""


class NotOffered(LookupError):
    """Nothing of this name or address is offered to the client; the text says so."""


@final
class ClientOffers:
    """What is offered to one client."""

    def __init__(self, offers: Sequence[ServerOffer], granted: Callable[[str], bool], links: Links) -> None:
        """`granted` says of the id of a prompt or a resource whether the client may have it."""
        self._links = links
        self._servers = {offer.server for offer in offers if offer.capabilities.resources is not None}
        self._prompts: dict[str, Feature] = {}
        all_prompts = [(offer.server, one) for offer in offers for one in offer.prompts]
        prompts = [(server, one) for server, one in all_prompts if granted(f"prompt:{server}:{one.name}")]
        names = Counter(one.name for _, one in prompts)
        listed: list[types.Prompt] = []
        for server, one in prompts:
            name = one.name if names[one.name] == 1 else f"{server}__{one.name}"
            self._prompts[name] = Feature(server, one.name)
            listed.append(one.model_copy(update={"name": name}))
        self.prompts = tuple(listed)
        for server, one in prompts:
            self._prompts.setdefault(f"{server}__{one.name}", Feature(server, one.name))
        self._withheld_prompts = {
            name: Feature(server, one.name)
            for server, one in all_prompts
            if (server, one) not in prompts
            for name in (one.name, f"{server}__{one.name}")
        }

        all_resources = [(offer.server, one) for offer in offers for one in offer.resources]
        resources = [(server, one) for server, one in all_resources if granted(f"resource:{server}:{one.uri}")]
        self._listed = _by_key((one.uri, server) for server, one in resources)
        self._withheld = _by_key((one.uri, server) for server, one in all_resources)
        self.resources = tuple(
            one.model_copy(update={"uri": self._name_of(self._listed, server, one.uri)}) for server, one in resources
        )
        all_templates = [(offer.server, one) for offer in offers for one in offer.templates]
        templates = [(server, one) for server, one in all_templates if granted(f"resource:{server}:{one.uri_template}")]
        self._templates = _by_key((one.uri_template, server) for server, one in templates)
        self.templates = tuple(
            one.model_copy(update={"uri_template": self._name_of(self._templates, server, one.uri_template)})
            for server, one in templates
        )
        self._parsed = [(server, parsed) for server, one in templates if (parsed := _parsed(one.uri_template))]
        self._shown = _by_key((uri, offer.server) for offer in offers for tool in offer.tools for uri in shown_in(tool))

    @staticmethod
    def _name_of(known: Mapping[str, Sequence[str]], server: str, own: str) -> str:
        return own if len(known[own]) == 1 else address(server, own)

    def prompt(self, name: str, *, withheld: bool = False) -> Feature:
        """Which prompt is called so; with `withheld` also one that the client may not have, so that it can be told
        why. Raises `NotOffered`."""
        feature = self._prompts.get(name) or (self._withheld_prompts.get(name) if withheld else None)
        if feature is None:
            raise NotOffered(f"there is no prompt '{name}' here")
        return feature

    def template(self, uri: str) -> Feature:
        """Which template is called so. Raises `NotOffered`."""
        feature = self._led_back(uri)
        servers = self._templates.get(uri, ())
        if feature is None and len(servers) == 1:
            feature = Feature(servers[0], uri)
        if feature is None or feature.server not in self._templates.get(feature.own, ()):
            raise NotOffered(f"there is no template '{uri}' here")
        return feature

    def resource(self, uri: str) -> Feature:
        """Whose resource is called so. One that is not listed has its plain address, so that a pattern means it
        however it is written. Raises `NotOffered`, also where it is not certain whose it is."""
        if uri.startswith(ADDRESS):
            if (feature := self._led_back(uri)) is None:
                raise NotOffered(f"'{uri}' leads to no server that is offered here")
            listed = feature.server in self._withheld.get(feature.own, ())
            return feature if listed else Feature(feature.server, plain_uri(feature.own))
        uri = uri if uri in self._withheld else plain_uri(uri)
        for owners in self._owners(uri):
            if len(owners) > 1:
                ways = ", ".join(address(server, uri) for server in owners)
                raise NotOffered(f"several servers have '{uri}': {ways}")
            if owners:
                return Feature(owners[0], uri)
        raise NotOffered(f"there is no resource '{uri}' here")

    def _owners(self, uri: str) -> Iterable[Sequence[str]]:
        """Servers that may have it, the most certain first: what they list, what their tools name, what their
        templates fit, where a result has linked to it. A withheld one comes last: whoever asks for it is told why."""
        yield self._listed.get(uri, ())
        yield self._shown.get(uri, ())
        yield list(dict.fromkeys(server for server, template in self._parsed if template.match(uri) is not None))
        yield [server for server in self._links.owners(uri) if server in self._servers]
        yield self._withheld.get(uri, ())

    def _led_back(self, uri: str) -> Feature | None:
        server, slash, own = uri.removeprefix(ADDRESS).partition("/")
        known = uri.startswith(ADDRESS) and bool(slash and own) and unquote(server) in self._servers
        return Feature(unquote(server), own) if known else None

    def name_of(self, server: str, uri: str) -> str:
        """What the client calls a resource that a result of this server names: from now on that leads back."""
        if server not in self._servers:
            return uri
        try:
            known = self.resource(uri)
        except NotOffered:
            if any(len(owners) > 1 for owners in self._owners(uri)):
                return address(server, uri)
            self._links.add(uri, server)
            return uri
        return uri if known.server == server else address(server, uri)

    def lead_back(self, server: str, blocks: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """The blocks of a result of this server, whose links and resources can be read."""
        led: list[dict[str, Any]] = []
        for block in blocks:
            inner = block if block.get("type") == "resource_link" else block.get("resource")
            uri = as_object(inner).get("uri")
            if isinstance(uri, str):
                named = {**as_object(inner), "uri": self.name_of(server, uri)}
                led.append(named if inner is block else {**block, "resource": named})
            else:
                led.append(dict(block))
        return led


@final
class Links:
    """Whose results have linked to which resources, in one session."""

    def __init__(self) -> None:
        self._servers: dict[str, str] = {}

    def add(self, uri: str, server: str) -> None:
        """A result of this server names this resource."""
        self._servers.pop(uri, None)
        self._servers[uri] = server
        if len(self._servers) > MOST_LINKS:
            del self._servers[next(iter(self._servers))]

    def owners(self, uri: str) -> list[str]:
        """Whose results have named it."""
        return [self._servers[uri]] if uri in self._servers else []


def address(server: str, own: str) -> str:
    """The address of a server's resource, or of its template, that names the server."""
    return f"{ADDRESS}{quote(server, safe='')}/{own}"


_UNRESERVED = re.compile(r"%(2[dDeE]|3[0-9]|[46][1-9a-fA-F]|[57][0-9aA]|5[fF]|7[eE])")
"""Letters, digits and `-._~`, which mean the same when they are escaped (RFC 3986, section 2.3)."""


def plain_uri(uri: str) -> str:
    """The address as everybody writes it who means the same (RFC 3986, section 6.2.2): the scheme in small letters,
    no escape where none is needed, and no `.` and `..` in the path."""
    scheme, colon, rest = uri.partition("://")
    if not colon:
        return uri
    rest = _UNRESERVED.sub(lambda match: chr(int(match[1], 16)), rest)
    end = re.search(r"[?#]|$", rest)
    assert end is not None
    authority, slash, path = rest[: end.start()].partition("/")
    segments: list[str] = []
    parts = path.split("/")
    for part in parts:
        if part == "..":
            segments[-1:] = []
        elif part != ".":
            segments.append(part)
    if parts[-1] in {".", ".."}:
        segments.append("")
    return f"{scheme.lower()}://{authority}{slash}{'/'.join(segments)}{rest[end.start() :]}"


def shown_in(tool: types.Tool) -> list[str]:
    """The resources in which a tool's results are to be shown, as MCP Apps have it."""
    meta = tool.meta or {}
    named = [as_object(meta.get("ui")).get("resourceUri"), meta.get("ui/resourceUri")]
    return [uri for uri in named if isinstance(uri, str)]


def with_app_at(meta: Mapping[str, Any], name_of: Callable[[str], str]) -> dict[str, Any]:
    """The `_meta` of a tool, with its app under another address."""
    named = dict(meta)
    if isinstance(uri := as_object(meta.get("ui")).get("resourceUri"), str):
        named["ui"] = {**as_object(meta["ui"]), "resourceUri": name_of(uri)}
    if isinstance(uri := meta.get("ui/resourceUri"), str):
        named["ui/resourceUri"] = name_of(uri)
    return named


def _by_key(pairs: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    grouped: dict[str, list[str]] = {}
    for key, server in pairs:
        servers = grouped.setdefault(key, [])
        if server not in servers:
            servers.append(server)
    return grouped


def _parsed(template: str) -> UriTemplate | None:
    try:
        return UriTemplate.parse(template)
    except ValueError:  # one that only its server can read: what it stands for is read by its address
        return None
