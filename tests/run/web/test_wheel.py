"""Third-party scripts of the dashboard, and their licences. tests/golden/test_wheel.py lists the
installed files.
"""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[3]


def test_what_others_wrote_has_its_licence_and_its_origin_beside_it() -> None:
    vendor = ROOT / "worker/web/static/vendor"
    told = (vendor / "README.md").read_text()
    scripts = [path.name for path in vendor.glob("*.js")]
    assert scripts and all(f"`{name}`" in told for name in scripts)
    assert all(f"`{path.name}`" in told for path in vendor.glob("LICENSE.*"))
