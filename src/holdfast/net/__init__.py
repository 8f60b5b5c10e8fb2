"""The network gateway: which hosts and addresses can be reached, and every connection to them."""
