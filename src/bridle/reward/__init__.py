"""What an arm is worth: the posteriors of reward."""
