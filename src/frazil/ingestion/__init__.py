"""Files of other formats into repositories: what is in them, whether it fits, where it goes.

Nothing here knows Spark: `pipeline.py` has the public function, puts the steps in order and hands
the work on single files to a `Runner`; `request.py` has the options.
"""
