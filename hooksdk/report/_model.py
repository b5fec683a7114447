"""What a report holds, before it is a page. `dataclasses.asdict` makes JSON of it; times are seconds, sizes estimated
tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

Kind = Literal["start", "tools", "model", "call", "trim", "note", "end"]


@dataclass(kw_only=True)
class Text:
    """A text by others, whole or cut."""

    shown: str
    whole: str | None
    """The whole text, where `shown` is its beginning and there is room for all of it on the page."""
    characters: int


@dataclass(kw_only=True)
class HookLine:
    """One handler that was called."""

    at: float
    hook: str
    plugin: str
    handler: str
    outcome: str
    seconds: float
    problem: str
    shadow: bool


@dataclass(kw_only=True)
class Approval:
    """One question to a person."""

    at: float
    plugin: str
    severity: str
    questions: int
    evidence: Sequence[str] = ()
    """Where values of the arguments come from, as the person was shown."""
    waited: float | None = None
    """Seconds until the answer; None while there is none in the trace."""
    granted: bool | None = None
    by: str = ""
    scope: str = ""
    remembered: bool = False


@dataclass(kw_only=True, eq=False)
class Step:
    """One line of a run's timeline."""

    kind: Kind
    at: float
    """Seconds since the run began."""
    name: str
    seconds: float | None = None
    """How long it took; None for what has no length, or did not end."""
    open: bool = False
    """True for a call or request whose end is not in the trace."""
    detail: str = ""
    status: str = ""
    """Of a call: `ok`, `blocked` and so on; of an end its reason."""
    call_id: str = ""
    tool: str = ""
    through: str = ""
    """The bridge tool that the model called."""
    origin: str = ""
    depth: int = 0
    """How many calls it stands inside of."""
    characters: int | None = None
    labels: Sequence[str] = ()
    """What the result's text is worth, as far as it is to be shown."""
    hooks: list[HookLine] = field(default_factory=list[HookLine])
    decisions: list[HookLine] = field(default_factory=list[HookLine])
    approvals: list[Approval] = field(default_factory=list[Approval])
    progress: list[str] = field(default_factory=list[str])
    arguments: Text | None = None
    result: Text | None = None
    message: int | None = None
    """The position of the message with its result, where the session was given."""

    @property
    def outcome(self) -> str:
        """What a reader looks for: `asked` for a call that a person was asked about and that ran, else its status."""
        return "asked" if self.approvals and self.status == "ok" else self.status


@dataclass(kw_only=True)
class CatalogTool:
    """One tool of the catalog."""

    name: str
    tool: str
    owner: str
    tokens: int
    place: str
    annotations: dict[str, bool] = field(default_factory=dict[str, bool])
    """What it says of itself, where it says anything."""


@dataclass(kw_only=True)
class WithheldTools:
    """Tools that a plugin took away."""

    plugin: str
    names: list[str]
    reason: str


@dataclass(kw_only=True)
class Catalog:
    """What the model might use in an attempt."""

    attempt: int
    granted: int
    offered: int
    tokens: int
    tokens_offered: int
    notes: list[str]
    tools: list[CatalogTool] | None
    """None where the trace does not say, as those of earlier versions."""
    withheld: list[WithheldTools] = field(default_factory=list[WithheldTools])


@dataclass(kw_only=True)
class TrimLine:
    """One trim or restore."""

    at: float | None
    """Seconds since the run began, or since the epoch in a session."""
    handle: str
    tool: str
    kind: str
    status: str
    plugin: str
    reason: str = ""
    before: int = 0
    """Characters."""
    after: int = 0
    tokens_saved: int | None = None
    pays_back_after: int | None = None
    """Further requests until it has paid for itself; None when it never does, and where that is not known."""
    settled: bool = False
    """True where the trace tells what became of it."""


@dataclass(kw_only=True)
class Shares:
    """Where a run's time went, in seconds."""

    model: float
    tools: float
    person: float
    rest: float


@dataclass(kw_only=True)
class Paid:
    """What the requests to one model used and cost, as its provider counted them."""

    model: str
    requests: int
    prompt: int
    """Tokens of the prompts, those from the cache among them."""
    read: int
    written: int
    output: int
    dollars: float | None
    """None where nobody knows a price."""
    without_cache: float | None
    """What the same tokens would have cost without a cache."""
    source: str
    """Whose price it is and of which day, or why there is none."""


@dataclass(kw_only=True)
class Run:
    """One run of a session, from the trace."""

    number: int
    session_id: str
    run_id: str
    agent_id: str
    parent: str
    model: str
    trigger: str
    started: float
    seconds: float
    reason: str
    """`completed`, `paused`, `error` or `cancelled`; empty where the trace has no end of it."""
    attempts: int
    requests: int
    usage: dict[str, float]
    paid: list[Paid]
    calls: int
    by_status: dict[str, int]
    asked: int
    granted: int
    searches: int
    shares: Shares
    catalogs: list[Catalog]
    trims: list[TrimLine]
    steps: list[Step]
    steps_left_out: int

    @property
    def tokens_not_sent(self) -> int:
        """Tokens of definitions that each request of the newest attempt was spared."""
        return max(0, self.catalogs[-1].tokens - self.catalogs[-1].tokens_offered) if self.catalogs else 0

    @property
    def failed(self) -> int:
        """Calls that came to nothing, but by no policy."""
        return sum(self.by_status.get(status, 0) for status in ("error", "invalid", "unknown"))

    @property
    def tokens_trimmed(self) -> int:
        """Tokens that each later request was spared by this run's trims."""
        return sum(trim.tokens_saved or 0 for trim in self.trims)


@dataclass(kw_only=True)
class Call:
    """A call in a message."""

    call_id: str
    name: str
    arguments: Text


@dataclass(kw_only=True)
class Result:
    """A result in a message."""

    handle: str
    tool: str
    tokens: int
    characters: int
    is_error: bool
    text: Text
    instead: Text | None
    """What the model sees in its place, where it is trimmed."""
    queued: str
    """`trim` or `restore`, where one waits for the end of a run."""
    labels: Sequence[str] = ()
    """What its text is worth, as far as it is to be shown."""


@dataclass(kw_only=True)
class Message:
    """One message of a session."""

    position: int | None
    """None for one that a compaction put in the place of others."""
    role: str
    text: Text | None
    calls: list[Call]
    results: list[Result]
    others: list[str]
    """Parts that are no text, such as images, in words."""
    hidden: bool
    """True where a compaction has put something else in its place, for the model."""


@dataclass(kw_only=True)
class Hit:
    """One tool that a search found."""

    name: str
    owner: str
    description: str
    weak: bool


@dataclass(kw_only=True)
class Query:
    """One query of a search."""

    query: str
    hits: list[Hit]
    note: str


@dataclass(kw_only=True)
class Search:
    """One search for tools, as the model read its answer."""

    message: int
    tokens: int
    queries: list[Query]


@dataclass(kw_only=True)
class Bill:
    """What a history's prompts cost under a policy of trims, in prices of a token without a cache."""

    policy: str
    tokens: int
    price: float
    share: float
    """Of the untrimmed price."""
    trims: int


@dataclass(kw_only=True)
class Session:
    """One stored session."""

    session_id: str
    format: str
    count: int
    """Messages that are stored."""
    results: int
    tokens: int
    tokens_seen: int
    """Of what the model sees: compacted, and with trims."""
    trimmed: int
    changed: float | None
    messages: list[Message]
    messages_left_out: int
    summary: list[Message]
    """What the model sees in the place of the first messages, after a compaction."""
    trims: list[TrimLine]
    searches: list[Search]
    requests: int
    paid: list[Paid]
    """Empty where no usage is stored with it."""
    with_subagents: list[Paid]
    """The same with what its sub-agents used; empty where these used nothing."""
    cache: list[str]
    """Where the provider's cache held much less than it should have, or more: a sentence each."""
    bills: list[Bill]
    """Empty where they would take too long, or where the format is a host's own."""


@dataclass(kw_only=True)
class PolicyLine:
    """What the rules of the project say of one tool of the runs."""

    tool: str
    verdict: str
    """`allow`, `ask`, `deny`, or those that are possible: `allow or deny`."""
    says: list[str]
    """What it says of itself, as `policy table` shows it."""
    decided_by: str


@dataclass(kw_only=True)
class Report:
    """A page's content."""

    title: str
    sources: list[str]
    """What it was made from, a sentence each."""
    missing: list[str]
    """What the page does not know and why, a sentence each."""
    runs: list[Run]
    runs_left_out: int
    sessions: list[Session]
    policy: list[PolicyLine] = field(default_factory=list[PolicyLine])
    """The riskiest tool first; empty where the project has no rules, or the trace tells of no tools."""
