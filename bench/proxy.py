"""A proxy on loopback that delays requests and counts them.

It stands between every contestant and the S3 server, so that distance and counting are the
same for all. `python -m bench.proxy PORT MS...` forwards to PORT and listens once per delay;
it prints its ports, then answers each line of input with what passed since the last one.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from collections.abc import AsyncIterator, Callable
from dataclasses import asdict, dataclass

HOST = "127.0.0.1"
HEAD_LIMIT = 64 * 1024
BLOCK = 256 * 1024
LINE_END = b"\r\n"
UPSTREAM = 128
"""requests that the server gets at a time; more have to wait, idle clients take no place"""
BACKLOG = 512
GONE = (OSError, EOFError, asyncio.LimitOverrunError, ValueError)
"""what happens when one of the ends goes away"""

Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@dataclass(slots=True)
class Passed:
    """What went through."""

    requests: int = 0
    reads: int = 0
    """GET and HEAD among them"""
    sent_bytes: int = 0
    """bodies towards the server"""
    received_bytes: int = 0
    """bodies from the server"""


class Proxy:
    """Forwards HTTP/1.1 requests over a few connections that all clients share."""

    def __init__(self, target_port: int) -> None:
        self.passed = Passed()
        self._target = target_port
        self._places = asyncio.Semaphore(UPSTREAM)
        self._idle: list[Stream] = []
        self._servers: list[asyncio.Server] = []
        self._tasks: set[asyncio.Task[None]] = set()

    async def listen(self, delay_s: float) -> int:
        """Accept connections whose requests wait; return the port."""

        async def serve(*client: *Stream) -> None:
            task = asyncio.current_task()
            assert task is not None
            self._tasks.add(task)
            try:
                await self._serve(client, delay_s)
            finally:
                self._tasks.discard(task)

        server = await asyncio.start_server(serve, HOST, 0, limit=HEAD_LIMIT, backlog=BACKLOG)
        self._servers.append(server)
        port: int = server.sockets[0].getsockname()[1]
        return port

    async def close(self) -> None:
        """Stop listening, and end what goes on."""
        for server in self._servers:
            server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for _, writer in self._idle:
            await _close(writer)

    async def _serve(self, client: Stream, delay_s: float) -> None:
        """Pass on the requests of one client, one after another."""
        reader, writer = client
        try:
            with contextlib.suppress(*GONE):
                goes_on = True
                while goes_on:
                    head = await reader.readuntil(b"\r\n\r\n")
                    if delay_s:
                        await asyncio.sleep(delay_s)
                    async with self._places, self._upstream() as upstream:
                        goes_on = await self._exchange(head, client, upstream)
        finally:
            await _close(writer)

    @contextlib.asynccontextmanager
    async def _upstream(self) -> AsyncIterator[Stream]:
        """A connection to the server, kept for others unless something goes wrong on it."""
        stream = None
        while self._idle and stream is None:
            stream = self._idle.pop()
            if stream[0].at_eof() or stream[1].is_closing():
                await _close(stream[1])
                stream = None
        stream = stream or await asyncio.open_connection(HOST, self._target, limit=HEAD_LIMIT)
        try:
            yield stream
        except BaseException:
            await _close(stream[1])
            raise
        self._idle.append(stream)

    async def _exchange(self, head: bytes, client: Stream, server: Stream) -> bool:
        """Pass on a request and its reply; tell whether the connection goes on."""
        fields = _fields(head)
        method = head.split(b" ", 1)[0]
        if fields.pop(b"expect", b"").lower() == b"100-continue":
            client[1].write(b"HTTP/1.1 100 Continue\r\n\r\n")
            head = b"\r\n".join(
                line for line in head.split(b"\r\n") if not line.lower().startswith(b"expect:")
            )
        server[1].write(head)
        self.passed.requests += 1
        self.passed.reads += method in (b"GET", b"HEAD")

        def count_sent(length: int) -> None:
            self.passed.sent_bytes += length

        def count_received(length: int) -> None:
            self.passed.received_bytes += length

        await _relay(client[0], server[1], fields, count_sent)
        reply = await server[0].readuntil(b"\r\n\r\n")
        client[1].write(reply)
        answered = _fields(reply)
        status = reply.split(b" ", 2)[1]
        if method != b"HEAD" and status not in (b"204", b"304"):
            await _relay(server[0], client[1], answered, count_received)
        await client[1].drain()
        if answered.get(b"connection", b"").lower() == b"close":
            server[1].close()
            return False
        return fields.get(b"connection", b"").lower() != b"close"


async def _close(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()


def _fields(head: bytes) -> dict[bytes, bytes]:
    """The header of a message, with names in small letters."""
    lines = head.split(b"\r\n")[1:]
    pairs = (line.split(b":", 1) for line in lines if b":" in line)
    return {name.strip().lower(): value.strip() for name, value in pairs}


async def _relay(
    source: asyncio.StreamReader,
    target: asyncio.StreamWriter,
    fields: dict[bytes, bytes],
    count: Callable[[int], None],
) -> None:
    """Pass on a body in blocks, each counted before it goes: who has it all finds it counted."""
    if b"chunked" not in fields.get(b"transfer-encoding", b"").lower():
        await _copy(source, target, int(fields.get(b"content-length", b"0")), count)
        return
    length = -1
    while length:
        line = await source.readline()
        length = int(line.split(b";")[0], 16)
        target.write(line)
        await _copy(source, target, length, count)
        await _copy(source, target, len(LINE_END), lambda _: None)


async def _copy(
    source: asyncio.StreamReader,
    target: asyncio.StreamWriter,
    length: int,
    count: Callable[[int], None],
) -> None:
    while length:
        block = await source.read(min(length, BLOCK))
        if not block:
            raise EOFError("the body ended early")
        count(len(block))
        target.write(block)
        await target.drain()
        length -= len(block)


async def main(target_port: int, delays_ms: list[float]) -> None:
    """Listen and answer questions until the input ends."""
    proxy = Proxy(target_port)
    ports = [await proxy.listen(delay / 1000) for delay in delays_ms]
    print(json.dumps(ports), flush=True)
    loop = asyncio.get_running_loop()
    while await loop.run_in_executor(None, sys.stdin.readline):
        print(json.dumps(asdict(proxy.passed)), flush=True)
        proxy.passed = Passed()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), [float(text) for text in sys.argv[2:]]))
