"""The commands that this package adds to `bridle`."""

# The command line loads these commands by their entry points. If one of them is imported first, it
# must not find the other half made.
import bridle.cli  # noqa: F401
