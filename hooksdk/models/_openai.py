"""What the models over OpenAI's SDK share: their options, and the key by which the provider finds a session's cache."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from typing import Any, Literal

from hooksdk.models._protocol import OnText, current_session
from hooksdk.models._shared import SdkModel
from hooksdk.tools import Deferral


class OpenAISdkModel(SdkModel):
    """A model behind one of OpenAI's APIs, asked of OpenAI itself or of another server that speaks it."""

    _package = "openai"
    _client_class = "AsyncOpenAI"
    _default_url = "https://api.openai.com/v1"

    def __init__(
        self,
        name: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        context_window: int | None = None,
        max_tokens: int | None = None,
        stream: bool = False,
        on_text: OnText | None = None,
        timeout: float = 600.0,
        headers: Mapping[str, str] | None = None,
        extra: Mapping[str, Any] | None = None,
        deferral: Deferral | Literal["auto"] = "auto",
        provider: str = "openai",
    ) -> None:
        super().__init__(
            name,
            base_url=base_url,
            api_key=api_key,
            context_window=context_window,
            stream=stream,
            on_text=on_text,
            timeout=timeout,
            headers=headers,
            extra=extra,
            deferral=deferral,
        )
        self.provider = provider
        self._max_tokens = max_tokens
        self._asks_openai = not (base_url or os.environ.get("OPENAI_BASE_URL"))  # which the SDK reads, too

    def _cache_key(self) -> str | None:
        """The same for all requests of a session, and nothing that says which: ids may name people. None for other servers,
        which may refuse the field."""
        session = current_session.get() if self._asks_openai else ""
        return hashlib.blake2b(session.encode(), digest_size=16).hexdigest() if session else None
