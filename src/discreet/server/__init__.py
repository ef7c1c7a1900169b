"""Answers over HTTP and in a browser, from releases alone: nothing here can read a record."""
