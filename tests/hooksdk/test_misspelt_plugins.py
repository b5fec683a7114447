"""What a host says of a plugin that the configuration names and nobody has."""

from __future__ import annotations

import pytest

from hooksdk import Host, hooks
from hooksdk.errors import ConfigError


def test_a_section_for_a_misspelt_plugin_keeps_the_host_from_starting_without_its_policy() -> None:
    with pytest.raises(ConfigError, match=r"'plugins.tool_polcy': no such plugin .* Did you mean 'tool_policy'\?"):
        Host(config={"plugins": {"tool_polcy": {"config": {"default": "deny"}}}})


def test_a_section_for_a_plugin_that_is_simply_not_there_is_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    Host(config={"plugins": {"quite_another_thing": {}}})
    assert "[plugins.quite_another_thing] is for a plugin that is neither installed nor given" in caplog.text


def test_a_plugin_that_is_switched_on_in_so_many_words_and_is_not_there_keeps_the_host_from_starting():
    config = {"plugins": {"quite_another_thing": {"enabled": True}}}
    with pytest.raises(ConfigError, match=r"enabled = true, and no such plugin .* write enabled = false"):
        Host(config=config)

    class QuiteAnotherThing:
        @hooks.agent_start
        def see(self, event: hooks.AgentStart) -> None:
            del event

    Host([QuiteAnotherThing], config=config)


def test_a_misspelt_name_in_deny_is_a_warning_with_a_suggestion(caplog: pytest.LogCaptureFixture) -> None:
    Host(config={"deny": ["tool_serch"]})
    assert "'tool_serch' in deny or allow is no known plugin. Did you mean 'tool_search'?" in caplog.text
