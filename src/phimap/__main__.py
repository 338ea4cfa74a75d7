"""The command phimap, as ``python -m phimap``."""

from phimap.cli import main

if __name__ == "__main__":
    main()
