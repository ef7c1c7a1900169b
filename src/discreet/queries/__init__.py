"""Queries: functions from a posterior to answers with intervals. No module of this folder can read a record."""
