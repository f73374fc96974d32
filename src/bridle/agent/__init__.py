"""The agent: its settings, its events, the state they fold into, what it chooses and answers."""
