"""What can be audited: images, tables, texts, features and saved datasets."""
