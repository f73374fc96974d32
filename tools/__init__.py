"""What looks at the code itself: ``python -m tools.house``, ``python -m tools.calls``."""
