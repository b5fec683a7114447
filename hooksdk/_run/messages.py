"""What the model is sent, the drain of trims, and a host's own compaction of its messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, final

from hooksdk import hooks, schema
from hooksdk._masking.mask import SecretMask
from hooksdk._run.masked import mask_messages
from hooksdk._run.prompts import is_of_user
from hooksdk._run.state import RunState
from hooksdk._run.tools import reveal
from hooksdk._tasks.background import logger
from hooksdk._transcript.encoding import is_reason
from hooksdk._transcript.journal import Ledger
from hooksdk.errors import RunBlocked, UnknownResult
from hooksdk.formats import GivenMessage, Message, ProviderJson, get_format
from hooksdk.formats.intake import messages_in
from hooksdk.formats.sending import sendable
from hooksdk.formats.usage import Request, model_name, usage_of
from hooksdk.hooks import RunInfo
from hooksdk.records import TrimDrained
from hooksdk.transcript import Entry, Transcript


@final
class PreparedMessages(list[ProviderJson]):
    """What `run.prepare_messages()` answers: the list to send, and what was changed in it. For a framework that keeps
    messages of its own kind, and writes the changes into these.

    Attributes:
        added: The texts that plugins added for this request alone (`AddContext`).
        replaced: A plugin put other messages in the place of all of them, for this request alone (`ReplaceMessages`).
    """

    def __init__(
        self, messages: Sequence[Message], added: Sequence[str], *, replaced: bool, transcript: Transcript
    ) -> None:
        super().__init__(messages)
        self.added = added
        self.replaced = replaced
        self._transcript = transcript

    @cached_property
    def trimmed(self) -> Mapping[tuple[str, int], str]:
        """By call id, as it is stored, and which of the results with this id in the list (0, unless ids repeat): the
        text that is in the place of each trimmed result, for this request and all later ones. Ask before the run goes
        on."""
        return self._transcript.trimmed


async def take_messages(
    state: RunState, messages: Sequence[GivenMessage], *, follow: bool, said: Sequence[str]
) -> Sequence[Message]:
    """Take the list that the host keeps, and answer what is new in it."""
    transcript, reading = state.parts.transcript, state.parts.reading
    given = whole = messages_in(messages, state.parts.format, "run.prepare_messages(...)").messages
    if state.secrets.active:
        whole = mask_messages(whole, (transcript.ask(Ledger.as_shown), transcript.view), state.secrets)
    if not follow:
        return await transcript.match(whole)
    form = state.parts.format
    for text in said if not state.parts.for_others else ():
        if not is_reason(text, reading.reasons):
            reading.say(text)
    await reading.note_strangers(
        (form.text(one), form.text(two)) for one, two in zip(given, whole, strict=True) if is_of_user(two, form)
    )
    new = await transcript.match(whole, follow=True, run_id=state.info.run_id)
    await reading.note_strangers((text, text) for one in new if is_of_user(one, form) if (text := form.text(one)))
    return new


def used_by(info: RunInfo, counts: Mapping[str, Any] | None) -> Entry | None:
    """What the journal keeps of a reply's usage; None where the provider counts nothing."""
    usage = usage_of(counts) if counts else None
    model = model_name(info.provider, info.model)
    return usage and Request(model=model, usage=usage, run_id=info.run_id, family=info.family).entry()


async def before_model_call(state: RunState, *, follow: bool = False) -> PreparedMessages:
    """The view, with the plugins' edits for this request. Each handler sees what the ones before it left; one that
    fails is skipped, and one that blocks ends the run. Ids and the like are mended at the end, since plugins know the
    stored ones; with `follow` they are the host's."""
    base: list[Message] | None = None
    context: list[str] = []

    def messages() -> list[Message]:
        edited = state.parts.transcript.ask(Ledger.copies) if base is None else base
        for text in context:
            edited = state.parts.format.add_context(edited, text)
        return edited

    def event() -> hooks.BeforeModelCall:
        now = messages()
        return hooks.BeforeModelCall(
            info=state.info,
            messages=now,
            tokens=schema.estimate_tokens(now),
            results=state.results("before_model_call"),
            context_window=state.context_window,
            prices=state.parts.prices,
        )

    async for outcome in state.hooks.fire("before_model_call", event):
        answer, plugin = outcome.answer, outcome.handler.plugin
        if isinstance(answer, hooks.Block):
            raise RunBlocked(f"plugin '{plugin}'", state.secrets.text(answer.reason))
        if isinstance(answer, hooks.AddContext):
            context.append(state.secrets.text(answer.text))
        elif isinstance(answer, hooks.ReplaceMessages):
            replaced = await outcome.use(lambda answer: _checked(state, answer))
            base, context = (base, context) if replaced is None else (replaced, [])
        elif isinstance(answer, hooks.Reveal):
            added = list[Message]()
            await outcome.use(lambda answer, plugin=plugin, added=added: reveal(state, answer, plugin, added))
            base = base if base is None else [*base, *added]
        else:
            await outcome.use(lambda answer, plugin=plugin: _trim(state, answer, plugin))
        outcome.log()
    prepared = state.secrets.value(messages())
    if not follow:
        prepared = sendable(prepared, state.parts.format)
    prepared = state.declared.messages(prepared)
    return PreparedMessages(prepared, context, replaced=base is not None, transcript=state.parts.transcript)


def _checked(state: RunState, answer: hooks.ReplaceMessages) -> list[Message]:
    messages = [schema.clone(dict(message)) for message in answer.messages]
    for position, message in enumerate(messages):
        if problem := state.parts.format.check(message):
            raise ValueError(f"ReplaceMessages, message {position}: {problem}")
    return messages


async def _trim(state: RunState, answer: hooks.Trim, plugin: str) -> None:
    """Trim what can be trimmed. Then tell of the rest: a refusal is logged, an unknown handle is the handler's
    failure."""
    results, unknown = state.results(plugin), list[str]()
    for handle in [answer.handles] if isinstance(answer.handles, str) else answer.handles:
        try:
            receipt = await results.trim(handle, reason=answer.reason, small=answer.small)
        except UnknownResult as error:
            unknown.append(str(error))
        else:
            if receipt.status == "not_trimmed":
                logger.warning("plugin '%s': %s", plugin, receipt.text)
    await drain_trims(state)
    if unknown:
        raise ValueError("; ".join(unknown))


async def drain_trims(state: RunState) -> None:
    """Apply the queued trims in one atomic step, count them, and tell the trace what became of each."""
    if not state.parts.transcript.queued:
        return
    tracing = bool(state.hooks.tracing)
    before = state.parts.transcript.message_tokens() if tracing else []
    report = await state.parts.transcript.drain()
    state.stats.drained(report)
    cost = None
    if tracing:
        from hooksdk.costs import cache_prices, estimate_change  # the one figure of ring 2 that a trace has

        prices = cache_prices(state.info.provider, state.info.model)
        cost = estimate_change(before, state.parts.transcript.message_tokens(), prices=prices)
    for trim in report.trims:
        await state.trace(
            TrimDrained(
                handle=trim.handle,
                status=trim.status,
                plugin=trim.owner,
                tool=trim.tool,
                turns_ago=trim.age,
                tokens_saved=trim.tokens_saved,
                pays_back_after=cost.pays_back_after if cost else None,
            )
        )


@final
class Compaction:
    """An open compaction."""

    def __init__(self, transcript: Transcript, mask: SecretMask) -> None:
        self._transcript = transcript
        self._mask = mask

    async def replace(self, messages: Sequence[GivenMessage]) -> None:
        """Let the model's view begin with these messages instead of all that was recorded so far."""
        message_format = self._transcript.format or get_format("openai-chat")
        whole = messages_in(messages, message_format, "compaction.replace(...)").messages
        if self._mask.active:
            # What is in the view stays as it is, or its results would count as gone.
            stored = [*self._transcript.ask(Ledger.as_shown), *self._transcript.view]
            whole = [one if one in stored else self._mask.value(one) for one in whole]
        await self._transcript.compact(whole)
