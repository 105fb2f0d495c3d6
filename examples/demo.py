"""The main job from end to end, on a Spark that runs inside this process.

    python examples/demo.py [FOLDER] [--days N]

Makes an archive of NetCDF files, ingests it by reference, appends three more days, asks by SQL,
rechunks, looks at history and storage, goes back in time, and draws a map. FOLDER (build/demo by
default) keeps the archive, the repository and the map; what an earlier run left there is removed.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import xarray as xr
from archive import FIRST, write_days  # type: ignore[import-not-found]  # beside this file
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

import frazil
import frazil.spark
from frazil.cli.app import make_app
from frazil.spark.jobs.copying import ingest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DEFAULT = Path(__file__).resolve().parents[1] / "build" / "demo"
DAYS = 92
MORE = 3
MEANS = """
    SELECT date_format(time, 'yyyy-MM') AS month,
           count(DISTINCT time) AS days,
           round(sum(t2m * cos(radians(lat))) / sum(cos(radians(lat))) - 273.15, 3) AS air,
           round(sum(sst * cos(radians(lat)))
                 / sum(cos(radians(lat))) FILTER (WHERE sst IS NOT NULL) - 273.15, 3) AS sea
    FROM frazil.fields {version} GROUP BY month ORDER BY month
"""

Tell = Callable[[int, int], None]


@dataclass
class Screen:
    """Steps with their times on standard output, progress on standard error."""

    begun: float = field(default_factory=time.monotonic)
    step: int = 0

    def title(self, text: str) -> None:
        """Begin a step."""
        self.step += 1
        print(f"\n[{time.monotonic() - self.begun:5.1f} s] {self.step}. {text}", flush=True)

    @contextmanager
    def progress(self, text: str) -> Iterator[Tell]:
        """A bar, to be told how much is done and how much there is."""
        console = Console(stderr=True)
        columns = (TextColumn("  {task.description}"), BarColumn(40), TimeElapsedColumn())
        with Progress(*columns, console=console, transient=True) as bar:
            task = bar.add_task(text, total=None)
            yield lambda done, total: bar.update(task, completed=done, total=total)


@dataclass
class Demo:
    """The repository, its archive, and the Spark that works on them."""

    folder: Path
    spark: SparkSession
    screen: Screen
    days: int = DAYS

    @property
    def archive(self) -> Path:
        """The folder of NetCDF files."""
        return self.folder / "archive"

    @property
    def url(self) -> str:
        """The repository."""
        return str(self.folder / "repository")

    @property
    def allowed(self) -> str:
        """Where virtual chunks may be read from: nowhere unless a reader says so."""
        return f"{self.archive.resolve().as_uri()}/"

    # --- steps ---

    def run(self) -> None:
        """All of it."""
        first = self.ingest(self.days, f"Daily fields, {self.days} days", "Ingest by reference")
        self.ask("Ask by SQL: means per month, weighted by area, in °C")
        self.ingest(MORE, f"{MORE} more days", "Append", after=self.days)
        self.rechunk()
        self.look(first)
        self.ask("The newest answer, with the days that were appended")
        self.ask(f"The older answer, at the first commit: {first}", snapshot_id=first)
        self.draw()
        self.invite()

    def ingest(self, count: int, message: str, title: str, after: int = 0) -> str:
        """Write files of the archive and take them into the repository in one commit."""
        self.screen.title(f"{title}: {count} NetCDF files, packed as 16-bit integers")
        with self.screen.progress("writing files") as tell:
            files = []
            for path in write_days(self.archive, FIRST + timedelta(days=after), count):
                files.append(str(path))
                tell(len(files), count)
        with self.screen.progress("ingesting") as tell:
            report = ingest(
                files,
                self.url,
                spark=self.spark,
                append=after > 0,
                message=message,
                progress=lambda now: tell(now.done, now.total),
            )
        assert report.snapshot_id is not None
        print(
            f"  {len(report.files)} files, {report.virtual_chunks} chunks by reference, "
            f"{report.referenced_bytes / 1e6:.1f} MB stay where they are, "
            f"{report.copied_bytes / 1e3:.0f} kB copied: commit {report.snapshot_id}"
        )
        return report.snapshot_id

    def ask(self, title: str, snapshot_id: str | None = None) -> None:
        """Means per month, of what the repository is or was."""
        self.screen.title(title)
        frazil.spark.attach(
            "fields", self.url, spark=self.spark, authorize_virtual_chunk_access=self.allowed
        )
        version = "" if snapshot_id is None else f"VERSION AS OF '{snapshot_id}'"
        for row in frazil.spark.sql(MEANS.format(version=version), self.spark).collect():
            print(f"  {row.month}  {row.days:3} days  air {row.air:7.3f}  sea {row.sea:7.3f}")

    def rechunk(self) -> None:
        """Write the air temperature anew, in chunks that hold whole time series."""
        self.screen.title("Rechunk t2m: from a chunk per day to chunks with all days")
        with self.screen.progress("rechunking") as tell:
            done = frazil.spark.rechunk(
                self.url,
                "t2m",
                {"time": -1, "lat": 19, "lon": 20},
                spark=self.spark,
                options={"authorize-virtual-chunk-access": self.allowed},
                progress=lambda now: tell(now.done, now.total),
            )
        print(f"  {done.chunks} chunks, {done.bytes / 1e6:.1f} MB: commit {done.snapshot_id}")

    def look(self, first: str) -> None:
        """What the command line tells."""
        self.screen.title("Look at it with the command line")
        for words in (["log"], ["diff", first], ["du"]):
            command, *rest = words
            print(f"  $ frazil {' '.join([command, 'repository', *rest])}", flush=True)
            make_app()([command, self.url, *rest], standalone_mode=False)

    def draw(self) -> None:
        """A map of the newest day."""
        self.screen.title("Draw a map of the newest day")
        access = frazil.containers_credentials({self.allowed: frazil.LocalFileSystemAccess})
        repository = frazil.Repository.open(self.url, authorize_virtual_chunk_access=access)
        session = repository.readonly_session("main")
        newest = xr.open_zarr(session.store, consolidated=False, chunks=None).isel(time=-1)
        path = draw_map(newest, self.folder / "map.png")
        print(f"  {path}")

    def invite(self) -> None:
        """How to go on looking."""
        self.screen.title("Look at its history and data in a browser")
        print(f"  frazil serve {near(self.url)}")
        print(f"  with --authorize {self.allowed} also what is still in the NetCDF files")


def near(path: str) -> str:
    """A path as one would type it here."""
    here = Path.cwd()
    return str(Path(path).relative_to(here)) if Path(path).is_relative_to(here) else path


def draw_map(fields: xr.Dataset, path: Path) -> Path:
    """Write the air temperature of a day, with the coasts of the sea, as a picture."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(9, 6), layout="constrained")
    lon, lat = fields["lon"].values, fields["lat"].values
    drawn = axes.pcolormesh(lon, lat, fields["t2m"].values - 273.15, cmap="RdYlBu_r")
    land = np.isnan(fields["sst"].values).astype(float)
    axes.contour(lon, lat, land, levels=[0.5], colors="black", linewidths=0.7)
    axes.set(title=f"Air temperature, {fields['time'].values:.10}", xlabel="lon", ylabel="lat")
    figure.colorbar(drawn, label="°C", shrink=0.8)
    figure.savefig(path, dpi=110)
    plt.close(figure)
    return path


def clear(folder: Path) -> None:
    """Remove what an earlier run of the demo left, and nothing else."""
    for name in ("archive", "repository"):
        shutil.rmtree(folder / name, ignore_errors=True)
    (folder / "map.png").unlink(missing_ok=True)
    folder.mkdir(parents=True, exist_ok=True)


def main() -> int:
    """Run the demo, or tell in a sentence why it cannot be run."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", nargs="?", type=Path, default=DEFAULT)
    parser.add_argument("--days", type=int, default=DAYS, help=f"days of the archive ({DAYS})")
    chosen = parser.parse_args()
    # zarr says so of the codecs of NetCDF files, which other readers may not know.
    warnings.filterwarnings("ignore", message="Numcodecs codecs are not in the Zarr version 3")
    screen = Screen()
    try:
        with screen.progress("starting Spark"):
            spark = frazil.spark.session(app_name="frazil demo")
    except frazil.SessionStateError as error:
        print(f"The demo runs on Spark, and cannot: {error}", file=sys.stderr)
        return 1
    clear(chosen.folder)
    Demo(chosen.folder.resolve(), spark, screen, chosen.days).run()
    spark.stop()
    print(f"\nDone in {time.monotonic() - screen.begun:.0f} s. Everything is in {chosen.folder}.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
