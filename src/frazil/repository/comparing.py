"""Values of two versions of a repository, compared."""

from __future__ import annotations

from collections.abc import Sequence

from frazil import urls
from frazil.async_twins import async_twin
from frazil.comparing import values
from frazil.comparing.records import ValueDiff
from frazil.ids import SnapshotId
from frazil.repository.history import History
from frazil.repository.refs import Refs


class Comparing(History, Refs):
    """What differs, cell by cell."""

    def diff_values(
        self,
        before: str,
        after: str,
        *,
        paths: Sequence[str] | None = None,
        max_samples: int = values.MAX_SAMPLES,
        progress: values.Progress | None = None,
    ) -> ValueDiff:
        """How the values of two versions differ; each is a branch, a tag, an id or a `{time}`.

        Only chunks that may differ are read. `paths` are arrays, or groups above them. The
        versions need not be ancestors of each other.

        Raises:
            RefNotFoundError: there is no such version.
            NodeNotFoundError: neither version has a node at one of the paths.
        """
        first, last = (
            SnapshotId.parse(urls.resolve(urls.parse_version(each), self))
            for each in (before, after)
        )
        return values.diff_values(
            self.context, first, last, paths=paths, max_samples=max_samples, progress=progress
        )

    diff_values_async = async_twin(diff_values)
