"""What the user configured, read once at the top and passed down. Nothing below this module reads the environment.

Layers, strongest first: keyword arguments (command-line flags), ``TASKFORGE_*`` environment variables,
``taskforge.toml`` named by ``TASKFORGE_CONFIG``, the defaults below.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal

from pydantic import Field, SecretStr
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict, TomlConfigSettingsSource

__all__ = ["Settings"]


def _default_cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "taskforge"


class Settings(BaseSettings):
    """One frozen object for the whole process."""

    model_config = SettingsConfigDict(env_prefix="TASKFORGE_", frozen=True, extra="forbid")

    cache_dir: Path = Field(default_factory=_default_cache)
    """Environments, downloaded sources and unpacked trees. Safe to delete; rebuilt on demand."""
    sandbox: Literal["auto", "bubblewrap", "docker"] = "auto"
    """Where submitted code runs. ``auto``: bubblewrap if this machine's probe passes, else docker."""
    jobs: int = Field(default_factory=lambda: os.cpu_count() or 1, ge=1)
    """Sandboxes at work at the same time."""
    index_url: str = "https://pypi.org/simple/"
    """Package index for ``pypi:`` sources, PEP 691 JSON. Dependencies follow uv's own configuration."""
    network_timeout: float = Field(default=60.0, gt=0)
    """Seconds without an answer before a download is given up."""
    memory_mb: int = Field(default=2048, ge=64)
    """Memory of one sandbox, its files in memory included, MiB."""
    disk_mb: int = Field(default=512, ge=16)
    """What one sandbox may write, MiB."""
    docker_base: str = ""
    """Base image of the docker sandbox's environments; ``{minor}`` stands for Python's version, such as ``3.12``.
    Empty: a local ``taskforge-base:{minor}``, else ``python:{minor}-slim``."""
    docker_runtime: str = ""
    """OCI runtime of the docker sandbox, such as ``runsc``; the daemon's own choice when empty."""
    pids: int = Field(default=256, ge=8)
    """Processes and threads in one sandbox."""
    statement_base_url: str = ""
    """Where ``--statement llm`` finds a model: an OpenAI-compatible API, such as ``http://localhost:8000/v1``."""
    statement_model: str = ""
    """Its name there."""
    statement_api_key: SecretStr = SecretStr("")
    """Sent as a bearer token; nothing is sent when empty. Never shown."""
    statement_timeout: float = Field(default=120.0, gt=0)
    """Seconds until an answer has to be complete."""

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        named = os.environ.get("TASKFORGE_CONFIG")
        toml = (TomlConfigSettingsSource(settings_cls, Path(named)),) if named else ()
        return (init_settings, env_settings, *toml)
