"""What is installed besides Python: the dashboard's templates and static files, what others wrote with its licence."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_the_wheel_carries_every_template_and_static_file(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(tmp_path), str(ROOT)]
    subprocess.run(command, check=True, timeout=100)
    (wheel,) = tmp_path.glob("*.whl")
    carried = set(zipfile.ZipFile(wheel).namelist())
    files = {
        path.relative_to(ROOT).as_posix()
        for directory in ("templates", "static")
        for path in (ROOT / "worker/web" / directory).rglob("*")
        if path.is_file()
    }
    assert len(files) > 20 and files - carried == set()
    assert "holdfast_pytest.py" in carried


def test_what_others_wrote_has_its_licence_and_its_origin_beside_it() -> None:
    vendor = ROOT / "worker/web/static/vendor"
    told = (vendor / "README.md").read_text()
    scripts = [path.name for path in vendor.glob("*.js")]
    assert scripts and all(f"`{name}`" in told for name in scripts)
    assert all(f"`{path.name}`" in told for path in vendor.glob("LICENSE.*"))
