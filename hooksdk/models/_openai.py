"""What the models over OpenAI's SDK share: the key by which the provider finds a session's cache."""

from __future__ import annotations

import hashlib
import os

from hooksdk.models import current_session
from hooksdk.models._shared import SdkModel


class OpenAISdkModel(SdkModel):
    """A model behind one of OpenAI's APIs, at OpenAI itself or at another server that speaks it."""

    _package = "openai"
    _client_class = "AsyncOpenAI"
    _default_url = "https://api.openai.com/v1"

    @property
    def _asks_openai(self) -> bool:
        """True where no other server was named, to hooksdk or to the SDK."""
        return not ("base_url" in self._options or os.environ.get("OPENAI_BASE_URL"))

    def _cache_key(self) -> str | None:
        """A digest of the session's id, which may name a person: the same for all requests of a session. None for other
        servers, which may refuse the field."""
        session = current_session.get() if self._asks_openai else ""
        return hashlib.blake2b(session.encode(), digest_size=16).hexdigest() if session else None
