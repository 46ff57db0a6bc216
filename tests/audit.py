"""`make audit`: pip-audit on the installed packages, and a clear message if no service answered.

pip-audit says "No known vulnerabilities found", exit code 0, also when its service knew none of the packages (an index of
one's own that has no advisories, say), so the packages that were looked up are counted here.

    python -m tests.audit [--strict]        # --strict: what could not be audited is a failure, too
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

#: The distribution that is checked out here; it has no advisories.
OURS = "perdure"
COMMAND = ["-m", "pip_audit", "--format", "json", "--progress-spinner", "off", "--timeout", "15"]
#: Texts of pip-audit's stderr when its service could not be reached.
UNREACHABLE = ("ConnectionError", "ConnectTimeout", "ReadTimeout", "Max retries exceeded", "Failed to resolve", "Connection refused",
               "ServiceError", "ProxyError", "connection timed out")  # fmt: skip


def verdict(code: int, out: str, err: str, strict: bool = False) -> tuple[int, str]:
    """Return the exit code of the check and its message, from pip-audit's answer."""
    try:
        found: list[dict[str, Any]] = json.loads(out)["dependencies"]
    except (ValueError, LookupError, TypeError):
        if any(words in err for words in UNREACHABLE):
            return int(
                strict
            ), f"NOT AUDITED: the service of advisories is not reachable: {_last_line(err)}"
        return 1, f"the audit failed (pip-audit's exit code {code}): {_last_line(err)}"
    packages = [package for package in found if package["name"] != OURS]
    weak = [package for package in packages if package.get("vulns")]
    unknown = [package["name"] for package in packages if "skip_reason" in package]
    if weak:
        told = "; ".join(
            f"{package['name']} {package['version']}: {each['id']} (mended in {', '.join(each['fix_versions']) or 'no version yet'})"
            for package in weak
            for each in package["vulns"]
        )
        return 1, f"known vulnerabilities: {told}"
    if unknown or not packages:
        some = ", ".join(unknown[:3]) or "none was found"
        return (
            int(strict),
            f"NOT AUDITED: {len(unknown)} of {len(packages)} packages are not known to the service of advisories ({some}, ...)",
        )
    return (
        (0, f"{len(packages)} packages audited, no known vulnerability")
        if code == 0
        else (1, f"the audit failed: {_last_line(err)}")
    )


def _last_line(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1].strip()[:300] if lines else "it said nothing"


def main() -> int:
    done = subprocess.run([sys.executable, *COMMAND], capture_output=True, text=True, check=False)
    code, told = verdict(done.returncode, done.stdout, done.stderr, "--strict" in sys.argv[1:])
    print(told)
    return code


if __name__ == "__main__":
    sys.exit(main())
