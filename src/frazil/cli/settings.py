"""The configuration stored in a repository: `config show`, `get` and `set`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from frazil.cli.answers import Answer, Screen, print_json
from frazil.cli.arguments import WholeUrl
from frazil.cli.commands import add_command, make_group
from frazil.cli.places import open_whole
from frazil.errors import ErrorKind, InvalidInputError, NotFoundError
from frazil.masking import shown_data
from frazil.transaction.opened import context_of

if TYPE_CHECKING:
    from frazil.repository import Repository

Config = dict[str, Any]
Dotted = Annotated[
    str, typer.Argument(metavar="KEY", help="Such as manifest.splitting.", show_default=False)
]


def add_commands(app: typer.Typer) -> None:
    """Add the commands of this file."""
    config = make_group("Show and change the stored configuration.")
    for name, work in (("show", show), ("get", get), ("set", set_values)):
        add_command(config, name, work)
    app.add_typer(config, name="config", rich_help_panel="Set up")


def show(
    url: WholeUrl,
    everything: Annotated[bool, typer.Option("--all", help="Also what is not set.")] = False,
) -> Answer:
    """Show what the repository's configuration sets."""
    config = _stored(open_whole(url))
    data = shown_data(config if everything else _set_only(config))

    def draw(screen: Screen) -> None:
        if data:
            print_json(screen, data)
        else:
            screen.note("nothing is set: every setting has its default")

    return Answer(data, draw)


def get(url: WholeUrl, key: Dotted) -> Answer:
    """Print one setting, with its default if it is not set."""
    repository = open_whole(url)
    value = shown_data(_look_up(_stored(repository), key), key.rpartition(".")[2])
    default = _default(key) if value is None else None
    data = {"key": key, "value": value, "default": default}

    def draw(screen: Screen) -> None:
        if isinstance(value, Mapping | list):
            print_json(screen, value)
        elif value is not None:
            screen.line(str(value))
        else:
            screen.line("not set" if default is None else f"{default} (default)")

    return Answer(data, draw)


def set_values(
    url: WholeUrl,
    changes: Annotated[
        list[str],
        typer.Argument(
            metavar="KEY=VALUE...",
            help="Settings; values in YAML or JSON, null for the default.",
            show_default=False,
        ),
    ],
) -> Answer:
    """Change stored settings, which apply whenever the repository is opened from now on."""
    from frazil.formats.config_codec import config_from_map, config_to_map
    from frazil.repository.handle import edit_stored_config

    repository = open_whole(url)
    values: dict[str, Any] = {}
    for change in changes:
        key, equals, text = change.partition("=")
        if not equals:
            raise InvalidInputError(f"{change!r}: write KEY=VALUE")
        values[key] = _value(text, key)

    def changed(stored: Config | None) -> Config:
        config = _as_map(stored)
        for key, value in values.items():
            _look_up(config, key)
            above, _, name = key.rpartition(".")
            (_look_up(config, above) if above else config)[name] = value
        return config_to_map(config_from_map(_set_only(config)))

    edit_stored_config(context_of(repository), changed)
    checked = _as_map(context_of(repository).loaded_config)
    data = {"config": shown_data(_set_only(checked)), "changed": [*values]}

    def draw(screen: Screen) -> None:
        screen.line(f"Set {', '.join(data['changed'])}")

    return Answer(data, draw)


def _stored(repository: Repository) -> Config:
    """The stored configuration as a map with all keys."""
    return _as_map(context_of(repository).refs.stored_config())


def _as_map(stored: Config | None) -> Config:
    from frazil.formats.config_codec import config_from_map, config_to_map

    return _with_keys(config_to_map(config_from_map(stored or {})))


def _with_keys(config: Config) -> Config:
    """Unset sections as maps of unset keys, so that each key can be found."""
    from frazil.formats.config_codec import config_to_map
    from frazil.model import config as known

    full = known.RepositoryConfig(
        compression=known.CompressionConfig(),
        caching=known.CachingConfig(),
        storage=known.StorageSettings(
            concurrency=known.StorageConcurrencySettings(),
            retries=known.StorageRetriesSettings(),
            timeouts=known.StorageTimeoutSettings(),
        ),
        manifest=known.ManifestConfig(
            preload=known.ManifestPreloadConfig(),
            virtual_chunk_location_compression=(
                known.ManifestVirtualChunkLocationCompressionConfig()
            ),
        ),
    )
    return _overlaid(config_to_map(full), config)


def _overlaid(below: Config, above: Mapping[str, Any]) -> Config:
    made = dict(below)
    for name, value in above.items():
        under = made.get(name)
        if value is None and name in made:
            continue
        both = isinstance(under, dict) and isinstance(value, Mapping)
        made[name] = _overlaid(under, value) if both and under is not None else value
    return made


def _look_up(config: Config, key: str) -> Any:  # noqa: ANN401  (JSON)
    from frazil.spelling import nearest

    found: Any = config
    done: list[str] = []
    for name in key.split("."):
        if not isinstance(found, Mapping) or name not in found:
            here = ".".join(done)
            names = list(found) if isinstance(found, Mapping) else []
            known = [f"{here}.{each}" if here else each for each in names]
            listed = ", ".join(known) or "nothing below it"
            raise NotFoundError(
                f"no setting {key!r}{nearest(key, known)} (known: {listed})",
                kind=ErrorKind.KEY_NOT_FOUND,
            )
        found = found[name]
        done.append(name)
    return found


def _default(key: str) -> object:
    """What counts while a setting is not set, where that is a plain value."""
    from frazil.model.config import RepositoryConfig
    from frazil.model.settings import SettingsRecord

    found: object = RepositoryConfig()
    for name in key.split("."):
        found = found.effective(name) if isinstance(found, SettingsRecord) else None
    return found if type(found) in (str, int, float, bool) else None


def _value(text: str, key: str) -> Any:  # noqa: ANN401  (JSON)
    import yaml

    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise InvalidInputError(f"the value of {key!r} is not valid YAML: {text!r}") from error


def _set_only(config: Config) -> Config:
    kept = {
        name: _set_only(value) if isinstance(value, dict) else value
        for name, value in config.items()
    }
    return {name: value for name, value in kept.items() if value is not None and value != {}}
