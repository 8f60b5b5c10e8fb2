"""Where the layers come from: the user's file, the project's file, a document's frontmatter, flags."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, NamedTuple, cast

from holdfast.config.overlay import Table, plain_table
from holdfast.config.roots import PROJECT_FILE, check_user_config, inside_project, user_config_file
from holdfast.contract.errors import ConfigError
from holdfast.contract.values import digest_of
from holdfast.text.visible import visible

MAX_FILE_BYTES: Final = 1024 * 1024
IsTrusted = Callable[[Path, str], bool]
"""`is_trusted(path, digest)`: whether a person trusted exactly this content of this file."""


class Layer(NamedTuple):
    """What one place says, and how far it may be followed."""

    name: str
    label: str
    """How messages call it."""
    path: Path | None
    folder: Path
    """What relative paths in it are taken from."""
    digest: str
    table: Table
    trusted: bool = True
    user_level: bool = True
    remedy: str = ""
    """What to run to trust it."""


def user_layer(given: Path | None, root: Path | None) -> Layer | None:
    path = user_config_file() if given is None else given.absolute()
    if given is None and root is not None and inside_project(path, root):
        raise ConfigError(
            f"The user configuration {path} lies inside the project {root}, where tools can write; "
            "keep it outside, or set XDG_CONFIG_HOME to a folder outside."
        )
    if given is None:
        check_user_config()
    content = _read(path)
    if content is None:
        if given is not None:
            raise ConfigError(f"There is no configuration file {path}; create it or name another.")
        return None
    label = visible(str(path))
    return Layer("user", label, path, path.parent, sha256(content).hexdigest(), _parse(content, label))


def project_layer(root: Path, is_trusted: IsTrusted) -> Layer | None:
    path = root / PROJECT_FILE
    content = _read(path)
    if content is None:
        return None
    digest, label = sha256(content).hexdigest(), visible(str(path))
    return Layer(
        name="project",
        label=label,
        path=path,
        folder=root,
        digest=digest,
        table=_parse(content, label),
        trusted=is_trusted(path, digest),
        user_level=False,
        remedy=f"run `holdfast trust {PROJECT_FILE}`",
    )


def document_layer(given: Mapping[str, Any], name: str | None, root: Path | None, trusted: bool) -> Layer:
    from shlex import quote

    label = "the document" if name is None else visible(name)
    table = plain_table(given, label)
    return Layer(
        name="document",
        label=label,
        path=None if name is None else Path(name),
        folder=root or Path.cwd(),
        digest=_digest(table, label),
        table=table,
        trusted=trusted,
        user_level=False,
        remedy=f"run `holdfast trust {'FILE' if name is None else visible(quote(name))}`",
    )


def flags_layer(given: Mapping[str, Any]) -> Layer:
    table: Table = {}
    for key, value in plain_table(given, "flags").items():
        _put(table, key.split("."), value, key)
    return Layer("flags", "flags", None, Path.cwd(), _digest(table, "flags"), table)


def _put(table: Table, parts: list[str], value: object, key: str) -> None:
    if len(parts) == 1 and parts[0] not in table:
        table[parts[0]] = value
        return
    inner = table.setdefault(parts[0], {})
    if len(parts) == 1 or not isinstance(inner, dict):
        raise ConfigError(f"flags: {visible(key)} is set twice, or inside a value another flag gives; keep one.")
    _put(cast(Table, inner), parts[1:], value, key)


def _digest(table: Table, label: str) -> str:
    try:
        return digest_of(table)
    except ValueError:
        raise ConfigError(f"{label} contains half of a surrogate pair; use well-formed Unicode.") from None


def _read(path: Path) -> bytes | None:
    """The content of a regular file, None if there is nothing of that name."""
    try:
        # A FIFO put in the file's place must not hold the opener.
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except (FileNotFoundError, NotADirectoryError):
        if path.is_symlink():
            raise ConfigError(f"{path} is a symlink to nothing; remove it or restore its target.") from None
        return None
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}; fix that or remove the file.") from None
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise ConfigError(f"{path} is not a regular file; replace it with one.")
        with open(descriptor, "rb", closefd=False) as file:
            content = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}; fix that or remove the file.") from None
    finally:
        os.close(descriptor)
    if len(content) > MAX_FILE_BYTES:
        raise ConfigError(f"{path} is larger than {MAX_FILE_BYTES:,} bytes; make it shorter.")
    return content


def _parse(content: bytes, label: str) -> Table:
    import tomllib

    try:
        return plain_table(tomllib.loads(content.decode()), label)
    except UnicodeDecodeError:
        raise ConfigError(f"{label} is not UTF-8 text; save it as UTF-8.") from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{label} is not valid TOML: {error}; correct it there.") from None
    except RecursionError:
        raise ConfigError(f"{label}: the tables are nested too deeply; flatten them.") from None
