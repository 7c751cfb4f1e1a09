"""Published tables of the S3Gym paper, as package data."""
