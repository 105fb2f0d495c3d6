"""Functions of Spark whose answer depends on their arguments alone, row by row.

What is not here may be of the user, make several rows of one, or give another answer each time;
conditions and sums with it are left to Spark.
"""

from __future__ import annotations

from typing import Final

SCALARS: Final = frozenset(
    # numbers
    ["abs", "acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "bround", "cbrt", "ceil",
     "ceiling", "cos", "cosh", "cot", "csc", "degrees", "e", "exp", "expm1", "floor", "greatest",
     "hypot", "least", "ln", "log", "log10", "log1p", "log2", "mod", "negative", "pi", "pmod",
     "positive", "pow", "power", "radians", "rint", "round", "sec", "sign", "signum", "sin", "sinh",
     "sqrt", "tan", "tanh", "try_add", "try_divide", "try_multiply", "try_subtract", "width_bucket",
     "div", "isnan", "nanvl",
     # conditions and casts
     "coalesce", "if", "iff", "ifnull", "isnotnull", "isnull", "nullif", "nvl", "nvl2", "cast",
     "try_cast", "bigint", "boolean", "double", "float", "int", "smallint", "string", "tinyint",
     "decimal", "dec", "numeric", "date", "timestamp", "binary", "char", "varchar", "typeof",
     # times
     "add_months", "date_add", "date_diff", "date_format", "date_part", "date_sub", "date_trunc",
     "dateadd", "datediff", "datepart", "day", "dayname", "dayofmonth", "dayofweek", "dayofyear",
     "extract", "hour", "last_day", "make_date", "make_timestamp", "make_timestamp_ntz", "minute",
     "month", "monthname", "months_between", "next_day", "quarter", "second", "to_date",
     "to_timestamp", "to_timestamp_ntz", "trunc", "unix_date", "unix_micros", "unix_millis",
     "unix_seconds", "unix_timestamp", "weekday", "weekofyear", "year",
     # texts
     "ascii", "bit_length", "btrim", "char_length", "character_length", "concat", "concat_ws",
     "contains", "endswith", "initcap", "instr", "lcase", "left", "length", "levenshtein", "locate",
     "lower", "lpad", "ltrim", "regexp_count", "regexp_extract", "regexp_like", "regexp_replace",
     "repeat", "replace", "reverse", "right", "rpad", "rtrim", "split_part", "startswith", "substr",
     "substring", "translate", "trim", "ucase", "upper"]
)  # fmt: skip

AGGREGATES: Final = {
    "count": "count",
    "sum": "sum",
    "avg": "avg",
    "mean": "avg",
    "min": "min",
    "max": "max",
    "stddev": "stddev_samp",
    "std": "stddev_samp",
    "stddev_samp": "stddev_samp",
    "stddev_pop": "stddev_pop",
    "variance": "var_samp",
    "var_samp": "var_samp",
    "var_pop": "var_pop",
}
"""aggregates that tasks can compute, by the names that Spark has for them"""

GROUPINGS: Final = frozenset(["grouping", "grouping_id", "cube", "rollup"])
"""what may stand beside them"""
