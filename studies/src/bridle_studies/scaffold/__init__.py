"""What all studies share: jobs, engines, progress, resume, manifest, report, figures."""
