"""Promises about limits, made on fresh answers: certificates, their calibration, exact bounds."""
