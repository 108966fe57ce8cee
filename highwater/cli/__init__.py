"""The commands: options in, exit code and output out. No other folder imports this one."""
