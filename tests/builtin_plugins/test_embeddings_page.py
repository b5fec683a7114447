"""The page on embeddings: its function for an endpoint ranks tools, and asks for as many vectors as the page says."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from builtin_plugins.tool_search.rankers import Document, EmbeddedRanker, Vectors

pytest.importorskip("numpy", reason="vectors need the extra `embeddings`")
pytestmark = pytest.mark.heavy

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "rank-with-embeddings.md"
TOOLS = {"search_listings": "Find homes for a stay.", "weeks_of_year": "Number the weeks."}


class Endpoint(ThreadingHTTPServer):
    """OpenAI's `/embeddings` on loopback, for texts of two meanings; it keeps how many texts it was sent."""

    texts = 0


class Handler(BaseHTTPRequestHandler):
    server: Endpoint  # pyright: ignore[reportIncompatibleVariableOverride]

    def do_POST(self) -> None:
        texts: list[str] = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["input"]
        self.server.texts += len(texts)
        vectors = [[1.0, 0.1] if "flat" in text or "listings" in text else [0.1, 1.0] for text in texts]
        rows = [{"index": index, "embedding": vector} for index, vector in enumerate(vectors)]
        body = json.dumps({"data": rows}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's name
        del format, args


@pytest.fixture
def endpoint(monkeypatch: pytest.MonkeyPatch) -> Iterator[Endpoint]:
    with Endpoint(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setenv("EMBEDDINGS_URL", f"http://127.0.0.1:{server.server_port}/v1")
        yield server
        server.shutdown()


def test_tools_vectors_are_asked_for_once_and_words_rank_without_the_endpoint(endpoint: Endpoint) -> None:
    (code,) = [block for block in PAGE.read_text("utf-8").split("```python\n")[1:] if "EMBEDDINGS_URL" in block]
    namespace: dict[str, Any] = {}
    exec(compile(code.partition("\n```")[0], PAGE.name, "exec"), namespace)
    documents = [
        Document(id=name, name=name, description=text, parameters=None, owner="demo", fingerprint=name)
        for name, text in TOOLS.items()
    ]
    ranker = EmbeddedRanker(documents, Vectors("my_vectors:embed", namespace["embed"]))

    assert [hit.id for hit in ranker.search("a flat in Lisbon", 1)] == ["search_listings"]
    assert endpoint.texts == len(TOOLS) + 1
    assert [hit.id for hit in ranker.search("another flat", 1)] == ["search_listings"]
    assert endpoint.texts == len(TOOLS) + 2

    endpoint.shutdown()
    endpoint.server_close()
    assert [hit.id for hit in ranker.search("weeks", 2)] == ["weeks_of_year"]
