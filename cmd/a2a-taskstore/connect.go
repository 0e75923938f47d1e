package main

import (
	"context"

	"google.golang.org/grpc"

	"github.com/a2a-taskstore/taskstore/client"
)

// connectFlags say how a command that calls a store connects. Their environment has a word more than that of serve, since
// both may run in one container: the server's certificate is not its client's. A token itself is never an argument, which
// every user of the machine could read.
type connectFlags struct {
	TLS           bool   `name:"tls" help:"Speak TLS; implied by the other --tls flags." env:"A2A_TASKSTORE_CLIENT_TLS"`
	TLSCA         string `name:"tls-ca" help:"Authorities for the store's certificate (PEM); without it, the system's." type:"path" placeholder:"FILE" env:"A2A_TASKSTORE_CLIENT_TLS_CA"`
	TLSCert       string `name:"tls-cert" help:"Certificate to present (PEM)." type:"path" placeholder:"FILE" env:"A2A_TASKSTORE_CLIENT_TLS_CERT"`
	TLSKey        string `name:"tls-key" help:"Its key (PEM)." type:"path" placeholder:"FILE" env:"A2A_TASKSTORE_CLIENT_TLS_KEY"`
	TLSServerName string `name:"tls-server-name" help:"The name in the store's certificate, if it is not that of --address." placeholder:"NAME" env:"A2A_TASKSTORE_CLIENT_TLS_SERVER_NAME"`
	TokenFile     string `help:"File with the token to call with." type:"path" placeholder:"FILE" env:"A2A_TASKSTORE_CLIENT_TOKEN_FILE"`
}

// options are those of a client that connects so.
func (f *connectFlags) options(ctx context.Context) ([]client.Option, error) {
	var out []client.Option
	if f.TLS || f.TLSCA != "" || f.TLSCert != "" || f.TLSKey != "" || f.TLSServerName != "" {
		config, err := client.TLSFromFiles(f.TLSCA, f.TLSCert, f.TLSKey)
		if err != nil {
			return nil, usageError{err}
		}
		out = append(out, client.WithTLS(config))
	}
	if f.TLSServerName != "" {
		out = append(out, client.WithDialOptions(grpc.WithAuthority(f.TLSServerName)))
	}
	if f.TokenFile != "" {
		source := client.TokenFromFile(f.TokenFile)
		if _, err := source(ctx); err != nil {
			return nil, usageError{err}
		}
		out = append(out, client.WithTokenSource(source))
	}
	return out, nil
}
