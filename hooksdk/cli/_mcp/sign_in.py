"""`hooksdk gateway login` and `logout`, and the same of `hooksdk mcp`: signing in to a server on the web, by its
name."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import anyio

from hooksdk.cli._configuration import read_config
from hooksdk.cli._console import CommandProblem, counted, one_line, print_line, safe, stderr_console, stdout_console
from hooksdk.cli._gateway.places import all_records, gateway_file
from hooksdk.cli._mcp.files import not_trusted, servers_files
from hooksdk.cli._mcp.servers import asks_person, show_page
from hooksdk.desk.terminal import read_typed
from hooksdk.errors import ConfigError, did_you_mean
from hooksdk.gateway import GatewayConfig
from hooksdk.gateway.status import running_gateways
from hooksdk.mcp import McpServers
from hooksdk.mcp.sign_in import SignInProblem

# The variable that holds the secret of a client of one's own, as for Claude Code.
SECRET = "MCP_CLIENT_SECRET"  # noqa: S105 - the name of a variable


@dataclass(frozen=True, kw_only=True)
class SignInOptions:
    """The options of the command line.

    Attributes:
        files: Files with servers; none: all that a gateway of this user may have.
        token: The token of the gateway whose sign-in it is.
    """

    name: str
    files: tuple[Path, ...] = ()
    project: Path
    token: str = ""

    @property
    def holder(self) -> str:
        """The owner of the sign-in."""
        return self.token or "local"


def sign_in(options: SignInOptions, *, browser: bool, client_secret: bool) -> int:
    """Sign the person at this terminal in. Without `browser` the page's address is printed, and the address that a
    browser elsewhere was sent to is typed. `client_secret` asks for the secret of the entry's client."""
    servers = _find(options)
    secret = _client_secret() if client_secret else ""
    anyio.run(_sign_in, options, servers, secret, browser)
    return 0


def sign_out(options: SignInOptions) -> int:
    """End a sign-in, at the server and here."""
    servers = _find(options)
    untold = anyio.run(lambda: servers.sign_ins.sign_out(options.name, holder=options.holder))
    name = one_line(options.name)
    if untold is None:
        stdout_console().print(f"nobody was signed in to {name}", soft_wrap=True)
    else:
        print_line(stdout_console(), "signed out", f"of {name}{f'; {one_line(untold)}' if untold else ''}")
    return 0


async def _sign_in(options: SignInOptions, servers: McpServers, secret: str, browser: bool) -> None:
    name, holder = options.name, options.holder
    if browser:
        await servers.sign_ins.sign_in(name, show_page, holder=holder, client_secret=secret)
    else:
        await servers.sign_ins.sign_in(name, _print_page, holder=holder, client_secret=secret, paste=_ask_address)
    what = f"to {name}, at {servers.sign_ins.possible()[name]}"
    if options.token:
        print_line(stdout_console(), "signed in", f"{one_line(what)}, for the token {one_line(options.token)}")
        return
    async with servers:
        status = servers.status[name]
    if status.state != "up":
        raise CommandProblem(f"signed in {what}; but {status.problem}")
    print_line(stdout_console(), "signed in", f"{one_line(what)}: {counted(status.tools, 'tool')}")


async def _print_page(url: str) -> None:
    console = stderr_console()
    print_line(console, "open", safe(url))
    print_line(console, "then", "copy the address that the browser is sent to, even if no page shows there")


async def _ask_address() -> str:
    """Read the address that is typed. Nothing else runs meanwhile, so the loop may wait."""
    with _interruptible():
        return read_typed(lambda: stderr_console().print("address     ", end=""))


def _find(options: SignInOptions) -> McpServers:
    """The server by its name. Raises `CommandProblem` when no file has it, or two have different ones."""
    if options.token:
        _check_token(options)
    files = dict.fromkeys(options.files, "")
    unknown: list[str] = []
    if not files:
        trusted, untrusted = servers_files(options.project, read_config(folder=options.project)[0])
        unknown = [not_trusted(trust, options.project, "--config") for trust in untrusted]
        files = {**trusted, **dict.fromkeys(_of_gateways(options.project), "")}
    named: dict[Path, McpServers] = {}
    names: set[str] = set()
    for path, digest in files.items():
        try:
            servers = McpServers.from_file(path, digests={path: digest} if digest else None)
        except ConfigError:
            if path in options.files:
                raise
            continue  # the commands that use the file tell
        names |= servers.status.keys()
        if options.name in servers.status:
            named[path] = servers
    if not named:
        where = ", ".join(map(str, files)) or "no file of servers is here"
        hint = did_you_mean(options.name, names) or f" Looked in: {where}. Name a file with --config FILE"
        raise CommandProblem(f"there is no server '{options.name}'.{hint}{''.join(f'. {one}' for one in unknown)}")
    if len({servers.sign_ins.possible().get(options.name) for servers in named.values()}) > 1:
        what = f"have different servers of the name '{options.name}': say which with --config FILE"
        raise CommandProblem(f"{', '.join(map(str, named))} {what}")
    path = next(iter(named))
    digests = {path: files[path]} if files[path] else None
    # Only now the person is asked for the inputs of the entry.
    return McpServers.from_file(path, ask=asks_person(), digests=digests, only=[options.name])


def _of_gateways(project: Path) -> list[Path]:
    """The files of the gateways of this user: those that run, those that are installed, and the gateway's own."""
    running = [Path(name) for one in running_gateways() for name in one.config if Path(name).is_absolute()]
    installed = [Path(one.gateway.file) for one in all_records()]
    own = [gateway_file("user", project), gateway_file("local", project.absolute())]
    return [path for path in dict.fromkeys([*own, *installed, *running]) if path.is_file()]


def _check_token(options: SignInOptions) -> None:
    tokens = GatewayConfig.of(read_config(folder=options.project)[0]).tokens
    if options.token not in tokens:
        known = did_you_mean(options.token, tokens) or f" Known: {', '.join(tokens) or 'none'}."
        raise CommandProblem(f"[gateway.tokens] has no token '{options.token}'.{known}")


def _client_secret() -> str:
    """The secret, from the environment or as it is typed, unseen."""
    if secret := os.environ.get(SECRET):
        return secret
    if not sys.stdin.isatty():
        raise CommandProblem(f"nobody is there to type the client's secret: put it into the variable {SECRET}")
    secret = stderr_console().input("secret of the client: ", password=True).strip()
    if not secret:
        raise SignInProblem("no secret was typed")
    return secret


@contextmanager
def _interruptible() -> Generator[None]:
    """Ctrl-C ends what is typed at once; the event loop would only take note of it."""
    before: Callable[..., object] | int | None = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
