"""Certificates, audits and promises, tried many times where the truth is known."""
