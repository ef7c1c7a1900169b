"""Interchange pack: network files, networks, draws and measured cells of other programs, read and written.

It registers through the entry points of the package (`discreet.util.pack_entries`), as a third party's pack would.
Without it, the kernel reads project files alone, and refuses a network file in a sentence.
"""
