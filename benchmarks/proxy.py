"""What the proxy costs per call, beside a direct call to the same server on loopback.

Run: ``PYTHONPATH=tests python benchmarks/proxy.py [CALLS]``
"""

import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

import anyio
import httpx2
from model_server import ModelServer, by_hash

from s3gym.meter import Meter
from s3gym.proxy import Serving
from s3gym.proxy.recording import Recording
from s3gym.store.store import Store

PROMPT = "a word of a prompt " * 800


async def seconds(client: Any, url: str, calls: int, *, stream: bool) -> list[float]:
    """Return how long each call took."""
    found = []
    for number in range(calls):
        ask = [{"role": "user", "content": f"{PROMPT} {number}"}]
        began = time.perf_counter()
        await client.post(url, json={"model": "m", "messages": ask, "stream": stream})
        found.append(time.perf_counter() - began)
    return found


async def main(calls: int) -> None:
    """Print the median of direct and proxied calls, in ms."""
    with ModelServer(by_hash).running() as server, tempfile.TemporaryDirectory() as folder:
        with Store.create(Path(folder) / "calls.db") as store:
            answer = Recording(store, Meter()).answer
            async with (
                httpx2.AsyncClient(timeout=60) as client,
                Serving(answer, openai=server.url) as proxy,
            ):
                for stream in (False, True):
                    for name, url in (("direct", server.url), ("proxied", proxy.url)):
                        at = f"{url}/v1/chat/completions"
                        await seconds(client, at, 10, stream=stream)
                        taken = await seconds(client, at, calls, stream=stream)
                        kind = "stream" if stream else "whole"
                        print(f"{kind:7} {name:8} {1000 * median(taken):6.2f} ms per call")


if __name__ == "__main__":
    anyio.run(main, int(sys.argv[1]) if len(sys.argv) > 1 else 200)
