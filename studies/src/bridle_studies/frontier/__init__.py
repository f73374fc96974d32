"""Regret against violations: what our limits buy beside the paper's dial."""
