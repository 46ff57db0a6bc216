"""The shapes that flows are built in: controller and executor, ring, branch."""
