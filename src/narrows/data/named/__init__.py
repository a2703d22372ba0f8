"""The named sets, one module each, which downloads nothing by itself.

catalogue.py lists the sets and opens them, download.py fetches their files, formats.py reads the formats they share.
"""
