"""Mechanisms put to the test: audits of what they promise, and rehearsals of what they are worth."""
