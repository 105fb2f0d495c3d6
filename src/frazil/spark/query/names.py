"""Names of tables in SQL: which repository, version, group or metadata table they mean.

frazil.`URL[@version][#/group]`      a repository by its place
frazil.NAME[.group…]                 one that `attach` has named, or one of the warehouse
frazil.NAME.branch_x, .tag_x         a version of it
frazil.NAME.snapshots, …             a metadata table
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from frazil.errors import invalid_option
from frazil.masking import MaskedRecord, shown_url
from frazil.spark.options.written import as_text, spelled, storage_texts
from frazil.spark.sessions import session
from frazil.spelling import nearest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CATALOG: Final = "frazil"
"""What names of Frazil's tables begin with."""
REPOSITORY: Final = "spark.frazil.repository."
"""Settings of Spark that give a URL to a name."""
OPTIONS: Final = ".options"
"""ends the setting with options of the source for a name, as JSON"""
WAREHOUSE: Final = "spark.frazil.warehouse"
"""The setting of Spark with a folder of repositories."""
_NAME: Final = re.compile(r"[^\W\d]\w*")
_VERSION: Final = re.compile(r"(branch|tag)_(.+)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class NamePart:
    """One part of a name with dots."""

    text: str
    is_quoted: bool = False


@dataclass(frozen=True, slots=True, repr=False)
class ResolvedName(MaskedRecord):
    """What a name means: a URL, options of the source, and the names below it."""

    url: str
    options: Mapping[str, str] = field(default_factory=dict)
    below: tuple[str, ...] = ()
    """groups, and an array or a metadata table at the end"""


def attach(
    name: str,
    url: str,
    *,
    spark: SparkSession | None = None,
    storage_options: Mapping[str, Any] | None = None,
    **options: Any,  # noqa: ANN401  (those of the data source)
) -> None:
    """Give a repository a name for `frazil.spark.sql`, as long as the Spark session lives.

    The name is the setting `spark.frazil.repository.NAME` of Spark, so that the defaults of a
    cluster can name repositories too; `spark.frazil.repository.NAME.options` has options of the
    source for it, as JSON.

    Args:
        name: a word.
        url: `URL[@version][#/group]`.
        spark: the session to use; the active or an embedded one by default.
        storage_options: arguments of the storage, such as `region`.
        options: options of the data source with `_` for `-`.

    Raises:
        InvalidInputError: the name is no word.
    """
    if _NAME.fullmatch(name) is None:
        raise invalid_option(f"a repository cannot be named {name!r}: a word is needed")
    conf = (spark or session()).conf
    key = REPOSITORY + name.lower()
    conf.set(key, url)
    given = storage_texts(storage_options)
    given |= {spelled(each): as_text(value) for each, value in options.items()}
    conf.set(key + OPTIONS, json.dumps(given))


def resolve_name(parts: Sequence[NamePart], spark: SparkSession) -> ResolvedName:
    """The place that a name after `frazil.` means.

    Raises:
        InvalidInputError: there is no such name.
    """
    head, rest = parts[0], [part.text for part in parts[1:]]
    url, options = _found(head, spark)
    version = _VERSION.fullmatch(rest[-1]) if rest else None
    if version is None:
        return ResolvedName(url, options, tuple(rest))
    return ResolvedName(url, {**options, version[1].lower(): version[2]}, tuple(rest[:-1]))


def attached(spark: SparkSession) -> dict[str, str]:
    """The names that repositories have, with their URLs."""
    found = spark.conf.getAll
    names = (key.removeprefix(REPOSITORY) for key in found if key.startswith(REPOSITORY))
    return {name: found[REPOSITORY + name] for name in sorted(names) if "." not in name}


def _found(head: NamePart, spark: SparkSession) -> tuple[str, dict[str, str]]:
    if head.is_quoted and re.search(r"[/:]", head.text):
        return head.text, {}
    key = REPOSITORY + head.text.lower()
    # Names of settings keep their case, so a cluster's defaults may have them as people write.
    for spelling in (key, REPOSITORY + head.text):
        url = spark.conf.get(spelling, None)
        if url is not None:
            return url, json.loads(spark.conf.get(spelling + OPTIONS, None) or "{}")
    warehouse = spark.conf.get(WAREHOUSE, None)
    if warehouse is not None:
        return f"{warehouse.rstrip('/')}/{head.text}", {}
    if head.is_quoted:
        return head.text, {}
    names = attached(spark)
    known = ", ".join(f"{name} ({shown_url(url)})" for name, url in names.items()) or "none"
    raise invalid_option(
        f"no repository is named {head.text!r}{nearest(head.text, names)} (attached: {known}); "
        f"frazil.spark.attach({head.text!r}, URL) names one, frazil.`URL` needs no name, and the "
        f"setting {WAREHOUSE!r} is a folder of repositories"
    )
