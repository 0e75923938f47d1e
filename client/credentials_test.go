package client_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/metadata"

	"github.com/a2a-taskstore/taskstore/client"
)

// authorizations collects what calls were authorized with.
func authorizations(f *fake) *[]string {
	var got []string
	f.before = func(ctx context.Context, _ string, _ int) error {
		md, _ := metadata.FromIncomingContext(ctx)
		got = append(got, md.Get("authorization")...)
		return nil
	}
	return &got
}

func TestTokens(t *testing.T) {
	t.Parallel()
	failure := errors.New("the vault is sealed")
	for name, tt := range map[string]struct {
		option client.Option
		want   string
		err    error
	}{
		"token":    {client.WithToken("secret"), "Bearer secret", nil},
		"no token": {client.WithToken(""), "", nil},
		"source": {client.WithTokenSource(func(context.Context) (string, error) { return "fresh", nil }),
			"Bearer fresh", nil},
		"failing source": {client.WithTokenSource(func(context.Context) (string, error) { return "", failure }),
			"", client.ErrUnauthenticated},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubble(t, func(t *testing.T, f *fake, n *network) {
				got := authorizations(f)
				_, err := connect(t, n, tt.option).Save(t.Context(), put("t"))
				if !errors.Is(err, tt.err) {
					t.Errorf("error %v, want %v", err, tt.err)
				}
				if sent := append(*got, "")[0]; sent != tt.want {
					t.Errorf("sent %q, want %q", sent, tt.want)
				}
			})
		})
	}
}

// A token that is replaced in its file is soon used; one that cannot be read leaves the last one.
func TestTokenFromFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "token")
	write := func(text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		source := client.TokenFromFile(path)
		want := func(token string) {
			t.Helper()
			if got, err := source(t.Context()); got != token || (err == nil) != (token != "") {
				t.Errorf("token %q, %v, want %q", got, err, token)
			}
		}
		want("")
		write("\n")
		want("")
		write("first\nsecond\n")
		want("")
		write(" first\n")
		want("first")
		write("second")
		want("first")
		time.Sleep(5 * time.Second) // of the bubble's clock
		want("second")
		write("second third")
		time.Sleep(5 * time.Second)
		want("second")
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		want("second")
	})
}

func TestTLSFromFilesNeedsBoth(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "empty")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, files := range [][3]string{
		{path, "", ""}, {path + "-absent", "", ""}, {"", path, ""}, {"", "", path}, {"", path, path},
	} {
		if _, err := client.TLSFromFiles(files[0], files[1], files[2]); err == nil {
			t.Errorf("%q is accepted", files)
		}
	}
	if config, err := client.TLSFromFiles("", "", ""); err != nil || config.RootCAs != nil {
		t.Errorf("%v, %v", config, err)
	}
}
