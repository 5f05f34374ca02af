"""Order, stages, streams and addresses of a legal graph; a validator beside every solver."""
