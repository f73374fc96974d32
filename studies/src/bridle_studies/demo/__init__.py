"""A demonstration: two agents in made-up worlds, with simulated people who use and teach them."""
