"""The wheel claims its own names and no other."""

from __future__ import annotations

import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_wheel_holds_four_packages_and_nothing_else(tmp_path: Path) -> None:
    dist = tmp_path / "dist"
    uv = Path(sys.executable).parent / "uv"
    subprocess.run([uv, "build", "--wheel", "--out-dir", dist, ROOT], check=True, timeout=300)
    (wheel,) = dist.glob("*.whl")
    empty = tmp_path / "empty"
    venv.create(empty, with_pip=False)
    python = empty / "bin" / "python"
    subprocess.run([uv, "pip", "install", "--no-deps", "--python", python, wheel], check=True, timeout=120)
    (site,) = empty.glob("lib/python3*/site-packages")
    names = {item.name for item in site.iterdir() if not item.name.startswith("_virtualenv")}
    (info,) = (name for name in names if name.endswith(".dist-info"))
    assert info.startswith("taskforge_rl-")
    assert names - {info} == {"taskforge", "taskforge_api", "taskforge_images", "taskforge_workers"}
    assert {path.parent.name for path in site.glob("*/py.typed")} == names - {info}
    images = {path.name for path in (site / "taskforge_images" / "python").iterdir()}
    assert images == {"Debian.Dockerfile", "Dockerfile", "bases.toml", "clean.py", "find.sh"}
