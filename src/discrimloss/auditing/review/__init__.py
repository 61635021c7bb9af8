"""The review of an audit: a page in a browser, and the decisions that are made there."""
