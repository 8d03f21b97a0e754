"""Run the command line as ``python -m transop``."""

from transop_app.cli import main

if __name__ == "__main__":
    main()
