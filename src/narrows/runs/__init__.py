"""What a run leaves on disk, and what it proves.

records      rows of the .csv files, and result.json
folder       a run's folder
front        a front's folder: one run for each tau
certificate  the promise: the upper end of the error, when it is kept, how far below tau to aim
evaluation   evaluation.json
"""
