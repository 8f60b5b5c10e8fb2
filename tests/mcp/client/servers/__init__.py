"""Server programs the tests of the bridge start."""
