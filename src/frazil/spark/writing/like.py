"""New arrays like those of another place: what `like` takes over from it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from frazil.errors import invalid_option
from frazil.model.nodes import ArrayNode
from frazil.spark.location import location_of, open_pinned
from frazil.spark.options.table import STORAGE, WriteRequest
from frazil.spark.reading.variables import load_group


def models(request: WriteRequest) -> Mapping[str, Mapping[str, Any]]:
    """Documents of the arrays that new ones of the same names shall be like.

    Raises:
        NodeNotFoundError: the group or array that `like` names is not there.
        RepositoryNotFoundError: nor is the repository.
    """
    if request.like is None:
        return {}
    storage = {STORAGE + name: value for name, value in request.storage.items()}
    target = location_of(request.like, storage)
    if target.table is not None:
        raise invalid_option(
            f"option 'like' names the table {target.table!r}; it must be a"
            " repository, or a group or array in it"
        )
    repository = target.location.open()
    session = open_pinned(target.pin(repository), repository)
    group, single = load_group(session, target.node)
    chosen = group.variables if single is None else {single: group.find(single)}
    nodes = {name: session.state.tree.get(each.path) for name, each in chosen.items()}
    return {
        name: json.loads(node.user_data)
        for name, node in nodes.items()
        if isinstance(node, ArrayNode)
    }
