"""A real broker process among clients that mean harm, and on disks that refuse."""
