"""The content of a report, before it is a page. `dataclasses.asdict` makes JSON of it; times are seconds, sizes estimated
tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

Kind = Literal["start", "tools", "model", "call", "trim", "note", "end"]


@dataclass(kw_only=True)
class Text:
    """A text by others, whole or cut.

    Attributes:
        whole: The whole text, where `shown` is its beginning and there is room for all of it on the page.
    """

    shown: str
    whole: str | None
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
    """One question to a person.

    Attributes:
        evidence: The origins of values of the arguments, as the person was shown them.
        waited: Seconds until the answer; None while there is none in the trace.
    """

    at: float
    plugin: str
    severity: str
    questions: int
    evidence: Sequence[str] = ()
    waited: float | None = None
    granted: bool | None = None
    by: str = ""
    scope: str = ""
    remembered: bool = False


@dataclass(kw_only=True, eq=False)
class Step:
    """One line of a run's timeline.

    Attributes:
        at: Seconds since the run began.
        seconds: How long it took; None for what has no length, or did not end.
        open: True for a call or request whose end is not in the trace.
        status: Of a call: `ok`, `blocked` and so on; of an end its reason.
        through: The bridge tool that the model called.
        depth: How many calls it stands inside of.
        labels: What the result's text is worth, as far as it is to be shown.
        message: The position of the message with its result, where the session was given.
    """

    kind: Kind
    at: float
    name: str
    seconds: float | None = None
    open: bool = False
    detail: str = ""
    status: str = ""
    call_id: str = ""
    tool: str = ""
    through: str = ""
    origin: str = ""
    depth: int = 0
    characters: int | None = None
    labels: Sequence[str] = ()
    hooks: list[HookLine] = field(default_factory=list[HookLine])
    decisions: list[HookLine] = field(default_factory=list[HookLine])
    approvals: list[Approval] = field(default_factory=list[Approval])
    progress: list[str] = field(default_factory=list[str])
    arguments: Text | None = None
    result: Text | None = None
    message: int | None = None

    @property
    def outcome(self) -> str:
        """The word that a reader looks for: `asked` for a call that a person was asked about and that ran, else its status."""
        return "asked" if self.approvals and self.status == "ok" else self.status


@dataclass(kw_only=True)
class CatalogTool:
    """One tool of the catalog, with the hints that it gives about itself."""

    name: str
    tool: str
    owner: str
    tokens: int
    place: str
    annotations: dict[str, bool] = field(default_factory=dict[str, bool])


@dataclass(kw_only=True)
class WithheldTools:
    """Tools that a plugin took away."""

    plugin: str
    names: list[str]
    reason: str


@dataclass(kw_only=True)
class Catalog:
    """The tools that the model might use in an attempt; `tools` is None in traces of earlier versions."""

    attempt: int
    granted: int
    offered: int
    tokens: int
    tokens_offered: int
    notes: list[str]
    tools: list[CatalogTool] | None
    withheld: list[WithheldTools] = field(default_factory=list[WithheldTools])


@dataclass(kw_only=True)
class TrimLine:
    """One trim or restore.

    Attributes:
        at: Seconds since the run began, or since the epoch in a session.
        before: Characters.
        pays_back_after: Further requests until it has paid for itself; None when it never does, and where that is not
            known.
        settled: True where the trace tells what became of it.
    """

    at: float | None
    handle: str
    tool: str
    kind: str
    status: str
    plugin: str
    reason: str = ""
    before: int = 0
    after: int = 0
    tokens_saved: int | None = None
    pays_back_after: int | None = None
    settled: bool = False


@dataclass(kw_only=True)
class Shares:
    """The shares of a run's time, in seconds."""

    model: float
    tools: float
    person: float
    rest: float


@dataclass(kw_only=True)
class Paid:
    """The tokens and the cost of the requests to one model, as its provider counted them.

    Attributes:
        prompt: Tokens of the prompts, those from the cache among them.
        dollars: None where nobody knows a price.
        without_cache: What the same tokens would have cost without a cache.
        source: Whose price it is and of which day, or why there is none.
    """

    model: str
    requests: int
    prompt: int
    read: int
    written: int
    output: int
    dollars: float | None
    without_cache: float | None
    source: str


@dataclass(kw_only=True)
class Run:
    """One run of a session, from the trace.

    Attributes:
        reason: `completed`, `paused`, `error` or `cancelled`; empty where the trace has no end of it.
    """

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
    """A result in a message.

    Attributes:
        instead: What the model sees in its place, where it is trimmed.
        queued: `trim` or `restore`, where one waits for the end of a run.
        labels: What its text is worth, as far as it is to be shown.
    """

    handle: str = ""
    tool: str = ""
    tokens: int
    characters: int
    is_error: bool
    text: Text
    instead: Text | None = None
    queued: str = ""
    labels: Sequence[str] = ()


@dataclass(kw_only=True)
class Message:
    """One message of a session.

    Attributes:
        position: None for one that a compaction put in the place of others.
        others: Parts that are no text, such as images, in words.
        hidden: True where a compaction has put something else in its place, for the model.
    """

    position: int | None
    role: str
    text: Text | None
    calls: list[Call] = field(default_factory=list[Call])
    results: list[Result] = field(default_factory=list[Result])
    others: list[str] = field(default_factory=list[str])
    hidden: bool


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
    """The cost of a history's prompts under a policy of trims: its price, counted in tokens without a cache, and the share
    of the untrimmed price."""

    policy: str
    tokens: int
    price: float
    share: float
    trims: int


@dataclass(kw_only=True)
class Session:
    """One stored session.

    Attributes:
        count: Messages that are stored.
        tokens_seen: Of what the model sees: compacted, and with trims.
        summary: What the model sees in the place of the first messages, after a compaction.
        paid: Empty where no usage is stored with it.
        with_subagents: The same with what its sub-agents used; empty where these used nothing.
        cache: Where the provider's cache held much less than it should have, or more: a sentence each.
        bills: Empty where they would take too long, or where the format is a host's own.
    """

    session_id: str
    format: str
    count: int
    results: int
    tokens: int
    tokens_seen: int
    trimmed: int
    changed: float | None
    messages: list[Message]
    messages_left_out: int
    summary: list[Message]
    trims: list[TrimLine]
    searches: list[Search]
    requests: int
    paid: list[Paid]
    with_subagents: list[Paid]
    cache: list[str]
    bills: list[Bill]


@dataclass(kw_only=True)
class PolicyLine:
    """The verdict of the project's rules on one tool of the runs.

    Attributes:
        verdict: `allow`, `ask`, `deny`, or those that are possible: `allow or deny`.
        says: The tool's hints about itself, as `policy table` shows them.
    """

    tool: str
    verdict: str
    says: list[str]
    decided_by: str


@dataclass(kw_only=True)
class Report:
    """A page's content.

    Attributes:
        sources: What it was made from, a sentence each.
        missing: What the page does not know and why, a sentence each.
        policy: The riskiest tool first; empty where the project has no rules, or the trace tells of no tools.
    """

    title: str
    sources: list[str]
    missing: list[str]
    runs: list[Run]
    runs_left_out: int
    sessions: list[Session]
    policy: list[PolicyLine] = field(default_factory=list[PolicyLine])
