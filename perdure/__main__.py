"""``python -m perdure``: the command ``perdure``."""

from perdure.worker.cli.main import main

if __name__ == "__main__":
    main()
