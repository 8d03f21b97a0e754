"""Run the command line as ``python -m transop``."""

from transop.cli import main

if __name__ == "__main__":
    main()
