"""Agents over HTTP: a store, a writer and a table of endpoints. No decisions of its own."""
