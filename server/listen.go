package server

import "net"

// DefaultAddress is where a server listens when nothing else is said: on this machine only.
const DefaultAddress = "127.0.0.1:7420"

// Listen returns a TCP listener; "" is DefaultAddress.
func Listen(address string) (net.Listener, error) {
	if address == "" {
		address = DefaultAddress
	}
	return net.Listen("tcp", address)
}
