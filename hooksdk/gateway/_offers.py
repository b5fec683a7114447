"""The prompts and resources that one client is offered. Their names and addresses lead back to the servers that have
them."""

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

# The beginning of an address that names its server. The server's name and the server's own address follow.
ADDRESS = "hooksdk://server/"
# Links in results that are kept for one session; of more, the newest.
MOST_LINKS = 2000


class NotOffered(LookupError):
    """Raised for a name or an address under which the client is offered nothing; the text says so."""


@final
class ClientOffers:
    """The prompts and resources of one client.

    Attributes:
        prompts: The prompts, under the names that the client is told.
        resources: The resources, under the addresses that the client is told.
        templates: The templates of addresses.

    """

    def __init__(self, offers: Sequence[ServerOffer], granted: Callable[[str], bool], links: dict[str, str]) -> None:
        """`granted` is told the id of a prompt or a resource, and answers whether the client may have it. `links` are
        the resources that results have linked to in its session, each with the server of the result."""
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
        self._all_listed = _by_key((one.uri, server) for server, one in all_resources)
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
        """The prompt of this name; with `withheld` also one that the client may not have, so that it can be told why.
        Raises `NotOffered`."""
        feature = self._prompts.get(name) or (self._withheld_prompts.get(name) if withheld else None)
        if feature is None:
            raise NotOffered(f"there is no prompt '{name}' here")
        return feature

    def template(self, uri: str) -> Feature:
        """The template of this address. Raises `NotOffered`."""
        feature = self._named_server(uri)
        servers = self._templates.get(uri, ())
        if feature is None and len(servers) == 1:
            feature = Feature(servers[0], uri)
        if feature is None or feature.server not in self._templates.get(feature.own, ()):
            raise NotOffered(f"there is no template '{uri}' here")
        return feature

    def resource(self, uri: str) -> Feature:
        """The resource of this address. One that is not listed gets its plain address, so that policies' patterns fit
        however it is written. Raises `NotOffered`, also where several servers may have it."""
        if uri.startswith(ADDRESS):
            if (feature := self._named_server(uri)) is None:
                raise NotOffered(f"'{uri}' leads to no server that is offered here")
            listed = feature.server in self._all_listed.get(feature.own, ())
            return feature if listed else Feature(feature.server, plain_uri(feature.own))
        uri = uri if uri in self._all_listed else plain_uri(uri)
        for owners in self._owners(uri):
            if len(owners) > 1:
                ways = ", ".join(address(server, uri) for server in owners)
                raise NotOffered(f"several servers have '{uri}': {ways}")
            if owners:
                return Feature(owners[0], uri)
        raise NotOffered(f"there is no resource '{uri}' here")

    def _owners(self, uri: str) -> Iterable[Sequence[str]]:
        """The servers that may have an address, the most certain first: those that list it, whose tools name it,
        whose templates fit it, and whose results have linked to it. Servers whose resource is withheld come last, so
        that the client is told why."""
        yield self._listed.get(uri, ())
        yield self._shown.get(uri, ())
        yield list(dict.fromkeys(server for server, template in self._parsed if template.match(uri) is not None))
        yield [self._links[uri]] if self._links.get(uri) in self._servers else []
        yield self._all_listed.get(uri, ())

    def _named_server(self, uri: str) -> Feature | None:
        server, slash, own = uri.removeprefix(ADDRESS).partition("/")
        known = uri.startswith(ADDRESS) and bool(slash and own) and unquote(server) in self._servers
        return Feature(unquote(server), own) if known else None

    def name_of(self, server: str, uri: str) -> str:
        """The address under which the client can read a resource that a result of this server names."""
        if server not in self._servers:
            return uri
        try:
            known = self.resource(uri)
        except NotOffered:
            if any(len(owners) > 1 for owners in self._owners(uri)):
                return address(server, uri)
            self._links.pop(uri, None)
            self._links[uri] = server
            if len(self._links) > MOST_LINKS:
                del self._links[next(iter(self._links))]
            return uri
        return uri if known.server == server else address(server, uri)

    def lead_back(self, server: str, blocks: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """The blocks of a result of this server, with addresses under which the client can read linked resources."""
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


def address(server: str, own: str) -> str:
    """The address of a server's resource or template that names the server."""
    return f"{ADDRESS}{quote(server, safe='')}/{own}"


# Letters, digits and `-._~`, which mean the same when they are escaped (RFC 3986, section 2.3).
_UNRESERVED = re.compile(r"%(2[dDeE]|3[0-9]|[46][1-9a-fA-F]|[57][0-9aA]|5[fF]|7[eE])")


def plain_uri(uri: str) -> str:
    """The normal form of an address (RFC 3986, section 6.2.2): the scheme in small letters, no needless escapes, and
    no `.` or `..` in the path."""
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
    """The addresses of the apps that show a tool's results (MCP Apps)."""
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
    except ValueError:  # a template that only its server can read: its resources are read by their addresses
        return None
