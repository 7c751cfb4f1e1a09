"""Does experience make an agent better? s3gym answers by measurement."""
