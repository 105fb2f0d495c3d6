"""Real servers on the loopback address: S3, Azure, plain web servers, and a proxy that cuts.

Each one is a context manager. Azurite is installed once by npm below `.cache/`; where that is
not possible its tests are skipped, except under continuous integration, where they must run.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import shutil
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from email.utils import formatdate
from pathlib import Path
from tempfile import TemporaryDirectory
from uuid import uuid4

import pytest
from obstore.store import S3Store

HOST = "127.0.0.1"
REGION = "us-east-1"
AZURITE = "azurite@3.37.0"
CACHE = Path(__file__).parents[2] / ".cache"
READY_S = 60.0


@dataclass(frozen=True)
class S3Server:
    """A running S3 server with one bucket."""

    port: int
    bucket: str
    access_key_id: str = "test"
    secret_access_key: str = "test"
    """the only key it knows; presigned requests must be signed with it"""

    @property
    def endpoint(self) -> str:
        """Where it listens."""
        return f"http://{HOST}:{self.port}"

    def client(self) -> S3Store:
        """A client for its bucket."""
        return S3Store(
            self.bucket,
            endpoint=self.endpoint,
            region=REGION,
            access_key_id=self.access_key_id,
            secret_access_key=self.secret_access_key,
            virtual_hosted_style_request=False,
            client_options={"allow_http": True},
        )


@dataclass(frozen=True)
class AzureServer:
    """A running Azure Blob server with one container."""

    port: int
    account: str
    access_key: str
    container: str

    @property
    def endpoint(self) -> str:
        """Where the account is."""
        return f"http://{HOST}:{self.port}/{self.account}"


def free_port() -> int:
    """A port that nobody uses at the moment."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
        return port


def send(request: urllib.request.Request) -> int:
    """Send a request without any proxy; return the status."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=10) as reply:
            status: int = reply.status
            return status
    except urllib.error.HTTPError as error:
        error.close()
        return error.code


@contextmanager
def process(
    command: list[str], env: dict[str, str], log: Path
) -> Iterator[subprocess.Popen[bytes]]:
    """A program that runs as long as the block."""
    with log.open("wb") as output:
        started = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=os.environ | env
        )
        try:
            yield started
        finally:
            started.terminate()
            try:
                started.wait(10)
            except subprocess.TimeoutExpired:
                started.kill()
                started.wait()


def wait_until(ready: Callable[[], bool], server: subprocess.Popen[bytes], log: Path) -> None:
    """Return when `ready` is true; fail with the server's own words."""
    end = time.monotonic() + READY_S
    while server.poll() is None and time.monotonic() < end:
        try:
            if ready():
                return
        except OSError:
            pass
        time.sleep(0.05)
    raise RuntimeError(f"server did not start:\n{log.read_text(errors='replace')[-2000:]}")


@contextmanager
def s3_server() -> Iterator[S3Server]:
    """ministack, in memory; it honours conditions, and checks presigned requests only."""
    server = S3Server(free_port(), f"bucket-{uuid4().hex[:8]}")
    with TemporaryDirectory() as folder:
        log = Path(folder) / "server.log"
        env = {
            "BIND_HOST": HOST,
            "MINISTACK_HOST": HOST,
            "GATEWAY_PORT": str(server.port),
            "SERVICES": "s3",
            "SFTP_ENABLED": "0",
            "IOT_MTLS_ENABLED": "0",
            "LOG_LEVEL": "WARNING",
            "S3_PERSIST": "0",
            "PERSIST_STATE": "0",
            "S3_DATA_DIR": f"{folder}/s3",
            "STATE_DIR": f"{folder}/state",
            "TMPDIR": folder,
        }
        with process([sys.executable, "-m", "ministack"], env, log) as running:
            create = urllib.request.Request(f"{server.endpoint}/{server.bucket}", method="PUT")
            wait_until(lambda: send(create) in (200, 409), running, log)
            yield server


def install_azurite() -> Path:
    """The program of Azurite, installed on first use."""
    home = CACHE / AZURITE.replace("@", "-")
    program = home / "node_modules" / "azurite" / "dist" / "src" / "blob" / "main.js"
    if program.exists():
        return program
    npm = shutil.which("npm")
    if npm is None or shutil.which("node") is None:
        raise FileNotFoundError("Azurite needs node and npm")
    home.mkdir(parents=True, exist_ok=True)
    (home / "package.json").write_text("{}\n")
    flags = ["--omit=dev", "--no-audit", "--no-fund", "--no-save", "--ignore-scripts"]
    done = subprocess.run(
        [npm, "install", "--prefix", str(home), *flags, AZURITE],
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    if done.returncode or not program.exists():
        raise FileNotFoundError(f"npm could not install {AZURITE}: {done.stderr[-500:]}")
    return program


def azurite_or_skip() -> Path:
    """The program of Azurite, or a skipped test; under continuous integration a failure."""
    try:
        return install_azurite()
    except (OSError, subprocess.TimeoutExpired) as error:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(f"no Azure server: {error}")


@contextmanager
def azure_server(program: Path) -> Iterator[AzureServer]:
    """Azurite, in memory."""
    key = base64.b64encode(hashlib.sha512(b"only-for-tests").digest()).decode()
    server = AzureServer(free_port(), "fraziltests", key, f"container-{uuid4().hex[:8]}")
    with TemporaryDirectory() as folder:
        log = Path(folder) / "server.log"
        flags = ["--inMemoryPersistence", "--silent", "--disableTelemetry", "--skipApiVersionCheck"]
        where = ["--blobHost", HOST, "--blobPort", str(server.port)]
        env = {"AZURITE_ACCOUNTS": f"{server.account}:{key}"}
        with process(["node", str(program), *where, *flags], env, log) as running:
            wait_until(lambda: _create_container(server) in (201, 409), running, log)
            yield server


def _create_container(server: AzureServer) -> int:
    date = formatdate(usegmt=True)
    head = {"x-ms-date": date, "x-ms-version": "2021-12-02"}
    canonical = "".join(f"{name}:{value}\n" for name, value in head.items())
    resource = f"/{server.account}/{server.account}/{server.container}\nrestype:container"
    text = "PUT" + "\n" * 12 + canonical + resource
    digest = hmac.new(base64.b64decode(server.access_key), text.encode(), hashlib.sha256).digest()
    head["Authorization"] = f"SharedKey {server.account}:{base64.b64encode(digest).decode()}"
    url = f"{server.endpoint}/{server.container}?restype=container"
    return send(urllib.request.Request(url, method="PUT", headers=head))


BUSY = b"HTTP/1.1 503 Slow Down\r\nContent-Length: 0\r\n\r\n"


class CuttingProxy:
    """Forwards connections to a server and, when told to, loses requests or replies to them."""

    def __init__(self, target_port: int) -> None:
        self._target = target_port
        self._listener = socket.create_server((HOST, 0))
        self.port: int = self._listener.getsockname()[1]
        self._to_cut: list[tuple[bytes, Callable[[], object], float, bytes]] = []
        self._to_refuse: list[bytes] = []
        self._to_swallow: list[bytes] = []
        self._swallowed: list[bytes] = []
        self._lock = threading.Lock()
        self.cuts = 0
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def endpoint(self) -> str:
        """Where it listens."""
        return f"http://{HOST}:{self.port}"

    def lose_reply_to(
        self,
        method: str,
        times: int = 1,
        then: Callable[[], object] = lambda: None,
        passed: float = 0.0,
        naming: str = "",
    ) -> None:
        """Do something else, and drop the connection, instead of passing on the next replies.

        Of the body of each reply the share that is `passed` gets through. Only requests count that
        have some text in them.
        """
        self._to_cut += [(method.encode(), then, passed, naming.encode())] * times

    def refuse(self, method: str, times: int = 1) -> None:
        """Say that the server is busy, instead of passing the next requests on."""
        self._to_refuse += [method.encode()] * times

    def swallow(self, method: str) -> None:
        """Drop the connection instead of passing the next request on."""
        self._to_swallow.append(method.encode())

    def deliver(self) -> None:
        """Pass on, late, what was swallowed."""
        for request in self._swallowed:
            with socket.create_connection((HOST, self._target)) as server:
                server.sendall(request)
                assert _message(server, request.split(b" ", 1)[0])

    def close(self) -> None:
        """Stop listening."""
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with client, socket.create_connection((HOST, self._target)) as server:
            while request := _message(client):
                if self._is_due(self._to_refuse, request):
                    client.sendall(BUSY)
                    continue
                if self._is_due(self._to_swallow, request):
                    self._swallowed.append(request)
                    return
                server.sendall(request)
                reply = _message(server, request.split(b" ", 1)[0])
                passed = self._takes(request)
                if passed is not None:
                    head, _, body = reply.partition(b"\r\n\r\n")
                    if passed:
                        client.sendall(head + b"\r\n\r\n" + body[: int(len(body) * passed)])
                    return
                client.sendall(reply)

    def _is_due(self, methods: list[bytes], request: bytes) -> bool:
        method = request.split(b" ", 1)[0]
        with self._lock:
            if method not in methods:
                return False
            methods.remove(method)
            self.cuts += 1
            return True

    def _takes(self, request: bytes) -> float | None:
        method = request.split(b" ", 1)[0]
        with self._lock:
            cut = next((c for c in self._to_cut if c[0] == method and c[3] in request), None)
            if cut is None:
                return None
            self._to_cut.remove(cut)
            self.cuts += 1
        cut[1]()
        return cut[2]


def _message(stream: socket.socket, answered: bytes = b"") -> bytes:
    """One whole HTTP message; empty when the peer has closed."""
    data = b""
    while b"\r\n\r\n" not in data:
        part = stream.recv(65536)
        if not part:
            return b""
        data += part
    head, _, body = data.partition(b"\r\n\r\n")
    lines = {
        k.strip().lower(): v.strip() for k, _, v in (h.partition(b":") for h in head.split(b"\r\n"))
    }
    if answered == b"HEAD" or head.split(b" ")[1:2] in ([b"204"], [b"304"]):
        return data
    if b"chunked" in lines.get(b"transfer-encoding", b""):
        while not body.endswith(b"0\r\n\r\n"):
            body += stream.recv(65536)
        return head + b"\r\n\r\n" + body
    length = int(lines.get(b"content-length", b"0"))
    while len(body) < length:
        part = stream.recv(65536)
        if not part:
            return b""
        body += part
    return head + b"\r\n\r\n" + body
