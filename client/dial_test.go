package client_test

import (
	"errors"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials"

	"github.com/a2a-taskstore/taskstore/client"
	taskstorev1 "github.com/a2a-taskstore/taskstore/gen/a2ataskstore/v1"
)

func TestDial(t *testing.T) {
	t.Parallel()
	tls := client.WithTransportCredentials(credentials.NewTLS(nil))
	tests := []struct {
		target string
		opts   []client.Option
		ok     bool
	}{
		{"localhost:7420", nil, true},
		{"LOCALHOST:7420", nil, true},
		{"localhost", nil, true},
		{"127.0.0.1:7420", nil, true},
		{"127.9.9.9:7420", nil, true},
		{"[::1]:7420", nil, true},
		{"dns:///localhost:7420", nil, true},
		{"dns:localhost:7420", nil, true},
		{"passthrough:///127.0.0.1:7420", nil, true},
		{"unix:///run/store.sock", nil, true},
		{"unix:store.sock", nil, true},
		{"unix-abstract:store", nil, true},

		{"store.example:7420", nil, false},
		{"localhost.example:7420", nil, false},
		{"10.0.0.1:7420", nil, false},
		{"0.0.0.0:7420", nil, false},
		{"[2001:db8::1]:7420", nil, false},
		{"dns:///store.example:7420", nil, false},
		{"dns://192.0.2.1/localhost:7420", nil, false},
		{"", nil, false},

		{"store.example:7420", []client.Option{client.WithInsecure()}, true},
		{"store.example:7420", []client.Option{tls}, true},
		{"store.example:7420", []client.Option{tls, client.WithToken("t")}, true},
		{"store.example:7420", []client.Option{client.WithInsecure(), client.WithToken("t")}, true},
		{"localhost:7420", []client.Option{client.WithToken("t")}, true},

		{"localhost:7420", []client.Option{client.WithTransportCredentials(nil)}, false},
		{"localhost:7420", []client.Option{client.WithPerRPCCredentials(nil)}, false},
		{"localhost:7420", []client.Option{client.WithMaxMessageSize(0)}, false},
		{"localhost:7420", []client.Option{client.WithKeepalive(time.Minute, 0)}, false},
		{"localhost:7420", []client.Option{client.WithRetryBudget(0)}, false},
		{"localhost:7420", []client.Option{client.WithAttemptTimeout(-1)}, false},
		{"localhost:7420", []client.Option{client.WithMaxAttempts(-1)}, false},
		{"localhost:7420", []client.Option{client.WithBackoff(2, 1)}, false},
		{"localhost:7420", []client.Option{client.WithTracerProvider(nil)}, false},
	}
	for _, tt := range tests {
		c, err := client.Dial(tt.target, tt.opts...)
		if (err == nil) != tt.ok {
			t.Errorf("Dial(%q, %d options): %v", tt.target, len(tt.opts), err)
		}
		if err != nil {
			continue
		}
		if state := c.Conn().GetState(); state != connectivity.Idle {
			t.Errorf("Dial(%q) connects at once: %v", tt.target, state)
		}
		if err := errors.Join(c.Close(), c.Close()); err != nil {
			t.Errorf("close: %v", err)
		}
	}
}

// A connection that was closed behind the client's back is a closed client, not an outage to sit out.
func TestConnClosedDirectly(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, _ *fake, n *network) {
		c, err := client.Dial("passthrough:///fake", client.WithInsecure(), client.WithDialOptions(grpc.WithContextDialer(n.dial)))
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Conn().Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Get(t.Context(), &taskstorev1.GetRequest{TaskId: "t"}); !errors.Is(err, client.ErrClosed) {
			t.Errorf("error %v, want %v", err, client.ErrClosed)
		}
	})
}
