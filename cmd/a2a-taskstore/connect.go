package main

import (
	"context"
	"crypto/tls"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

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

// open reads the files: config is nil without TLS, token without a token.
func (f *connectFlags) open(ctx context.Context) (config *tls.Config, token client.TokenSource, err error) {
	if f.TLS || f.TLSCA != "" || f.TLSCert != "" || f.TLSKey != "" || f.TLSServerName != "" {
		if config, err = client.TLSFromFiles(f.TLSCA, f.TLSCert, f.TLSKey); err != nil {
			return nil, nil, usageError{err}
		}
	}
	if f.TokenFile != "" {
		token = client.TokenFromFile(f.TokenFile)
		if _, err := token(ctx); err != nil {
			return nil, nil, usageError{err}
		}
	}
	return config, token, nil
}

// options are those of a client that connects so.
func (f *connectFlags) options(ctx context.Context) ([]client.Option, error) {
	config, token, err := f.open(ctx)
	if err != nil {
		return nil, err
	}
	var out []client.Option
	if config != nil {
		out = append(out, client.WithTLS(config))
	}
	if f.TLSServerName != "" {
		out = append(out, client.WithDialOptions(grpc.WithAuthority(f.TLSServerName)))
	}
	if token != nil {
		out = append(out, client.WithTokenSource(token))
	}
	return out, nil
}

// dialOptions are those of a bare connection to an address.
func (f *connectFlags) dialOptions(ctx context.Context, address string) ([]grpc.DialOption, error) {
	config, token, err := f.open(ctx)
	if err != nil {
		return nil, err
	}
	var out []grpc.DialOption
	if config != nil {
		out = append(out, grpc.WithTransportCredentials(credentials.NewTLS(config)))
	}
	if f.TLSServerName != "" {
		out = append(out, grpc.WithAuthority(f.TLSServerName))
	}
	if token != nil {
		out = append(out, grpc.WithPerRPCCredentials(bearer{token, config != nil || isExposed(address)}))
	}
	return out, nil
}

// bearer sends a token with every call.
type bearer struct {
	token    client.TokenSource
	needsTLS bool
}

func (b bearer) GetRequestMetadata(ctx context.Context, _ ...string) (map[string]string, error) {
	token, err := b.token(ctx)
	return map[string]string{"authorization": "Bearer " + token}, err
}

func (b bearer) RequireTransportSecurity() bool { return b.needsTLS }
