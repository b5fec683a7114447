"""A real browser for tests: Chromium without a window, spoken to over its DevTools protocol."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from websockets.sync.client import connect
from websockets.sync.connection import Connection

FLAGS = [
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage", "--no-proxy-server", "--remote-debugging-port=0",
]  # fmt: skip
PATIENCE = 120.0
"""Seconds that the browser has for one answer; it is slow on a busy machine."""


def find_browser() -> str:
    """The browser's program; without one the test is skipped."""
    found = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if found is None:
        pytest.skip("no Chromium here: apt-get install chromium")
    return found


@dataclass
class Browser:
    """One tab, and what happened in it."""

    socket: Connection
    tab: str = ""
    requests: list[str] = field(default_factory=list[str])
    complaints: list[str] = field(default_factory=list[str])
    """What the page wrote to its console, errors of its script, and what its policy forbade."""
    loaded: int = 0
    _last: int = 0

    def send(self, method: str, **parameters: Any) -> dict[str, Any]:
        """The answer to a command."""
        self._last += 1
        order = {"id": self._last, "method": method, "params": parameters}
        self.socket.send(json.dumps({**order, "sessionId": self.tab} if self.tab else order))
        while True:
            message = self._receive()
            if message.get("id") == self._last:
                assert "error" not in message, message["error"]
                return message["result"]

    def _receive(self) -> dict[str, Any]:
        message: dict[str, Any] = json.loads(self.socket.recv(timeout=PATIENCE))
        method, values = message.get("method"), message.get("params", {})
        if method == "Network.requestWillBeSent":
            self.requests.append(values["request"]["url"])
        elif method in {"Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded", "Audits.issueAdded"}:
            self.complaints.append(json.dumps(values)[:500])
        elif method == "Page.loadEventFired":
            self.loaded += 1
        return message

    def open(self, page: Path | str, *, width: int = 1280, dark: bool = False, script: bool = True) -> None:
        """Load a page from its file or address, and wait until it is there."""
        self.requests.clear()
        self.complaints.clear()
        before = self.loaded
        self.send("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.send("Emulation.setEmulatedMedia", features=[scheme])
        self.send("Emulation.setScriptExecutionDisabled", value=not script)
        self.send("Page.navigate", url=page if isinstance(page, str) else page.as_uri())
        while self.loaded == before:
            self._receive()
        self.evaluate("1")  # whatever was reported while it loaded comes before this answer

    def evaluate(self, expression: str) -> Any:
        """The value of an expression in the page."""
        answer = self.send("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")


@contextmanager
def running_browser(profile: Path) -> Generator[Browser]:
    """A browser with a new profile, and one tab."""
    command = [find_browser(), *FLAGS, f"--user-data-dir={profile}", "about:blank"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            with connect(_address(profile, process), max_size=None, proxy=None, open_timeout=PATIENCE) as socket:
                browser = Browser(socket)
                target = browser.send("Target.createTarget", url="about:blank")["targetId"]
                browser.tab = browser.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
                for domain in ("Page", "Runtime", "Log", "Network", "Audits"):
                    browser.send(f"{domain}.enable")
                yield browser
        finally:
            process.terminate()


def _address(profile: Path, process: subprocess.Popen[bytes]) -> str:
    """Where it listens, which it writes into its profile once it does."""
    told = profile / "DevToolsActivePort"
    deadline = time.monotonic() + PATIENCE
    while not told.is_file() or "\n" not in told.read_text():
        assert process.poll() is None, f"the browser ended with {process.returncode}"
        assert time.monotonic() < deadline, "the browser does not listen"
        time.sleep(0.05)
    port, path = told.read_text().split("\n")[:2]
    return f"ws://127.0.0.1:{port}{path}"
