"""``python -m bridle``: the command line."""

from bridle.cli import main

if __name__ == "__main__":
    main()
