package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2asrv"

	"github.com/a2a-taskstore/taskstore/client"
)

// agentCmd runs one replica of the agent, for deployments that show the store between replicas.
type agentCmd struct {
	Listen    string `help:"TCP address to serve HTTP on." default:"127.0.0.1:8080"`
	URL       string `help:"Where callers reach the agent, for its card; by default where it listens." placeholder:"URL"`
	Store     string `help:"The store in gRPC's syntax; dns:///NAME:PORT uses every address behind the name in turn." default:"127.0.0.1:7420"`
	TokenFile string `help:"File with the bearer token for the store." type:"path" placeholder:"PATH"`
	TLSCA     string `name:"tls-ca" help:"File with the certificates that the store's must lead to." type:"path" placeholder:"PATH"`
	Plaintext bool   `help:"Reach a store on another machine without TLS, over a network that is trusted."`
}

// Run serves until ctx ends, then lets calls finish.
func (c *agentCmd) Run(ctx context.Context) error {
	options, err := c.options()
	if err != nil {
		return err
	}
	conn, err := client.Dial(c.Store, options...)
	if err != nil {
		return err
	}
	defer conn.Close()
	listener, err := net.Listen("tcp", c.Listen)
	if err != nil {
		return fmt.Errorf("cannot listen: %w", err)
	}
	url := c.URL
	if url == "" {
		url = "http://" + listener.Addr().String()
	}
	mux := http.NewServeMux()
	mux.Handle("/", a2asrv.NewJSONRPCHandler(newHandler(conn)))
	mux.Handle(a2asrv.WellKnownAgentCardPath, a2asrv.NewStaticAgentCardHandler(card(url)))
	mux.HandleFunc("GET /livez", func(http.ResponseWriter, *http.Request) {})
	web := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}

	served := make(chan error, 1)
	go func() { served <- web.Serve(listener) }()
	fmt.Printf("agent on %s, tasks in the store at %s\n", listener.Addr(), c.Store)
	select {
	case err := <-served:
		return fmt.Errorf("serving ended: %w", err)
	case <-ctx.Done():
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	return web.Shutdown(ctx)
}

func (c *agentCmd) options() ([]client.Option, error) {
	var out []client.Option
	if c.TokenFile != "" {
		out = append(out, client.WithTokenSource(client.TokenFromFile(c.TokenFile)))
	}
	switch {
	case c.Plaintext && c.TLSCA != "":
		return nil, errors.New("--plaintext and --tls-ca exclude each other")
	case c.Plaintext:
		out = append(out, client.WithInsecure())
	case c.TLSCA != "":
		config, err := client.TLSFromFiles(c.TLSCA, "", "")
		if err != nil {
			return nil, err
		}
		out = append(out, client.WithTLS(config))
	}
	return out, nil
}

func card(url string) *a2a.AgentCard {
	return &a2a.AgentCard{
		Name:                "a2a-taskstore demo",
		Description:         "Writes verses, slowly.",
		Version:             "1",
		SupportedInterfaces: []*a2a.AgentInterface{a2a.NewAgentInterface(url, a2a.TransportProtocolJSONRPC)},
		Capabilities:        a2a.AgentCapabilities{Streaming: true},
		DefaultInputModes:   []string{"text/plain"},
		DefaultOutputModes:  []string{"text/plain"},
		Skills: []a2a.AgentSkill{{
			ID: "write", Name: "write", Description: "Streams sixty lines of text in three seconds.", Tags: []string{"demo"},
		}},
	}
}
