"""Releases: payloads, calibrations and the release document, alone and combined."""
