"""What a snapshot's tests need to run."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from taskforge.model.base import Value, digest_of

__all__ = ["Recipe"]


class Recipe(Value):
    """Everything that determines an environment; its digest names it. Same recipe, same environment.

    ``lock`` and ``build_lock`` are pip requirement lines, each pinned by version and hash: the first for the tests, the
    second for the build backend. ``overlay`` is the digest of the tree of files that the install wrote into the
    workspace (compiled extensions, generated version files), empty when there are none.
    """

    schema_version: Literal[1] = 1
    language: Literal["python"] = "python"
    snapshot: str = Field(pattern=r"\A[0-9a-f]{64}\z")
    python: str = Field(pattern=r"\A3\.\d+\.\d+\z")
    """Full version of the interpreter."""
    lock: tuple[str, ...]
    build_lock: tuple[str, ...] = ()
    editable: bool = True
    """Whether the project itself is installed, pointing to /workspace. False for trees without a build system."""
    overlay: str = ""
    pytest_args: tuple[str, ...] = ()
    """Extra arguments for every pytest run, before the test files."""
    variables: dict[str, str] = Field(default_factory=dict)
    """Extra environment variables of the test process."""

    @property
    def digest(self) -> str:
        return digest_of(self.model_dump(mode="json"))
