"""The command line: the same verbs as the library's, for people and for scripts."""
