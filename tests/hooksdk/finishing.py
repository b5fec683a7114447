"""Plugins that judge an answer, for the tests of every framework."""

from __future__ import annotations

from hooksdk import hooks
from hooksdk.hooks import BeforeAnswer, Continue, Replace


class NeedsProof:
    """Sends the model on until its reply holds a word."""

    @hooks.before_answer
    def judge(self, event: BeforeAnswer) -> Continue | None:
        return None if "proof" in event.text else Continue("Show the proof.")


class Redacts:
    """Puts another text in the place of the answer."""

    @hooks.before_answer.last
    def judge(self, event: BeforeAnswer) -> Replace | None:
        return Replace(event.text.replace("Ada", "[name]")) if "Ada" in event.text else None
