"""Attributes, availability and feature flags of a repository."""

from __future__ import annotations

from typing import Any

from frazil.async_twins import async_twin
from frazil.errors import ErrorKind, InvalidInputError
from frazil.model.config import FeatureFlag
from frazil.model.updates import FLAGS
from frazil.model.values import RepoStatus, inner_status, repo_status
from frazil.repository.handle import Handle


class Attributes(Handle):
    """What is true of the repository as a whole."""

    @property
    def metadata(self) -> dict[str, Any]:
        """Attributes of the repository."""
        return self.get_metadata()

    def get_metadata(self) -> dict[str, Any]:
        """Attributes of the repository."""
        return dict(self.context.refs.metadata())

    def set_metadata(self, metadata: dict[str, Any]) -> None:
        """Replace the attributes of the repository."""
        self.context.refs.set_metadata(metadata, merge=False)

    def update_metadata(self, metadata: dict[str, Any]) -> dict[str, Any]:
        """Overlay attributes of the repository, and return the result."""
        return dict(self.context.refs.set_metadata(metadata, merge=True))

    @property
    def status(self) -> RepoStatus:
        """Whether the repository takes changes."""
        return self.get_status()

    def get_status(self) -> RepoStatus:
        """Whether the repository takes changes."""
        return repo_status(self.context.refs.status())

    def set_status(self, status: RepoStatus) -> None:
        """Open or close the repository for changes."""
        self.context.refs.set_status(inner_status(status))

    def feature_flags(self) -> list[FeatureFlag]:
        """All feature flags."""
        enabled, disabled = self.context.refs.flags()
        return [
            FeatureFlag(
                id=flag,
                name=name,
                default_enabled=True,
                setting=True if flag in enabled else False if flag in disabled else None,
            )
            for flag, name in FLAGS.items()
        ]

    def enabled_feature_flags(self) -> list[FeatureFlag]:
        """Feature flags that are in force."""
        return [flag for flag in self.feature_flags() if flag.enabled]

    def disabled_feature_flags(self) -> list[FeatureFlag]:
        """Feature flags that are off."""
        return [flag for flag in self.feature_flags() if not flag.enabled]

    def set_feature_flag(self, name: str, setting: bool | None) -> None:
        """Set a feature flag; None returns it to its default."""
        self.context.generation.require_repo_object("feature flags")
        for flag, known in FLAGS.items():
            if known == name:
                self.context.refs.set_flag(flag, setting)
                return
        raise InvalidInputError(
            f"invalid feature flag {name!r}; known are {', '.join(FLAGS.values())}",
            kind=ErrorKind.INVALID_FEATURE_FLAG,
        )

    get_metadata_async = async_twin(get_metadata)
    set_metadata_async = async_twin(set_metadata)
    update_metadata_async = async_twin(update_metadata)
    get_status_async = async_twin(get_status)
    set_status_async = async_twin(set_status)
    feature_flags_async = async_twin(feature_flags)
    enabled_feature_flags_async = async_twin(enabled_feature_flags)
    disabled_feature_flags_async = async_twin(disabled_feature_flags)
    set_feature_flag_async = async_twin(set_feature_flag)
