"""What an action would lead to: the konnector's own code, on drafts of both clusters."""
