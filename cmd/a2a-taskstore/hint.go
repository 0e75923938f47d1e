package main

import "strings"

// hints say what to change when a connection fails, by gRPC's text, which is all that there is to tell it by.
var hints = []struct{ text, hint string }{
	{"authentication handshake failed: tls: first record does not look like a TLS handshake",
		"the store does not speak TLS there, leave out the --tls flags"},
	// Then comes "EOF", or that the connection was reset, if the store had not read all.
	{"error reading server preface: ",
		"the connection was closed at once, a store that speaks TLS needs --tls-ca or --tls"},
	{"authentication handshake failed: tls: failed to verify certificate: x509: certificate signed by unknown authority",
		"the store's certificate needs its authority, --tls-ca"},
}

// hint is what to put before the text of an error, "" if nothing is known.
func hint(err error) string {
	for _, h := range hints {
		if strings.Contains(err.Error(), h.text) {
			return h.hint + ": "
		}
	}
	return ""
}
