"""An open log with its memories: settings, policies, the embedded process, the clients."""
