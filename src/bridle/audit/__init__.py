"""The audit meter: bounds on violations that hold at any time; the audits of a log."""
