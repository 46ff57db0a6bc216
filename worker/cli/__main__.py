"""``python -m worker.cli``: the same as ``holdfast``."""

from worker.cli.main import main

if __name__ == "__main__":
    main()
