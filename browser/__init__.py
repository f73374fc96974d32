"""The pages in a real browser: Debian's chromium, for tests and for the pictures of the docs."""
