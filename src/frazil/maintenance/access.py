"""Who may do maintenance."""

from __future__ import annotations

from frazil.errors import ErrorKind, ReadOnlyError
from frazil.transaction.context import Context


def require_writable(context: Context, action: str) -> None:
    """Refuse an action on a storage or a repository that takes no changes.

    Raises:
        ReadOnlyError: it does not.
    """
    if not context.storage.can_write:
        raise ReadOnlyError(
            f"cannot {action}: {context.why_read_only}", kind=ErrorKind.READ_ONLY_STORAGE
        )
    context.refs.require_online()
