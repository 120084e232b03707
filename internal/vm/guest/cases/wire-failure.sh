# What does not work, as it is seen from both ends.
duet failure
