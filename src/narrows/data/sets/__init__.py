"""The sets known by name, one module each; catalogue.py has the list, download.py brings their files."""
