"""Files of other formats into repositories: what is in them, whether it fits, where it goes.

Nothing here knows Spark: `ingest.py` is the public function, `request.py` its options, and
`pipeline.py` puts the steps in order and hands the work on single files to a `Runner`.
"""
