"""A proxy in front of an S3 server that loses, delays and refuses, as networks and servers do.

Run as `python -m tests.histories.proxy SETTINGS`; it prints its ports, and ends when its input
is closed. One port loses whatever it likes; the other is for clients that cannot know whether
a request was done when its reply is lost: it delays, and refuses before anything was done.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import re
import sys
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from typing import Final

from tests.histories.field import HELD_S

HOST: Final = "127.0.0.1"
DELAY_S: Final = 0.06
"""The mean of delays."""

LOSSY: Final[Mapping[str, float]] = {
    "delay": 0.08,
    "lose request": 0.012,
    "lose reply": 0.02,
    "refuse": 0.015,
    "do and refuse": 0.015,
    "do and hold": 0.004,
    "hold and do": 0.004,
    "cut reply": 0.006,
}
"""How often what happens to a request."""
CAREFUL: Final[Mapping[str, float]] = {"delay": 0.08, "refuse": 0.02}
FORGETFUL: Final[Mapping[str, float]] = {"delay": 0.08, "forget condition": 0.2}
SWAPS: Final = 3.0
"""How much more often faults meet the writes that move refs."""
_CONDITION: Final = re.compile(rb"(?i)if-(none-)?match:[^\r]*\r\n")
STORM: Final = 8.0
"""How much more often they come while a storm lasts."""
STORM_EVERY_S: Final = 12.0
ERROR: Final = (
    b"<?xml version='1.0'?><Error><Code>%s</Code><Message>a fault of the test</Message></Error>"
)


@dataclass(frozen=True, slots=True)
class Settings:
    """What a proxy is told."""

    target: int
    """the port of the server"""
    seed: int
    forgets_conditions: bool = False
    """to see that a run notices: the server then overwrites what others have changed"""


@dataclass(slots=True)
class Faults:
    """Chooses what happens to a request, by a seed."""

    rates: Mapping[str, float]
    rng: random.Random
    seen: Counter[str] = field(default_factory=Counter)
    next_storm: float = 0.0
    storm_ends: float = 0.0

    def next(self, head: bytes, now: float) -> str:
        """The fault of a request, or `pass`."""
        method, _, path = head.partition(b" ")
        moves_ref = method == b"PUT" and (b"/repo " in path[:200] or b"ref.json" in path)
        often = (SWAPS if moves_ref else 1.0) * (STORM if self.is_stormy(now) else 1.0)
        drawn = self.rng.random()
        for name, share in self.rates.items():
            drawn -= share * often
            if drawn < 0:
                self.seen[name] += 1
                return name
        self.seen["pass"] += 1
        return "pass"

    def is_stormy(self, now: float) -> bool:
        """Whether most requests fail for a while, so that clients give up."""
        if now > self.next_storm:
            if self.next_storm:
                self.storm_ends = now + self.rng.uniform(0.2, 1.5)
                self.seen["storm"] += 1
            self.next_storm = now + self.rng.expovariate(1 / STORM_EVERY_S)
        return now < self.storm_ends


class LostError(Exception):
    """The connection is to be cut."""


class CutError(LostError):
    """The connection is to be cut after a part of the reply."""

    def __init__(self, part: bytes) -> None:
        super().__init__()
        self.part = part


@dataclass(slots=True)
class Proxy:
    """One port with its faults."""

    target: int
    faults: Faults

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection of a client."""
        upstream: Upstream | None = None
        try:
            upstream = Upstream(*await asyncio.open_connection(HOST, self.target))
            while request := await read_message(reader):
                writer.write(await self.answer(request, upstream))
                await writer.drain()
        except CutError as cut:
            writer.write(cut.part)
            with suppress(ConnectionError):
                await writer.drain()
        except (LostError, ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()
            if upstream is not None:
                upstream.writer.close()

    async def answer(self, request: Message, upstream: Upstream) -> bytes:
        """What the client gets to see."""
        rng = self.faults.rng
        match self.faults.next(request.head, asyncio.get_running_loop().time()):
            case "delay":
                await asyncio.sleep(rng.expovariate(1 / DELAY_S))
                reply = await upstream.ask(request)
                await asyncio.sleep(rng.choice((0, rng.expovariate(1 / DELAY_S))))
                return reply
            case "lose request":
                raise LostError
            case "lose reply":
                await upstream.ask(request)
                raise LostError
            case "refuse":
                return refusal(rng.choice((500, 503)))
            case "do and refuse":
                await upstream.ask(request)
                return refusal(rng.choice((500, 502, 503, 504)))
            case "do and hold":
                await upstream.ask(request)
                await asyncio.sleep(HELD_S)
                raise LostError
            case "hold and do":
                await asyncio.sleep(HELD_S * rng.uniform(0.5, 1.0))
                return await upstream.ask(request)
            case "forget condition":
                return await upstream.ask(Message(_CONDITION.sub(b"", request.head), request.body))
            case "cut reply":
                reply = await upstream.ask(request)
                raise CutError(reply[: rng.randrange(max(1, len(reply)))])
            case _:
                return await upstream.ask(request)


@dataclass(frozen=True, slots=True)
class Message:
    """A request or a reply, whole."""

    head: bytes
    body: bytes

    @property
    def whole(self) -> bytes:
        """Its bytes."""
        return self.head + self.body


@dataclass(frozen=True, slots=True)
class Upstream:
    """A connection to the server."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def ask(self, request: Message) -> bytes:
        """Forward a request, and return the whole reply."""
        self.writer.write(request.whole)
        await self.writer.drain()
        reply = await read_message(self.reader, request.head.startswith(b"HEAD "))
        if reply is None:
            raise LostError
        return reply.whole


async def read_message(reader: asyncio.StreamReader, answers_head: bool = False) -> Message | None:
    """The next message of a stream; None at its end."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except (asyncio.IncompleteReadError, ConnectionError):
        return None
    first, *lines = head[:-4].split(b"\r\n")
    pairs = (line.partition(b":") for line in lines)
    fields = {name.strip().lower(): value.strip() for name, _, value in pairs}
    status = first.split(b" ")[1:2]
    if answers_head or status in ([b"204"], [b"304"]):
        return Message(head, b"")
    if b"chunked" in fields.get(b"transfer-encoding", b"").lower():
        return Message(head, await _chunked(reader))
    return Message(head, await reader.readexactly(int(fields.get(b"content-length", b"0"))))


async def _chunked(reader: asyncio.StreamReader) -> bytes:
    body = b""
    while True:
        line = await reader.readuntil(b"\r\n")
        size = int(line.split(b";")[0], 16)
        body += line + await reader.readexactly(size + 2)
        if size == 0:
            return body


def refusal(status: int) -> bytes:
    """The answer of a server that cannot, or says that it cannot."""
    body = ERROR % (b"SlowDown" if status == 503 else b"InternalError")
    head = f"HTTP/1.1 {status} Fault\r\ncontent-type: application/xml\r\n"
    return f"{head}content-length: {len(body)}\r\n\r\n".encode() + body


async def run(settings: Settings) -> None:
    """Serve until the input is closed; then print how often what has happened."""
    rng = random.Random(settings.seed)
    kinds = (FORGETFUL, FORGETFUL) if settings.forgets_conditions else (LOSSY, CAREFUL)
    proxies = [
        Proxy(settings.target, Faults(rates, random.Random(rng.random()))) for rates in kinds
    ]
    servers = [await asyncio.start_server(each.serve, HOST, 0, limit=1 << 20) for each in proxies]
    ports = [each.sockets[0].getsockname()[1] for each in servers]
    print(json.dumps(ports), flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    seen = sum((each.faults.seen for each in proxies), Counter[str]())
    print(json.dumps(seen), flush=True)
    os._exit(0)  # some requests are held, and nobody waits for them any more


def command(settings: Settings) -> list[str]:
    """How to start one."""
    return [sys.executable, "-m", "tests.histories.proxy", json.dumps(asdict(settings))]


if __name__ == "__main__":
    asyncio.run(run(Settings(**json.loads(sys.argv[1]))))
