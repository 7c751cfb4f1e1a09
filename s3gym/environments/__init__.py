"""Our games as environments of other libraries; for training and experiments of one's own.

These hand out rewards, which a study withholds: nothing here is the S3Gym protocol.
"""
