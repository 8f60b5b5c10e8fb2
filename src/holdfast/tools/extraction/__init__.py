"""Text of pages and documents that strangers wrote, parsed in processes that can be killed."""
