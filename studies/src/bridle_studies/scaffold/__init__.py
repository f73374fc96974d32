"""What all studies share: engines, journal, figures."""
