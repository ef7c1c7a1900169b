"""Accuracy pack: half-widths of intervals predicted from made-up records, and the epsilon that reaches a wanted one.

Nobody else imports it. `discreet.plan_accuracy` is its door; without it that name, and `discreet plan --query`, are
refused in a sentence.
"""
