"""The end that plugins may refuse: they are asked about the model's last reply before the run completes with it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Final, Literal

from hooksdk import hooks
from hooksdk._run.state import RunState
from hooksdk._tasks.background import logger
from hooksdk.errors import RunBlocked
from hooksdk.records import AnswerJudged, Content

# The name, among the session's states, of how often the model was sent on, and up to which message plugins were asked.
FINISH: Final = "hooksdk.finish"
# Seconds that observers have to see what came before the answer.
FLUSH_TIMEOUT = 5.0


@dataclass(frozen=True, kw_only=True)
class Finish:
    """What came of `run.finish()`: whether the run may complete, and with which text.

    Attributes:
        text: The answer, as plugins have left it.
        refused: Why the run is not done: the message that the model reads next, which is recorded already. Empty where
            it may complete.
        replaced: True where a plugin has put `text` in the place of the model's own, which is the newest message then.
        overruled: The reasons for which plugins would have had the model go on, where the limit was used up.
    """

    text: str
    refused: str = ""
    replaced: bool = False
    overruled: Sequence[str] = ()


def waits_for_finish(state: RunState) -> bool:
    """True where the session ends with a reply that calls nothing, and that plugins were not asked about yet."""
    transcript = state.parts.transcript
    if not state.hooks.has("before_answer") or not transcript.ask(lambda ledger: ledger.ends_with_reply):
        return False
    return transcript.state(FINISH).get("asked") != transcript.count


def newest_reply(state: RunState) -> str:
    """The prose of the reply that the session ends with; empty where it ends with something else."""
    form = state.parts.format
    messages = [*takewhile(form.is_reply, state.parts.transcript.newest())]
    own = messages if form.joined else messages[:1]
    return "\n".join(filter(None, map(form.text, reversed(own))))


async def judge_answer(state: RunState, text: str, *, can_go_on: bool) -> Finish:
    """Ask the plugins, and record what the model is to read. Raises `RunBlocked`."""
    if not state.hooks.has("before_answer"):
        return Finish(text=text)
    await state.hooks.flush(FLUSH_TIMEOUT)
    parts, given = state.parts, text
    if state.continued is None:  # without a prompt it goes on with what an earlier run has left
        state.continued = 0 if state.input is not None else int(parts.transcript.state(FINISH).get("continued", 0))
    continued, limit = state.continued, parts.continues if can_go_on else 0
    reasons: list[tuple[str, str]] = []
    replacers: list[str] = []

    def event() -> hooks.BeforeAnswer:
        return hooks.BeforeAnswer(
            info=state.info,
            text=text,
            input=state.input,
            continued=continued,
            limit=limit,
            results=state.results("before_answer"),
        )

    async for outcome in state.hooks.fire("before_answer", event):
        answer, plugin, required = outcome.answer, outcome.handler.plugin, outcome.handler.required
        outcome.log(", so the answer is withheld" if required else ", and the answer is judged without it")
        if outcome.failure and not required:
            continue
        if outcome.failure or isinstance(answer, hooks.Block):
            reason = f"it may not fail, and did: {outcome.failure}" if outcome.failure else answer.reason
            reason = state.secrets.text(reason)
            await _settle(state, "blocked", [plugin], reason)
            raise RunBlocked(f"plugin '{plugin}'", reason)
        if isinstance(answer, hooks.Continue):
            reasons.append((plugin, state.secrets.text(answer.reason)))
        else:
            text = state.secrets.text(answer.result if isinstance(answer.result, str) else answer.result.text)
            replacers.append(plugin)
    plugins = [plugin for plugin, _ in reasons]
    if reasons and continued < limit:
        message = "\n\n".join(dict.fromkeys(reason for _, reason in reasons))
        await parts.reading.note_reason(message)
        if parts.transcript_kept:  # first: else a crash in between leaves a reply that was judged, without the reason
            await parts.transcript.append([parts.format.user(message)])
        await _settle(state, "continued", plugins, message, continued=continued + 1)
        return Finish(text=given, refused=message)
    for plugin, reason in reasons:
        logger.warning(
            "plugin '%s' would have run %s go on, and its limit of %d is used up: %s",
            plugin,
            state.info.run_id,
            limit,
            reason,
            extra={"plugin": plugin, "hook": "before_answer"},
        )
    if (replaced := text != given) and text and parts.transcript_kept:
        await parts.transcript.append(parts.format.reply_messages(text))
    await _settle(state, "replaced" if replaced else "passed", replacers if replaced else [], text, overruled=plugins)
    return Finish(text=text, replaced=replaced, overruled=[reason for _, reason in reasons])


async def _settle(
    state: RunState,
    outcome: Literal["passed", "continued", "replaced", "blocked"],
    plugins: Sequence[str],
    said: str,
    *,
    continued: int = 0,
    overruled: Sequence[str] = (),
) -> None:
    """Keep what a run that goes on after a crash has to know, and tell the trace."""
    so_far = max(continued, state.continued or 0)
    state.continued = continued
    transcript = state.parts.transcript
    await transcript.save_state(FINISH, {"continued": continued, "asked": transcript.count})
    record = AnswerJudged(outcome=outcome, plugins=plugins, continued=so_far, overruled=overruled)
    await state.trace(record, lambda: Content(text=said))
