"""Reporting pack: what a release reveals of one record and what its answers rest on, and reports for readers.

It reads releases and posteriors alone, so that the server may build on it. `dc.explain` and `dc.report` are its doors;
without it they are refused in a sentence.
"""
