"""The work as Spark does it, on a repository and on Parquet."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.spark.data import BAND, DAY, new_place
from bench.spark.questions import QUESTIONS, SELECT_1

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

WHERE = f"time = '{DAY}' AND lat BETWEEN {BAND[0]} AND {BAND[1]}"


@dataclass(frozen=True, slots=True)
class Spark:
    """A session and where the data are."""

    spark: SparkSession
    folder: Path

    def frazil(self, **options: str) -> DataFrame:
        """The repository as a table."""
        reader = self.spark.read.format("frazil").options(**options)
        return reader.load(str(self.folder / "repository"))

    def parquet(self) -> DataFrame:
        """The same table as Parquet."""
        return self.spark.read.parquet(str(self.folder / "parquet"))

    def mean(self, frame: DataFrame) -> float:
        """The mean of a variable."""
        found: float = frame.agg({"t2m": "avg"}).collect()[0][0]
        return found

    def mean_of_lines(self, frame: DataFrame) -> float:
        """The mean of a variable that comes as arrays."""
        total = "sum(aggregate(t2m, 0D, (sum, each) -> sum + each))"
        found: float = frame.selectExpr(f"{total} / sum(size(t2m))").collect()[0][0]
        return found

    def scan(self, frame: DataFrame) -> float:
        """Make every row of a table, and use none."""
        frame.write.format("noop").mode("overwrite").save()
        return 1.0

    def by_month(self, frame: DataFrame) -> float:
        """Means by month; the first of them."""
        from pyspark.sql import functions as f

        month = f.date_trunc("month", "time").alias("month")
        rows = frame.groupBy(month).agg(f.avg("t2m").alias("mean")).orderBy("month").collect()
        return float(rows[0].mean)

    # --- contestants by case ---

    def run(self, case: str, who: str) -> Any:
        """Do the work of a case once."""
        if case in QUESTIONS:
            return self.ask(case, who)
        match case, who:
            case "spark-scan", "frazil":
                return self.scan(self.frazil())
            case "spark-scan", _:
                return self.scan(self.parquet())
            case "spark-mean", "frazil":
                return self.mean(self.frazil(columns="t2m"))
            case "spark-mean", "frazil, lines":
                return self.mean_of_lines(self.frazil(columns="t2m", layout="lines"))
            case "spark-mean", _:
                return self.mean(self.parquet())
            case "spark-month", "frazil":
                return self.by_month(self.frazil(columns="time, t2m"))
            case "spark-month", _:
                return self.by_month(self.parquet())
            case "spark-where", "frazil":
                return self.mean(self.frazil(where=WHERE, columns="t2m"))
            case "spark-where", _:
                return self.mean(self.parquet().where(WHERE))
            case "spark-rechunk", _:
                return self.rechunk()
            case _:
                return self.ingest()

    def ask(self, case: str, who: str) -> float | None:
        """The answer of a question in SQL."""
        import frazil.spark

        question = QUESTIONS[case]
        if who == SELECT_1:
            self.spark.sql("SELECT 1").collect()
            return None
        if who == "frazil":
            table = f"frazil.`{self.folder / ('known' if question.known else 'repository')}`"
            rows = frazil.spark.sql(question.query(table), self.spark).collect()
        else:
            self.parquet().createOrReplaceTempView("bench_parquet")
            rows = self.spark.sql(question.query("bench_parquet")).collect()
        return float(len(rows) if question.counts_rows else rows[0][0])

    def ingest(self) -> int:
        """All files by reference, in one commit."""
        from frazil.spark.jobs.copying import ingest

        files = str(self.folder / "files" / "*.nc")
        done = ingest(files, new_place(self.folder), spark=self.spark)
        return len(done.files)

    def rechunk(self) -> int:
        """The array in chunks for time series, in another repository."""
        from frazil.spark.jobs.rechunking import rechunk

        source, chunks = str(self.folder / "repository"), {"time": -1, "lat": 18, "lon": 36}
        rechunk(source, "t2m", chunks, target=new_place(self.folder), spark=self.spark)
        return 1
