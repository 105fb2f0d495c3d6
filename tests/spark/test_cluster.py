"""A cluster: a master and two workers in processes of their own, which share nothing but a store.

A job is handed over by spark-submit and works through the public names while its executors are
killed, one in each step, and attempts that are slow are made twice.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import obstore
import pyspark
import pytest
import xarray as xr
from numpy.typing import NDArray

import frazil
from frazil.fsck import verify
from tests.support.archive import many
from tests.support.servers import (
    REGION,
    S3Server,
    free_port,
    process,
    s3_server,
    wait_until,
)
from tests.support.spark_jobs import two_hosts

pytestmark = [pytest.mark.soak, pytest.mark.slow, pytest.mark.timeout(1800)]

SOURCE = str(Path(frazil.__file__).parents[1])
WORK = Path(__file__).with_name("cluster_work.py")
FILES, GRID = 16, (60, 80)
MAY_DIE_UNSEEN = {"references"}
"""Steps that may be over before two tasks run at once."""


@dataclass(frozen=True)
class Ground:
    """A cluster with a store, and what a job on it found."""

    server: S3Server
    values: NDArray[np.float32]
    told: dict[str, dict[str, Any]] = field(default_factory=dict)

    @property
    def environment(self) -> dict[str, str]:
        """How programs reach the store."""
        return {
            "AWS_ENDPOINT_URL": self.server.endpoint,
            "AWS_ALLOW_HTTP": "true",
            "AWS_REGION": REGION,
            "AWS_ACCESS_KEY_ID": self.server.access_key_id,
            "AWS_SECRET_ACCESS_KEY": self.server.secret_access_key,
        }

    def open(self, name: str) -> frazil.Repository:
        """A repository of the job."""
        storage = frazil.s3_storage(
            bucket=self.server.bucket,
            prefix=name,
            region=REGION,
            endpoint_url=self.server.endpoint,
            allow_http=True,
            force_path_style=True,
            access_key_id=self.server.access_key_id,
            secret_access_key=self.server.secret_access_key,
        )
        return frazil.Repository.open(storage)

    def read(self, name: str, group: str | None = None) -> xr.Dataset:
        """What a repository of the job has now."""
        store = self.open(name).readonly_session("main").store
        found: xr.Dataset = xr.open_zarr(store, group=group, consolidated=False).load()
        return found


def put_files(server: S3Server, folder: Path) -> NDArray[np.float32]:
    """Files of one day each, in the store; what they hold."""
    bucket = server.client()
    values = many(folder, FILES, GRID)
    for file in folder.iterdir():
        obstore.put(bucket, f"files/{file.name}", file)
    return values


def submission(ground: Ground, master: str, **settings: str) -> list[str]:
    """The beginning of a command line of spark-submit."""
    known = {
        "spark.driver.host": "127.0.0.1",
        "spark.executor.memory": "700m",
        "spark.python.daemon.module": "frazil.spark.daemon",
        "spark.executorEnv.PYTHONPATH": SOURCE,
        **{f"spark.executorEnv.{name}": text for name, text in ground.environment.items()},
        **{name.replace("_", "."): text for name, text in settings.items()},
    }
    given = [part for name, text in known.items() for part in ("--conf", f"{name}={text}")]
    return [str(Path(pyspark.__file__).parent / "bin" / "spark-submit"), "--master", master, *given]


def environment(ground: Ground) -> dict[str, str]:
    """What drivers find in theirs."""
    own = {"PYSPARK_PYTHON": sys.executable, "PYTHONPATH": SOURCE}
    return {**os.environ, **ground.environment, **own}


def submitted(ground: Ground, master: str, driver: Path, mode: str) -> dict[str, dict[str, Any]]:
    """Hand the work over to the cluster, and give what it told of each step."""
    command = submission(
        ground,
        master,
        spark_speculation="true",
        spark_speculation_interval="100ms",
        spark_speculation_multiplier="1.2",
        spark_speculation_quantile="0.5",
        spark_task_maxFailures="8",
    )
    arguments = [f"s3://{ground.server.bucket}", str(driver / "state"), master, mode]
    with (driver / "job.log").open("wb") as log:
        done = subprocess.run(
            [*command, str(WORK), *arguments],
            env=environment(ground),
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            timeout=1500,
            check=False,
        )
    assert done.returncode == 0, done.stdout + (driver / "job.log").read_text()[-4000:]
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return {line["step"]: line for line in lines}


@contextmanager
def worked(place: Path, mode: str) -> Iterator[Ground]:
    """A store and a cluster on which the work was done; executors died if `mode` is "kill"."""
    driver = place / "driver"
    driver.mkdir(parents=True)
    with s3_server() as server, two_hosts(place, hidden=driver) as master:
        ground = Ground(server, put_files(server, driver / "files"))
        ground.told.update(submitted(ground, master, driver, mode))
        yield ground


@pytest.fixture(scope="module")
def ground(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ground]:
    """All the work, with an executor dying in each step of it."""
    with worked(tmp_path_factory.mktemp("cluster"), "kill") as found:
        yield found


def test_executors_died_under_way(ground: Ground) -> None:
    unseen = {name for name, told in ground.told.items() if not told["died"]}
    assert unseen <= MAY_DIE_UNSEEN, ground.told


def test_files_were_taken_in_once(ground: Ground) -> None:
    np.testing.assert_array_equal(ground.read("repo").v, ground.values)
    assert ground.told["ingest"]["result"] == FILES // 2 * 2
    assert ground.told["references"]["result"] == FILES


def test_rows_were_written_once(ground: Ground) -> None:
    found = ground.read("repo", "made").w.values
    assert found.shape == (240, 200)
    np.testing.assert_array_equal(found[:200].ravel(), np.arange(40_000))
    np.testing.assert_array_equal(found[200:].ravel(), np.arange(8_000))
    assert ground.told["append"]["result"] == 48_000


def test_a_query_gave_the_right_means(ground: Ground) -> None:
    wanted = ground.values[:, :, :40].astype("f8").mean(axis=(0, 2))
    np.testing.assert_allclose(ground.told["sql"]["result"], wanted, rtol=1e-6)


def test_a_stream_came_over_whole(ground: Ground) -> None:
    batches, rows = ground.told["stream"]["result"]
    assert batches > 1
    assert rows == ground.values.size
    np.testing.assert_array_equal(ground.read("stream").v, ground.values)
    assert len([*ground.open("stream").ancestry(branch="main")]) == batches + 1


def test_chunks_have_their_new_shape(ground: Ground) -> None:
    session = ground.open("repo").readonly_session("main")
    assert session.array("v").chunks == (FILES, 10, 20)


def test_upkeep_left_a_sound_repository(ground: Ground) -> None:
    packed, expired, swept = ground.told["maintain"]["result"]
    assert min(expired, swept) > 0, packed
    assert ground.told["fsck"]["result"] == []
    copy = ground.read("copy")
    np.testing.assert_array_equal(copy.v, ground.values)
    for name in ("repo", "stream", "copy", "virtual"):
        assert verify(ground.open(name)).is_sound, name


def test_every_step_was_one_commit(ground: Ground) -> None:
    """Attempts that were repeated or made twice left nothing in the history."""
    messages = [each.message for each in ground.open("copy").ancestry(branch="main")]
    assert len(messages) == len(set(messages)), messages


CONNECTED = """
import sys

import frazil.spark as fs

root, port = sys.argv[1:]
spark = fs.session(f"sc://127.0.0.1:{port}")
assert "connect" in type(spark).__module__
fs.ingest(f"{root}/files/*.nc", f"{root}/repo", spark=spark, mode="native", chunks={"time": 4})
spark.conf.set("spark.frazil.sql.localBytes", "0")
assert fs.sql(f"SELECT count(v) AS n FROM frazil.`{root}/repo`", spark).first().n == 76_800
fs.rechunk(f"{root}/repo", "v", {"time": -1, "y": 10}, spark=spark)
assert fs.fsck(f"{root}/repo", spark=spark, deep=True).count() == 0
"""
"""What a client does, which has no JVM."""


def test_a_connect_server_on_the_cluster_serves_clients(tmp_path: Path) -> None:
    driver, log = tmp_path / "driver", tmp_path / "connect.log"
    driver.mkdir()
    with s3_server() as server, two_hosts(tmp_path, hidden=driver) as master:
        ground, port = Ground(server, put_files(server, driver / "files")), free_port()
        command = submission(ground, master, spark_connect_grpc_binding_port=str(port))
        kind = "org.apache.spark.sql.connect.service.SparkConnectServer"
        with process([*command, "--class", kind, "spark-internal"], environment(ground), log) as up:
            wait_until(lambda: is_open(port), up, log)
            arguments = [f"s3://{server.bucket}", str(port)]
            subprocess.run(
                [sys.executable, "-c", CONNECTED, *arguments], env=environment(ground), check=True
            )
        found = ground.read("repo").v
        np.testing.assert_array_equal(found, ground.values)
        assert ground.open("repo").readonly_session("main").array("v").chunks == (FILES, 10, 80)


def is_open(port: int) -> bool:
    """Whether somebody listens there."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
