"""Pages for people: teach by clicking, see the limits, watch the agent act, ask it why.

Server-rendered, over the same handlers as the API and with the same roles. A page makes no
decision of its own.
"""
