"""The durable event log of agents, on SQLite or PostgreSQL.

An append-only log is the only truth; an agent in memory is its fold.
"""
