"""While the host shortens its messages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

from hooksdk._masking.mask import SecretMask
from hooksdk._transcript.journal import Ledger
from hooksdk.formats import GivenMessage, get_format
from hooksdk.formats.intake import messages_in
from hooksdk.transcript import Transcript


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
