"""Data sets that an agent can be tried on.

So far one that bridle makes itself: `synthetic_movies`.
"""

from bridle.worlds.synthetic import World, synthetic_movies

__all__ = ["World", "synthetic_movies"]
