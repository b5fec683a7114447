"""`python -m hooksdk`."""

from hooksdk.cli import main

if __name__ == "__main__":
    main()
