"""Off-policy evaluation: what another policy would have earned, from the log of this one."""
